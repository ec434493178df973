//! Construction of the graph of a training step from the specification of a relation's step.

use super::builder::{GraphBuilder, RowTensors};
use super::dimension::{Dim, ElementType};
use super::error::ShapeError;
use super::graph::{BatchGraph, BatchPass, Operation, Stage, TensorLife, TensorName};
use super::step_spec::StepSpec;
use crate::graph::Side;
use crate::model::Operator;

impl BatchGraph {
    /// Builds the graph of a relation's step.
    ///
    /// # Errors
    /// Returns the first operand whose shape does not fit its node.
    pub fn new(step_spec: &StepSpec) -> Result<Self, ShapeError> {
        let mut builder = GraphBuilder::new(step_spec);
        for pass in 0..builder.graph.passes.len() {
            builder.pass(pass)?;
        }
        builder.updates()?;
        Ok(builder.graph)
    }
}

impl GraphBuilder {
    fn pass(&mut self, index: usize) -> Result<(), ShapeError> {
        let pass = self.graph.passes[index];
        self.pass = Some(index);
        if index == 0 && self.step_spec().relations.is_none() {
            self.read()?;
        }
        let mut all = [None; 2];
        for &side in pass.replaced {
            if self.step_spec().all(side) {
                all[side as usize] = Some(self.rows(pass, side, true)?);
            }
        }
        let mut rows = [self.rows(pass, Side::Lhs, false)?; 2];
        rows[1] = self.rows(pass, Side::Rhs, false)?;
        let mut positives = [None; 2];
        let mut candidates = [None; 2];
        for &side in pass.replaced {
            self.direction = Some(side);
            let with = all[side as usize].unwrap_or(rows[side as usize]);
            candidates[side as usize] = Some(self.compare(side, with, rows, &mut positives)?);
            self.direction = None;
        }
        self.predict_relations(pass, rows)?;
        for side in Side::BOTH {
            let candidates = candidates[side as usize].filter(|_| !self.step_spec().all(side));
            self.back_rows(pass, side, rows[side as usize], positives, candidates)?;
        }
        for &side in pass.replaced {
            if let (Some(prepared), Some(gradients)) =
                (all[side as usize], candidates[side as usize])
            {
                let gradients = self.back(pass, side, prepared, gradients)?;
                self.sum(side, gradients)?;
            }
        }
        self.regularize_parameters(pass)
    }

    /// Adds nodes that copy the parameters of the single relation.
    fn read(&mut self) -> Result<(), ShapeError> {
        let name = |what, side| TensorName {
            what,
            side: Some(side),
        };
        if self.step_spec().operator != Operator::None {
            let result = name("parameters", Side::Rhs);
            let read = self.node(
                name("read", Side::Rhs),
                Operation::Read,
                &[self.shared[1]],
                &[(result, None)],
            )?;
            self.parameters[1] = read[0];
        }
        if !self.step_spec().global {
            return Ok(());
        }
        for side in Side::BOTH {
            let result = name("global embedding", side);
            let operand = self.globals[side as usize];
            let read = self.node(
                name("read", side),
                Operation::Read,
                &[operand],
                &[(result, None)],
            )?;
            self.globals[side as usize] = read[0];
        }
        Ok(())
    }

    /// Adds the nodes that look up, transform and prepare the rows of `side`: those of a slice, or all.
    fn rows(&mut self, pass: BatchPass, side: Side, all: bool) -> Result<RowTensors, ShapeError> {
        let i = side as usize;
        let name = |what| TensorName {
            what,
            side: Some(side),
        };
        let transforms = self.transforms(pass, side);
        let [rows_name, input_name, extras_name, half_name] = names_of_rows(all);
        let looked_up = name(if transforms { input_name } else { rows_name });
        let mut rows = self.looked_up(pass, side, all, looked_up)?;
        if self.step_spec().global {
            let inputs = [rows, self.globals[i]];
            rows = self.in_place(name("global"), Operation::Global, &inputs)?;
        }
        let mut input = None;
        if transforms {
            let operator = self.step_spec().operator;
            let inputs = [rows, self.parameters[i], self.attributes];
            let inputs = match self.step_spec().relations {
                None => &inputs[..2],
                Some(_) => &inputs[..],
            };
            input = Some(rows);
            let result = [(name(rows_name), None)];
            rows = self.node(
                name("operator"),
                Operation::Operator(operator),
                inputs,
                &result,
            )?[0];
        }
        let bias = self.step_spec().bias;
        rows = self.in_place(name("prepare"), Operation::Prepare { bias }, &[rows])?;
        let mut dims = self.dims(rows);
        dims.pop();
        dims.push(Dim::Count(3));
        let extras = self.add_buffer(extras_name, Some(side), &dims, ElementType::F32);
        let mut factor = rows;
        if self.step_spec().half {
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
        pass: BatchPass,
        side: Side,
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
            let draws = self.step_spec().uniform(side);
            if draws > 0 && pass.replaced.contains(&side) {
                let dims = [Dim::Chunks, Dim::Draws(side, draws)];
                inputs.push(self.tensor(
                    "draws",
                    Some(side),
                    &dims,
                    ElementType::U32,
                    TensorLife::Column,
                ));
            }
        }
        let name = TensorName {
            what,
            side: Some(side),
        };
        Ok(self.node(name, operation, &inputs, &[(result, None)])?[0])
    }

    pub(super) fn transforms(&self, pass: BatchPass, side: Side) -> bool {
        side == pass.operator_side && self.step_spec().operator != Operator::None
    }

    /// Adds the nodes for the scores of the candidates that replace `side`, the loss, and the gradients. Returns the
    /// gradients of the candidates.
    fn compare(
        &mut self,
        side: Side,
        candidates: RowTensors,
        rows: [RowTensors; 2],
        positives: &mut [Option<usize>; 2],
    ) -> Result<usize, ShapeError> {
        let name = |what| TensorName {
            what,
            side: Some(side),
        };
        let of = |what| TensorName { what, side: None };
        let queries = rows[side.other() as usize];
        let columns = self.step_spec().columns(side);
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
        let scored = self.node(name("score"), operation, &inputs, &results)?;
        let lengths = self.add_buffer(
            "distances of positives",
            None,
            &per_positive,
            ElementType::F32,
        );
        let distances = self
            .step_spec()
            .is_distance()
            .then(|| self.add_buffer("distances", None, &matrix, ElementType::F32));
        if self.step_spec().half {
            self.add_buffer("bf16 scores", None, &matrix, ElementType::Bf16);
        }
        let positive = of("gradients of positives' scores");
        let results = [(of("scores"), Some(scored[0])), (positive, None)];
        let inputs = [scored[0], scored[1], self.attributes];
        let lost = self.node(name("loss"), Operation::Loss, &inputs, &results)?;
        self.add_buffer("loss", None, &per_positive, ElementType::F32);
        self.cluster = Stage::Differentiate;
        let mut scores = lost[0];
        if self.step_spec().half {
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
        if !self.step_spec().in_batch(side) || self.step_spec().is_distance() {
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
            let name = TensorName {
                what: "gradients of positives",
                side: Some(side),
            };
            (name, positives[side as usize])
        });
        let name = TensorName {
            what: "positive gradients",
            side: Some(side),
        };
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
