//! A model in double precision, and its training loss: edge by edge and score by score.

use pbg_core::graph::Side;
use pbg_core::model::{Comparator, Operator, Regularizer};
use pbg_kernels::negatives::NegativeDraws;
use pbg_rows::spec::ModelSpec;

use crate::losses::{LossKind, row_loss};

/// All numbers of a model.
#[derive(Clone, Debug)]
pub struct Model {
    /// Specification of the model.
    pub spec: ModelSpec,
    /// Rows of each side's table; if `shared`, those of the left side belong to both.
    pub tables: [Vec<Vec<f64>>; 2],
    /// Whether both sides are the same table.
    pub shared: bool,
    /// Features of each entity, per side.
    pub features: [Option<Vec<Vec<u32>>>; 2],
    /// Packed operator parameters per side and relation.
    pub operators: [Vec<Vec<f64>>; 2],
    /// Global embedding of each entity type; empty if there is none.
    pub globals: Vec<Vec<f64>>,
}

/// Edges of one batch.
#[derive(Clone, Debug)]
pub struct Edges {
    /// Entity offsets of each side.
    pub sides: [Vec<u32>; 2],
    /// Relation type of each edge.
    pub relations: Vec<u32>,
    /// Weight of each edge; `None` if every weight is 1.
    pub weights: Option<Vec<f32>>,
    /// Uniform negatives.
    pub draws: NegativeDraws,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

impl Model {
    fn table(&self, side: Side) -> &[Vec<f64>] {
        &self.tables[if self.shared { 0 } else { side as usize }]
    }

    /// Returns the number of entities of `side`.
    pub fn entities(&self, side: Side) -> usize {
        self.features[side as usize]
            .as_ref()
            .map_or(self.table(side).len(), Vec::len)
    }

    fn embed(&self, side: Side, relation: u32, entity: u32) -> Vec<f64> {
        let mut row = match &self.features[side as usize] {
            None => self.table(side)[entity as usize].clone(),
            Some(features) => {
                let ids = &features[entity as usize];
                let mut mean = vec![0.0; self.table(side)[0].len()];
                for &id in ids {
                    for (m, x) in mean.iter_mut().zip(&self.table(side)[id as usize]) {
                        *m += x / ids.len() as f64;
                    }
                }
                mean
            }
        };
        let global = &self.globals[self.spec.relation(relation).entity(side)];
        row.iter_mut().zip(global).for_each(|(x, g)| *x += g);
        row
    }

    fn operate(&self, side: Side, relation: u32, x: &[f64]) -> Vec<f64> {
        let p = &self.operators[side as usize][relation as usize];
        let d = x.len();
        match self.spec.relation(relation).operator {
            Operator::None => x.to_vec(),
            Operator::Diagonal => x.iter().zip(p).map(|(x, p)| x * p).collect(),
            Operator::Translation => x.iter().zip(p).map(|(x, p)| x + p).collect(),
            Operator::Linear => p.chunks(d).map(|row| dot(row, x)).collect(),
            Operator::Affine => p[..d * d]
                .chunks(d)
                .zip(&p[d * d..])
                .map(|(row, t)| dot(row, x) + t)
                .collect(),
            Operator::ComplexDiagonal => {
                let h = d / 2;
                let re = (0..h).map(|i| x[i] * p[i] - x[h + i] * p[h + i]);
                re.chain((0..h).map(|i| x[i] * p[h + i] + x[h + i] * p[i]))
                    .collect()
            }
            Operator::Traced(formula) => formula.apply(x, p),
        }
    }

    fn normalise(&self, x: &[f64]) -> Vec<f64> {
        let mut x = x.to_vec();
        if self.spec.comparator == Comparator::Cos {
            let compared = &mut x[usize::from(self.spec.bias)..];
            let norm = dot(compared, compared).sqrt();
            compared.iter_mut().for_each(|x| *x /= norm);
        }
        x
    }

    /// Returns the score of a query with an embedding that replaces `side`.
    pub fn compare(&self, side: Side, query: &[f64], replacing: &[f64]) -> f64 {
        let (a, b) = match side {
            Side::Lhs => (replacing, query),
            Side::Rhs => (query, replacing),
        };
        let (mut a, mut b) = (self.normalise(a), self.normalise(b));
        let skip = usize::from(self.spec.bias);
        let bias = if self.spec.bias { a[0] + b[0] } else { 0.0 };
        // Comparators with components see a zero in the place of a bias.
        match self.spec.comparator {
            Comparator::ComplexL1 => {
                a[..skip].fill(0.0);
                b[..skip].fill(0.0);
                let h = a.len() / 2;
                let modulus = |i: usize| (a[i] - b[i]).hypot(a[h + i] - b[h + i]);
                return bias - (0..h).map(modulus).sum::<f64>();
            }
            Comparator::Traced(formula) => {
                a[..skip].fill(0.0);
                b[..skip].fill(0.0);
                return bias + formula.compare(&a, &b).score;
            }
            _ => {}
        }
        let (a, b) = (&a[skip..], &b[skip..]);
        let square = a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f64>();
        bias + match self.spec.comparator {
            Comparator::Dot | Comparator::Cos => dot(a, b),
            Comparator::L2 => -square.max(1e-30).sqrt(),
            Comparator::SquaredL2 => -square,
            Comparator::L1 | Comparator::ComplexL1 | Comparator::Traced(_) => {
                -a.iter().zip(b).map(|(x, y)| (x - y).abs()).sum::<f64>()
            }
        }
    }

    /// Returns an entity on `side` as it is compared when negatives replace the side `replaced`.
    pub fn adjusted(&self, side: Side, replaced: Side, relation: u32, entity: u32) -> Vec<f64> {
        let x = self.embed(side, relation, entity);
        match (self.spec.is_dynamic(), side) {
            (true, _) if side == replaced => x,
            (true, _) | (false, Side::Rhs) => self.operate(side, relation, &x),
            // The operator of both sides has one set of parameters, that of the right side.
            (false, Side::Lhs) => match self.spec.relation(relation).operator {
                Operator::Traced(formula) => match formula.formula().lhs() {
                    Some(lhs) => {
                        lhs.apply(&x, &self.operators[Side::Rhs as usize][relation as usize])
                    }
                    None => x,
                },
                _ => x,
            },
        }
    }

    /// Returns the entities of the unmasked negatives of edge `i` that replace `side`, and the number of columns
    /// including masked ones.
    pub fn negatives(&self, edges: &Edges, side: Side, i: usize) -> (Vec<u32>, usize) {
        let relation = self.spec.relation(edges.relations[i]);
        let entities = &edges.sides[side as usize];
        if self.spec.disabled(side) {
            return (Vec::new(), 0);
        }
        if relation.all_negs {
            let all = (0..self.entities(side) as u32).filter(|&e| e != entities[i]);
            return (all.collect(), self.entities(side));
        }
        let chunk = self.spec.chunk_size(relation, entities.len());
        let uniform = self.spec.uniform_negatives(relation, side);
        let first = i / chunk * chunk;
        let mut ids = Vec::new();
        let mut columns = uniform;
        if self.spec.num_batch_negs > 0 {
            columns += chunk;
            ids.extend(
                (first..(first + chunk).min(entities.len()))
                    .filter(|&j| j != i)
                    .map(|j| entities[j]),
            );
        }
        let drawn = edges
            .draws
            .counts(side)
            .map_or(uniform, |counts| counts[i] as usize);
        let first = i / chunk * uniform;
        ids.extend(&edges.draws.side(side)[first..first + drawn]);
        (ids, columns)
    }

    /// Returns the score of edge `i` with its entity on `side` replaced by `entity`.
    pub fn score(&self, edges: &Edges, side: Side, i: usize, entity: u32) -> f64 {
        let (relation, known) = (edges.relations[i], edges.sides[side.other() as usize][i]);
        let query = self.adjusted(side.other(), side, relation, known);
        self.compare(side, &query, &self.adjusted(side, side, relation, entity))
    }

    /// Returns the score of the positive, the scores of the negatives, and the number of columns, for edge `i` and one
    /// direction.
    pub fn scores(&self, edges: &Edges, side: Side, i: usize) -> (f64, Vec<f64>, usize) {
        let (ids, columns) = self.negatives(edges, side, i);
        let score = |entity| self.score(edges, side, i, entity);
        let positive = score(edges.sides[side as usize][i]);
        (positive, ids.into_iter().map(score).collect(), columns)
    }

    /// Returns the loss of the batch, with weights and regularizer.
    pub fn loss(&self, edges: &Edges, kind: LossKind) -> f64 {
        let mut total = 0.0;
        for i in 0..edges.relations.len() {
            let weight = f64::from(self.spec.relation(edges.relations[i]).weight)
                * edges.weights.as_ref().map_or(1.0, |w| f64::from(w[i]));
            for side in Side::BOTH {
                let (positive, negatives, columns) = self.scores(edges, side, i);
                total += weight * row_loss(kind, positive, &negatives, columns);
                total += weight * self.relation_loss(edges, side, i);
            }
        }
        total + f64::from(self.spec.regularization_coef) * self.penalty(edges)
    }

    /// Returns the cross-entropy of the relation type of edge `i` among all relation types of both directions, each
    /// scored by its operator; `side` is the side that is replaced.
    fn relation_loss(&self, edges: &Edges, side: Side, i: usize) -> f64 {
        let weight = f64::from(self.spec.relation_prediction);
        if weight == 0.0 {
            return 0.0;
        }
        let relation = edges.relations[i];
        let [x, y] =
            [side.other(), side].map(|end| self.embed(end, relation, edges.sides[end as usize][i]));
        let score = |(direction, relation)| {
            self.compare(Side::Rhs, &self.operate(direction, relation, &x), &y)
        };
        let own = (side.other(), relation);
        let all = Side::BOTH.into_iter().flat_map(|direction| {
            (0..self.spec.relation_count() as u32).map(move |relation| (direction, relation))
        });
        let others: Vec<f64> = all.filter(|class| *class != own).map(score).collect();
        weight * row_loss(LossKind::Softmax, score(own), &others, others.len())
    }

    /// Returns the regularizer of all embeddings and parameters without its coefficient.
    fn penalty(&self, edges: &Edges) -> f64 {
        let dura = self.spec.regularizer == Regularizer::Dura;
        let dynamic = self.spec.is_dynamic();
        let directions: &[Side] = if dynamic { &Side::BOTH } else { &[Side::Lhs] };
        let mut total = 0.0;
        for &replaced in directions {
            for (i, &relation) in edges.relations.iter().enumerate() {
                for side in Side::BOTH {
                    let entity = edges.sides[side as usize][i];
                    let x = match self.spec.regularizer {
                        Regularizer::N3 | Regularizer::Dura => {
                            self.normalise(&self.adjusted(side, replaced, relation, entity))
                        }
                        Regularizer::N3Embeddings => self.embed(side, relation, entity),
                    };
                    total += match dura {
                        true => x.iter().map(|x| x * x).sum(),
                        false => self.cubes(relation, &x),
                    };
                }
                let chunk = self
                    .spec
                    .chunk_size(self.spec.relation(relation), edges.relations.len());
                // Static parameters count once per chunk.
                if !dura && (dynamic || i % chunk == 0) {
                    let side = if dynamic { replaced.other() } else { Side::Rhs };
                    total +=
                        self.cubes(relation, &self.operators[side as usize][relation as usize]);
                }
            }
        }
        total
    }

    fn cubes(&self, relation: u32, x: &[f64]) -> f64 {
        if self.spec.relation(relation).operator == Operator::ComplexDiagonal {
            let (re, im) = x.split_at(x.len() / 2);
            return re
                .iter()
                .zip(im)
                .map(|(a, b)| (a * a + b * b).powf(1.5))
                .sum();
        }
        x.iter().map(|x| x.abs().powi(3)).sum()
    }
}
