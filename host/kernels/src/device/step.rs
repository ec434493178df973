//! One batch on a device: what each cluster of the graph does.

use pbg_core::batch_graph::{Negatives, Pass};
use pbg_core::graph::Side;
use pbg_core::model::Operator;
use pbg_core::strategy::Formula;
use tch::{Kind, TchError, Tensor};

use super::formula::{self, Losses};
use super::operator::Transform;
use super::parameters::Read;
use super::place::Place;
use super::rows::{Gradients, Prepared, cubes};
use super::scores::{Compared, Direction, Scores};
use super::sums::{POSITIVE_GRADIENTS, REGULARIZER, Sums};
use super::touched::Touched;
use super::transfer;
use super::working_set::WorkingSet;
use crate::comparators::Comparison;
use crate::regularizer::N3;
use crate::spec::ModelSpec;
use crate::step::job::Job;
use crate::step::plan::{Plan, Slice};
use crate::step::side::pair;
use crate::step::{ScoreObserver, StepError};

/// What one batch is worked on with, and what there is of it so far.
pub(super) struct Work<'a> {
    pub(super) spec: &'a ModelSpec,
    pub(super) plan: &'a Plan,
    pub(super) job: &'a Job<'a>,
    pub(super) place: Place,
    pub(super) half: bool,
    pub(super) formula: Option<Formula>,
    pub(super) touched: Touched,
    pub(super) set: WorkingSet,
    pub(super) read: Read,
    /// Factors of the edges' losses, `[edges]`, where any is not 1.
    pub(super) weights: Option<Tensor>,
    /// With all negatives: every entity that replaces a side, and its gradients over the whole batch.
    pub(super) all: [Option<(Prepared, Gradients)>; 2],
    pub(super) current: Option<Current>,
    pub(super) sums: Sums,
}

/// The slice that is being worked on.
pub(super) struct Current {
    rows: [Prepared; 2],
    gradients: [Gradients; 2],
    scores: Option<Scores>,
}

/// Scores that a guest is asked about at once: as many as a slice on a core has.
const ASKED_AT_ONCE: i64 = 1 << 18;

impl Work<'_> {
    fn comparison(&self) -> Comparison {
        Comparison {
            comparator: self.spec.comparator,
            bias: self.spec.bias,
        }
    }

    fn n3(&self) -> Option<N3> {
        let coefficient = self.spec.regularization_coef;
        (coefficient > 0.0).then_some(N3 {
            coefficient,
            complex: self.plan.operator == Operator::ComplexDiagonal,
        })
    }

    fn operator(&self, pass: &Pass, side: Side) -> Operator {
        match side == pass.operator_side {
            true => self.plan.operator,
            false => Operator::None,
        }
    }

    /// The place of each relation of a slice's edges, with dynamic relations.
    fn relations(&self, slice: &Slice) -> Result<Option<Tensor>, TchError> {
        match self.job.relations() {
            Some(_) => Ok(Some(part(&self.touched.relation_of_edge, slice)?)),
            None => Ok(None),
        }
    }

    /// Looks up, transforms and prepares the rows at `places`.
    fn prepare(
        &mut self,
        side: Side,
        operator: Operator,
        places: &Tensor,
        relations: Option<&Tensor>,
    ) -> Result<Prepared, TchError> {
        let mut rows = self.set.look_up(places, self.spec.max_norm)?;
        if let Some(global) = self.read.global(side) {
            let _same = rows.f_add_(&global.values)?;
        }
        let transform = Transform {
            operator,
            relations,
        };
        let comparison = self.comparison();
        Prepared::new(rows, &transform, self.read.operator(side), comparison)
    }

    /// Where the working set has every entity that replaces `side`.
    fn places_of_all(&self, side: Side) -> Result<Tensor, TchError> {
        let first = match side == Side::Rhs && !self.job.tables.shared() {
            true => self.touched.rows[0].size()[0],
            false => 0,
        };
        let count = self.job.tables.side(side).entities() as i64;
        let places = (Kind::Int64, self.place.device());
        Tensor::f_arange_start(first, first + count, places)
    }

    /// Gather, before the slices: prepares every entity where all are negatives.
    pub(super) fn gather_all(&mut self, pass: &Pass) -> Result<(), TchError> {
        for &side in pass.replaced {
            if self.plan.negatives[side as usize] == Negatives::All {
                let places = self.places_of_all(side)?;
                let operator = self.operator(pass, side);
                let rows = self.prepare(side, operator, &places, None)?;
                let gradients = rows.gradients(self.comparison())?;
                self.all[side as usize] = Some((rows, gradients));
            }
        }
        Ok(())
    }

    /// Gather: both sides of a slice.
    pub(super) fn gather(&mut self, pass: &Pass, slice: &Slice) -> Result<(), TchError> {
        // The buffers of the slice before are free first.
        self.current = None;
        let relations = self.relations(slice)?;
        let mut side = |side| {
            let places = self.places(pass, slice, side)?;
            let operator = self.operator(pass, side);
            self.prepare(side, operator, &places, relations.as_ref())
        };
        let rows = [side(Side::Lhs)?, side(Side::Rhs)?];
        let comparison = self.comparison();
        let gradients = [
            rows[0].gradients(comparison)?,
            rows[1].gradients(comparison)?,
        ];
        self.current = Some(Current {
            rows,
            gradients,
            scores: None,
        });
        Ok(())
    }

    /// Where the working set has a slice's positives on `side`, and the draws that replace them.
    fn places(&self, pass: &Pass, slice: &Slice, side: Side) -> Result<Tensor, TchError> {
        let positives = part(&self.touched.positives[side as usize], slice)?;
        let uniform = match pass.replaced.contains(&side) {
            true => self.plan.uniform(side),
            false => 0,
        };
        if uniform == 0 {
            return Ok(positives);
        }
        let first = (slice.first_chunk * uniform) as i64;
        let count = (slice.chunks * uniform) as i64;
        let draws = self.touched.draws[side as usize].f_narrow(0, first, count)?;
        Tensor::f_cat(&[positives, draws], 0)
    }

    fn direction<'s>(&self, slice: &'s Slice, side: Side) -> Result<Direction<'s>, TchError> {
        let negatives = self.plan.negatives[side as usize];
        let truth = &self.touched.truth[side as usize];
        Ok(Direction {
            slice,
            negatives,
            comparison: self.comparison(),
            half: self.half,
            truth: match negatives {
                Negatives::All => part(truth, slice)?,
                Negatives::None | Negatives::Sampled { .. } => truth.shallow_clone(),
            },
        })
    }

    /// Score.
    pub(super) fn score(
        &mut self,
        slice: &Slice,
        side: Side,
        observer: Option<&mut ScoreObserver<'_>>,
    ) -> Result<(), TchError> {
        let direction = self.direction(slice, side)?;
        if let Some(current) = &mut self.current {
            let (candidates, queries) = pair(&mut current.rows, side);
            let all = self.all[side as usize].as_mut().map(|(rows, _)| rows);
            let scores = direction.score(&Compared {
                candidates,
                all,
                queries,
            })?;
            if let Some(observer) = observer {
                let (positive, negative) = (
                    transfer::to_host(&scores.positive)?,
                    transfer::to_host(&scores.negative)?,
                );
                observer(side, slice.rows.start, &positive, &negative);
            }
            current.scores = Some(scores);
        }
        Ok(())
    }

    /// Loss: scores become gradients.
    pub(super) fn lose(&mut self, slice: &Slice, side: Side) -> Result<(), StepError> {
        let Some(scores) = self.current.as_mut().and_then(|c| c.scores.as_mut()) else {
            return Ok(());
        };
        let above = scores
            .negative
            .f_gt_tensor(&scores.positive.f_unsqueeze(1)?)?;
        let violators = above.f_sum(Kind::Int64)?;
        let mut losses = match &self.formula {
            Some(formula) => formula::evaluate(
                formula,
                &formula::Scores {
                    positive: &scores.positive,
                    negative: &scores.negative,
                },
            )?,
            None => ask(self.job, scores, self.place)?,
        };
        if let Some(weights) = &self.weights {
            let weights = part(weights, slice)?;
            losses.loss = losses.loss.f_mul(&weights)?;
            losses.positive = losses.positive.f_mul(&weights)?;
            losses.negative = losses.negative.f_mul(&weights.f_unsqueeze(1)?)?;
        }
        let Losses {
            loss,
            positive,
            negative,
        } = losses;
        self.sums.add(side as usize, &loss.f_sum(Kind::Double)?)?;
        self.sums.add(2 + side as usize, &violators)?;
        self.sums
            .add(POSITIVE_GRADIENTS, &positive.f_sum(Kind::Float)?)?;
        (scores.positive, scores.negative) = (positive, negative);
        Ok(())
    }

    /// Differentiate.
    pub(super) fn differentiate(&mut self, slice: &Slice, side: Side) -> Result<(), TchError> {
        let direction = self.direction(slice, side)?;
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        let Some(scores) = current.scores.take() else {
            return Ok(());
        };
        let (all_rows, all_gradients) = match &mut self.all[side as usize] {
            Some((rows, gradients)) => (Some(rows), Some(gradients)),
            None => (None, None),
        };
        let (candidates, queries) = pair(&mut current.rows, side);
        let rows = Compared {
            candidates,
            all: all_rows,
            queries,
        };
        let (candidates, queries) = pair(&mut current.gradients, side);
        let mut sums = Compared {
            candidates,
            all: all_gradients,
            queries,
        };
        direction.differentiate(&scores, &rows, &mut sums)
    }

    /// Scatter: the gradients of a slice's rows go back and are summed.
    pub(super) fn scatter(&mut self, pass: &Pass, slice: &Slice) -> Result<(), TchError> {
        let Some(current) = self.current.take() else {
            return Ok(());
        };
        let Current {
            rows, gradients, ..
        } = current;
        let relations = self.relations(slice)?;
        for ((side, rows), mut gradients) in Side::BOTH.into_iter().zip(rows).zip(gradients) {
            if let Some(n3) = self.n3() {
                let value = rows.regularize(n3, slice.rows.len() as i64, &mut gradients)?;
                self.sums.add(REGULARIZER, &value)?;
            }
            let places = self.places(pass, slice, side)?;
            let operator = self.operator(pass, side);
            self.back(
                side,
                operator,
                &places,
                relations.as_ref(),
                &rows,
                gradients,
            )?;
        }
        Ok(())
    }

    /// Scatter, after the slices: the gradients of all entities, and N3 of the operator.
    pub(super) fn scatter_all(&mut self, pass: &Pass) -> Result<(), TchError> {
        for &side in pass.replaced {
            if let Some((rows, gradients)) = self.all[side as usize].take() {
                let places = self.places_of_all(side)?;
                let operator = self.operator(pass, side);
                self.back(side, operator, &places, None, &rows, gradients)?;
            }
        }
        self.regularize_parameters(pass)
    }

    fn back(
        &mut self,
        side: Side,
        operator: Operator,
        places: &Tensor,
        relations: Option<&Tensor>,
        rows: &Prepared,
        gradients: Gradients,
    ) -> Result<(), TchError> {
        let transform = Transform {
            operator,
            relations,
        };
        let gradients = rows.back(gradients, &transform, self.read.operator(side))?;
        if let Some(global) = self.read.global(side) {
            let sum = gradients.f_sum_dim_intlist(0_i64, true, None)?;
            let _same = global.gradients.f_add_(&sum)?;
        }
        self.set.add(places, &gradients)
    }

    /// N3 of the operator's parameters, those of each relation as often as it is counted.
    fn regularize_parameters(&mut self, pass: &Pass) -> Result<(), TchError> {
        let Some(n3) = self.n3() else {
            return Ok(());
        };
        let parameters = self.read.operator(pass.operator_side);
        if parameters.is_empty() {
            return Ok(());
        }
        let counts = transfer::floats(&self.touched.relation_counts, self.place)?;
        let packed: Vec<&Tensor> = parameters.iter().map(|p| &p.values).collect();
        let (values, gradients) = cubes(n3, &Tensor::f_cat(&packed, 1)?)?;
        let gradients = gradients.f_mul(&counts.f_unsqueeze(1)?)?;
        let mut first = 0;
        for parameter in parameters {
            let width = parameter.values.size()[1];
            let share = gradients.f_narrow(1, first, width)?;
            let _same = parameter.gradients.f_add_(&share)?;
            first += width;
        }
        let value = values.f_mul(&counts)?.f_sum(Kind::Double)?;
        self.sums.add(REGULARIZER, &value)
    }
}

/// The part of a column that belongs to a slice's edges.
fn part(column: &Tensor, slice: &Slice) -> Result<Tensor, TchError> {
    column.f_narrow(0, slice.rows.start as i64, slice.rows.len() as i64)
}

/// Evaluates a loss that is no formula: scores come to the host, gradients go back.
fn ask(job: &Job<'_>, scores: &Scores, place: Place) -> Result<Losses, StepError> {
    let (rows, columns) = (scores.negative.size()[0], scores.negative.size()[1]);
    let at_once = (ASKED_AT_ONCE / columns.max(1)).max(1);
    let positive = transfer::to_host(&scores.positive)?;
    let (mut gradient, mut loss) = (vec![0.0; positive.len()], vec![0.0; positive.len()]);
    let gradients = scores.negative.f_empty_like()?;
    for first in (0..rows).step_by(at_once as usize) {
        let count = at_once.min(rows - first);
        let mut negative = transfer::to_host(&scores.negative.f_narrow(0, first, count)?)?;
        let range = first as usize..(first + count) as usize;
        job.loss.evaluate(
            &positive[range.clone()],
            &mut negative,
            columns as usize,
            &mut gradient[range.clone()],
            &mut loss[range],
        )?;
        let negative = transfer::floats(&negative, place)?.f_reshape([count, columns])?;
        gradients.f_narrow(0, first, count)?.f_copy_(&negative)?;
    }
    Ok(Losses {
        loss: transfer::floats(&loss, place)?,
        positive: transfer::floats(&gradient, place)?,
        negative: gradients,
    })
}
