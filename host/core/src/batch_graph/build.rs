//! Construction of the graph of a training step from its stages.

use super::builder::{GraphBuilder, RowTensors};
use super::dimension::{Dim, ElementType};
use super::error::ShapeError;
use super::graph::{BatchGraph, Operation, Stage, TensorName};
use super::stages::{CompareStage, GatherStage, PassStages};
use super::step_spec::StepSpec;
use crate::graph::Side;
use crate::model::Operator;

impl BatchGraph {
    /// Builds the graph of the stages of a relation's step.
    ///
    /// # Errors
    /// Returns the first operand whose shape does not fit its node.
    pub(super) fn new(step_spec: &StepSpec, passes: &[PassStages]) -> Result<Self, ShapeError> {
        let mut builder = GraphBuilder::new(step_spec);
        for (index, stages) in passes.iter().enumerate() {
            builder.pass = Some(index);
            builder.pass(stages)?;
        }
        builder.updates()?;
        Ok(builder.graph)
    }
}

impl GraphBuilder<'_> {
    /// Adds the nodes of a pass: those before the loop over slices, those of the loop, and those after it.
    fn pass(&mut self, stages: &PassStages) -> Result<(), ShapeError> {
        self.cluster = Stage::Gather;
        if stages.reads_parameters {
            self.read()?;
        }
        let mut all = [None; 2];
        for side in Side::BOTH {
            if let Some((gather, _)) = &stages.entities[side as usize] {
                all[side as usize] = Some(self.rows(side, gather, true)?);
            }
        }
        let [lhs, rhs] = &stages.gather;
        let rows = [
            self.rows(Side::Lhs, lhs, false)?,
            self.rows(Side::Rhs, rhs, false)?,
        ];
        let mut positives = [None; 2];
        let mut candidates = [None; 2];
        for stage in &stages.compare {
            let side = stage.side as usize;
            let with = all[side].unwrap_or(rows[side]);
            candidates[side] = Some(self.compare(stage, with, rows, &mut positives)?);
        }
        if stages.predict_relations {
            self.predict_relations(stages.pass.operator_side, rows)?;
        }
        self.cluster = Stage::Scatter;
        for side in Side::BOTH {
            let i = side as usize;
            let sampled = candidates[i].filter(|_| all[i].is_none());
            self.back_rows(side, &stages.scatter[i], rows[i], positives[i], sampled)?;
        }
        for side in Side::BOTH {
            let i = side as usize;
            if let (Some((_, scatter)), Some(prepared), Some(gradients)) =
                (&stages.entities[i], all[i], candidates[i])
            {
                let gradients = self.back(side, scatter, prepared, gradients)?;
                self.sum(side, gradients)?;
            }
        }
        match stages.regularize_parameters {
            true => self.regularize_parameters(stages.pass.operator_side),
            false => Ok(()),
        }
    }

    /// Adds nodes that copy the parameters of the single relation.
    fn read(&mut self) -> Result<(), ShapeError> {
        if self.step_spec.operator != Operator::None {
            self.parameters[1] = self.copy("parameters", Side::Rhs, self.shared[1])?;
        }
        if self.step_spec.global {
            for side in Side::BOTH {
                let global = self.globals[side as usize];
                self.globals[side as usize] = self.copy("global embedding", side, global)?;
            }
        }
        Ok(())
    }

    fn copy(
        &mut self,
        what: &'static str,
        side: Side,
        operand: usize,
    ) -> Result<usize, ShapeError> {
        let (name, result) = (TensorName::of("read", side), TensorName::of(what, side));
        Ok(self.node(name, Operation::Read, &[operand], &[(result, None)])?[0])
    }

    /// Adds the nodes that look up, transform and prepare the rows of `side`: those of a slice, or all.
    fn rows(
        &mut self,
        side: Side,
        stage: &GatherStage,
        all: bool,
    ) -> Result<RowTensors, ShapeError> {
        let i = side as usize;
        let name = |what| TensorName::of(what, side);
        let transforms = stage.operator != Operator::None;
        let [rows_name, input_name, extras_name, half_name] = names_of_rows(all);
        let looked_up = name(if transforms { input_name } else { rows_name });
        let mut rows = self.looked_up(side, stage, all, looked_up)?;
        if stage.global {
            let inputs = [rows, self.globals[i]];
            rows = self.in_place(name("global"), Operation::Global, &inputs)?;
        }
        let mut input = None;
        if transforms {
            let parameters = self.parameters[stage.operator_side as usize];
            let inputs = [rows, parameters, self.attributes];
            let inputs = match self.step_spec.relations {
                None => &inputs[..2],
                Some(_) => &inputs[..],
            };
            input = Some(rows);
            let result = [(name(rows_name), None)];
            rows = self.node(
                name("operator"),
                Operation::Operator(stage.operator),
                inputs,
                &result,
            )?[0];
        }
        let bias = self.step_spec.bias;
        rows = self.in_place(name("prepare"), Operation::Prepare { bias }, &[rows])?;
        let mut dims = self.dims(rows);
        dims.pop();
        dims.push(Dim::Count(3));
        let extras = self.add_buffer(extras_name, Some(side), &dims, ElementType::F32);
        let mut factor = rows;
        if stage.rounded {
            let result = [(name(half_name), None)];
            factor = self.node(name("round"), Operation::Round, &[rows], &result)?[0];
        }
        Ok(RowTensors {
            rows,
            extras,
            factor,
            input,
        })
    }

    /// Adds the node that looks up the rows of `side` in the table: all rows, or those of the edges and their
    /// negatives.
    fn looked_up(
        &mut self,
        side: Side,
        stage: &GatherStage,
        all: bool,
        result: TensorName,
    ) -> Result<usize, ShapeError> {
        let i = side as usize;
        let (what, operation) = match all {
            true => ("gather all", Operation::GatherAll),
            false => ("gather", Operation::Gather),
        };
        let mut inputs = vec![self.tables[i]];
        if !all {
            inputs.push(self.columns[i]);
            if stage.uniform > 0 {
                let dims = [Dim::Chunks, Dim::Draws(side, stage.uniform)];
                inputs.push(self.column("draws", Some(side), &dims));
            }
        }
        let name = TensorName::of(what, side);
        Ok(self.node(name, operation, &inputs, &[(result, None)])?[0])
    }

    /// Adds the nodes for the scores of the candidates that replace a side, the loss, and the gradients. Returns the
    /// gradients of the candidates.
    fn compare(
        &mut self,
        stage: &CompareStage,
        candidates: RowTensors,
        rows: [RowTensors; 2],
        positives: &mut [Option<usize>; 2],
    ) -> Result<usize, ShapeError> {
        let side = stage.side;
        let name = |what| TensorName::of(what, side);
        let of = |what| TensorName { what, side: None };
        let queries = rows[side.other() as usize];
        let columns = self.step_spec.columns(side);
        let matrix = [Dim::Chunks, Dim::Positives, columns];
        let per_positive = [Dim::Chunks, Dim::Positives];
        let results = [(of("scores"), None), (of("scores of positives"), None)];
        let inputs = [
            queries.factor,
            candidates.factor,
            queries.extras,
            candidates.extras,
        ];
        let operation = Operation::Score { columns };
        self.cluster = Stage::Score;
        let scored = self.node(name("score"), operation, &inputs, &results)?;
        let lengths = self.add_buffer(
            "distances of positives",
            None,
            &per_positive,
            ElementType::F32,
        );
        let distances = self
            .step_spec
            .is_distance()
            .then(|| self.add_buffer("distances", None, &matrix, ElementType::F32));
        if stage.rounded {
            self.add_buffer("bf16 scores", None, &matrix, ElementType::Bf16);
        }
        let positive = of("gradients of positives' scores");
        let results = [(of("scores"), Some(scored[0])), (positive, None)];
        let inputs = [scored[0], scored[1], self.attributes];
        self.cluster = Stage::Loss;
        let lost = self.node(name("loss"), Operation::Loss, &inputs, &results)?;
        self.add_buffer("loss", None, &per_positive, ElementType::F32);
        self.cluster = Stage::Differentiate;
        let mut scores = lost[0];
        if stage.rounded {
            let result = [(of("bf16 scores"), None)];
            scores = self.node(name("round"), Operation::Round, &[lost[0]], &result)?[0];
        }
        let distances = distances.unwrap_or(lengths);
        self.query_gradients(
            side,
            [scores, candidates.factor, lost[0], distances],
            positives,
        )?;
        let inputs = [scores, queries.factor, candidates.factor];
        let gradients = self.candidate_gradients(side, &inputs)?;
        // For distances, the positives' own scores are computed separately, because small ones would lose all digits in
        // the difference.
        if stage.pairwise_positives {
            let inputs = [lost[1], rows[side as usize].rows, queries.rows, lengths];
            self.positive_gradients(side, &inputs, positives)?;
        }
        Ok(gradients)
    }

    /// Adds the node for the gradients of the positives of both sides through their own scores, which it adds to
    /// existing gradients.
    fn positive_gradients(
        &mut self,
        side: Side,
        inputs: &[usize],
        positives: &mut [Option<usize>; 2],
    ) -> Result<(), ShapeError> {
        let sides = [side, side.other()];
        let kept = sides.map(|side| {
            let name = TensorName::of("gradients of positives", side);
            (name, positives[side as usize])
        });
        let name = TensorName::of("positive gradients", side);
        let outputs = self.node(name, Operation::PositiveGradients, inputs, &kept)?;
        for (side, output) in sides.into_iter().zip(outputs) {
            self.positives_begin(side, positives[side as usize]);
            positives[side as usize] = Some(output);
        }
        Ok(())
    }
}

/// Returns the names of rows after and before the operator, of their extras, and of their rounded form: those of a
/// slice, or of all rows.
const fn names_of_rows(all: bool) -> [&'static str; 4] {
    match all {
        false => [
            "rows",
            "rows before operator",
            "lengths and biases",
            "bf16 rows",
        ],
        true => [
            "all entities",
            "all before operator",
            "all lengths and biases",
            "all in bf16",
        ],
    }
}
