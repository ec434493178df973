//! The nodes after the loss: gradients, their sums and the updates.

use super::builder::{GraphBuilder, RowTensors};
use super::dimension::{Dim, ElementType};
use super::error::ShapeError;
use super::graph::{Operation, RegularizedRows, Stage, TensorName};
use super::infer::parameter_width;
use super::stages::ScatterStage;
use crate::graph::Side;
use crate::model::Operator;

impl GraphBuilder<'_> {
    pub(super) fn query_gradients(
        &mut self,
        side: Side,
        inputs: [usize; 4],
        positives: &mut [Option<usize>; 2],
    ) -> Result<(), ShapeError> {
        let name = TensorName::of("query gradients", side);
        let other = side.other();
        let result = TensorName::of("gradients of positives", other);
        let kept = positives[other as usize];
        let outputs = self.node(name, Operation::QueryGradients, &inputs, &[(result, kept)])?;
        positives[other as usize] = Some(outputs[0]);
        if self.step_spec.half {
            let dims = self.dims(outputs[0]);
            self.add_buffer("bf16 gradients", None, &dims, ElementType::Bf16);
        }
        self.positives_begin(other, kept);
        Ok(())
    }

    /// Adds the buffers of a side's first gradients of positives: those for the gradients of biases, and for the
    /// factors with which distances subtract a row. Must follow the node that produces these gradients.
    pub(super) fn positives_begin(&mut self, side: Side, before: Option<usize>) {
        if before.is_none() {
            let dims = [Dim::Chunks, Dim::Positives, Dim::Count(2)];
            self.add_buffer("bias gradients", Some(side), &dims, ElementType::F32);
        }
    }

    pub(super) fn candidate_gradients(
        &mut self,
        side: Side,
        inputs: &[usize],
    ) -> Result<usize, ShapeError> {
        let name = TensorName::of("candidate gradients", side);
        let [what, sums] = match self.step_spec.all(side) {
            false => ["gradients of candidates", "bias gradients of candidates"],
            true => ["gradients of all", "bias gradients of all"],
        };
        let result = TensorName::of(what, side);
        let operation = Operation::CandidateGradients;
        let output = self.node(name, operation, inputs, &[(result, None)])?[0];
        let mut dims = self.dims(output);
        if self.step_spec.half {
            self.add_buffer("bf16 gradients", None, &dims, ElementType::Bf16);
        }
        dims.pop();
        dims.push(Dim::Count(2));
        self.add_buffer(sums, Some(side), &dims, ElementType::F32);
        Ok(output)
    }

    /// Adds the prediction of each edge's relation, by the operators of `side`, among the relations of both
    /// directions. The gradients are added to those of the edges.
    pub(super) fn predict_relations(
        &mut self,
        side: Side,
        rows: [RowTensors; 2],
    ) -> Result<(), ShapeError> {
        let (transformed, other) = (rows[side as usize], rows[side.other() as usize]);
        let (Some(relations), Some(input)) = (self.step_spec.relations, transformed.input) else {
            return Ok(());
        };
        let name = TensorName::of("predict relations", side);
        let [own, opposite] = [side, side.other()].map(|side| self.parameters[side as usize]);
        let inputs = [input, other.rows, own, opposite, self.attributes];
        self.node(name, Operation::PredictRelations, &inputs, &[])?;
        let width = parameter_width(self.step_spec.operator, self.step_spec.dimension[1]);
        let of_edges = |last| [Dim::Chunks, Dim::Positives, last];
        let both_ways = Dim::RelationsBothWays(relations);
        let all = [both_ways, Dim::Parameters(width)];
        for (what, dims) in [
            ("relation features", &of_edges(Dim::Parameters(width))[..]),
            (
                "relation feature gradients",
                &of_edges(Dim::Parameters(width)),
            ),
            ("relation scores", &of_edges(both_ways)),
            ("all relations", &all),
            ("gradients of all relations", &all),
        ] {
            self.add_buffer(what, None, dims, ElementType::F32);
        }
        Ok(())
    }

    /// Adds the nodes that pass the gradients of a slice's positives and candidates back to their tables.
    pub(super) fn back_rows(
        &mut self,
        side: Side,
        stage: &ScatterStage,
        rows: RowTensors,
        positives: Option<usize>,
        candidates: Option<usize>,
    ) -> Result<(), ShapeError> {
        let name = |what| TensorName::of(what, side);
        let mut gradients = positives;
        if let (Some(candidates), true) = (candidates, stage.positives_are_negatives) {
            let result = [(name("gradients of positives"), gradients)];
            let inputs = [candidates, rows.rows];
            let operation = Operation::Join;
            let joined = self.node(name("join"), operation, &inputs, &result)?[0];
            self.positives_begin(side, gradients);
            gradients = Some(joined);
        }
        if let (Some(positives), Some(RegularizedRows::Compared)) = (gradients, stage.regularized) {
            let operation = Operation::Regularize(RegularizedRows::Compared);
            let inputs = [positives, rows.rows, rows.extras];
            gradients = Some(self.in_place(name("regularize"), operation, &inputs)?);
        }
        if let Some(gradients) = gradients {
            let mut gradients = self.back(side, stage, rows, gradients)?;
            if let (Some(RegularizedRows::LookedUp), Some(input)) = (stage.regularized, rows.input)
            {
                let operation = Operation::Regularize(RegularizedRows::LookedUp);
                gradients = self.in_place(name("regularize"), operation, &[gradients, input])?;
            }
            self.sum(side, gradients)?;
        }
        match candidates {
            Some(candidates) if self.step_spec.uniform(side) > 0 => {
                let gradients = self.back(side, stage, rows, candidates)?;
                self.sum(side, gradients)
            }
            _ => Ok(()),
        }
    }

    /// Adds the node that passes gradients of rows back through comparator and operator.
    pub(super) fn back(
        &mut self,
        side: Side,
        stage: &ScatterStage,
        rows: RowTensors,
        gradients: usize,
    ) -> Result<usize, ShapeError> {
        let (operator, parameters) = (
            stage.operator,
            self.parameters[stage.operator_side as usize],
        );
        let name = |what| TensorName::of(what, side);
        let mut inputs = vec![gradients, rows.rows];
        if let Some(input) = rows.input {
            inputs.extend([parameters, input]);
        }
        inputs.push(rows.extras);
        let back = self.in_place(name("back"), Operation::Back(operator), &inputs)?;
        if operator != Operator::None {
            self.parameter_gradients(stage.operator_side, rows.rows);
        }
        Ok(back)
    }

    /// Adds the node that sums the gradients of looked-up rows by table row.
    pub(super) fn sum(&mut self, side: Side, gradients: usize) -> Result<(), ShapeError> {
        let i = side as usize;
        let name = |what| TensorName::of(what, side);
        let inputs = [gradients, self.tables[i]];
        let result = [(name("gradient rows"), self.sums[i])];
        let summed = self.node(name("sum"), Operation::Sum, &inputs, &result)?[0];
        if self.sums[i].is_none() {
            let (touched, rows) = ([Dim::Touched(side)], [Dim::TableRows(side)]);
            self.add_buffer("touched rows", Some(side), &touched, ElementType::U32);
            self.add_buffer("place of each row", Some(side), &rows, ElementType::U32);
        }
        if self.step_spec.global {
            let dims = [Dim::Embedding(self.step_spec.dimension[i])];
            let sums = self.add_buffer("global gradients", Some(side), &dims, ElementType::F32);
            self.graph.tensors[sums].replaces = self.global_gradients[i];
            self.global_gradients[i] = Some(sums);
        }
        self.sums[i] = Some(summed);
        Ok(())
    }

    /// Adds the sums of an operator's gradients, to which the last node adds. A matrix also needs a block of rows.
    fn parameter_gradients(&mut self, side: Side, rows: usize) {
        let i = side as usize;
        let width = parameter_width(self.step_spec.operator, self.step_spec.dimension[1]);
        // A batch that predicts relations touches all of them.
        let predicts = self.step_spec.predicts_relations;
        let touched = |relations| match predicts {
            true => Dim::Relations(relations),
            false => Dim::RelationsTouched(relations),
        };
        let dims = match self.step_spec.relations {
            None => vec![Dim::Parameters(width)],
            Some(n) => vec![touched(n), Dim::Parameters(width)],
        };
        let before = self.operator_gradients[i];
        let sums = self.add_buffer("parameter gradients", Some(side), &dims, ElementType::F32);
        self.graph.tensors[sums].replaces = before;
        self.operator_gradients[i] = Some(sums);
        let matrix = matches!(self.step_spec.operator, Operator::Linear | Operator::Affine);
        match self.step_spec.relations {
            None if matrix => {
                let dims = self.dims(rows);
                self.add_buffer("block of rows", Some(side), &dims, ElementType::F32);
            }
            Some(relations) if before.is_none() => {
                let (touched, all) = ([touched(relations)], [Dim::Relations(relations)]);
                self.add_buffer("touched relations", Some(side), &touched, ElementType::U32);
                self.add_buffer("place of each relation", Some(side), &all, ElementType::U32);
            }
            _ => {}
        }
    }

    pub(super) fn regularize_parameters(&mut self, side: Side) -> Result<(), ShapeError> {
        let Some(gradients) = self.operator_gradients[side as usize] else {
            return Ok(());
        };
        let name = TensorName::of("regularize parameters", side);
        let inputs = [self.parameters[side as usize], gradients];
        self.node(name, Operation::RegularizeParameters, &inputs, &[])?;
        Ok(())
    }

    /// Adds the nodes at the end of the batch, which apply the sums.
    pub(super) fn updates(&mut self) -> Result<(), ShapeError> {
        (self.pass, self.cluster) = (None, Stage::Update);
        for side in Side::BOTH {
            let i = side as usize;
            let name = |what| TensorName::of(what, side);
            let operation = Operation::UpdateParameters;
            if let Some(gradients) = self.operator_gradients[i] {
                let inputs = [gradients, self.shared[i]];
                self.node(name("update parameters"), operation, &inputs, &[])?;
            }
            if let Some(gradients) = self.global_gradients[i] {
                let inputs = [gradients, self.globals[i]];
                self.node(name("update global"), operation, &inputs, &[])?;
            }
        }
        for side in Side::BOTH {
            let i = side as usize;
            if let Some(sums) = self.sums[i] {
                let name = TensorName::of("update rows", side);
                self.node(name, Operation::UpdateRows, &[sums, self.tables[i]], &[])?;
            }
        }
        Ok(())
    }
}
