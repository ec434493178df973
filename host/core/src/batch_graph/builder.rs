//! Builder of a batch graph: it appends nodes and tensors, and checks their shapes.

use super::dimension::{Dim, ElementType, TensorShape};
use super::error::ShapeError;
use super::graph::{BatchGraph, GraphNode, GraphTensor, Operation, Stage, TensorLife, TensorName};
use super::infer::{infer, parameter_width};
use super::step_spec::StepSpec;
use crate::graph::Side;

/// Rows of one side that are ready for comparison, and tensors that the backward pass needs.
#[derive(Clone, Copy)]
pub(super) struct RowTensors {
    pub(super) rows: usize,
    pub(super) extras: usize,
    /// The factor of matrix products: the rows, or the rows in bf16.
    pub(super) factor: usize,
    /// Rows before the operator.
    pub(super) input: Option<usize>,
}

pub(super) struct GraphBuilder<'s> {
    pub(super) step_spec: &'s StepSpec,
    pub(super) graph: BatchGraph,
    pub(super) columns: [usize; 2],
    /// Relations and weights of edges.
    pub(super) attributes: usize,
    pub(super) tables: [usize; 2],
    /// Shared parameters of each side's operator, and the copies that the step reads.
    pub(super) shared: [usize; 2],
    pub(super) parameters: [usize; 2],
    pub(super) globals: [usize; 2],
    /// Gradients added so far: of operators, of global embeddings, of table rows.
    pub(super) operator_gradients: [Option<usize>; 2],
    pub(super) global_gradients: [Option<usize>; 2],
    pub(super) sums: [Option<usize>; 2],
    /// Pass and stage of the nodes that are being added.
    pub(super) pass: Option<usize>,
    pub(super) cluster: Stage,
}

impl<'s> GraphBuilder<'s> {
    pub(super) fn new(step_spec: &'s StepSpec) -> Self {
        let mut builder = Self {
            step_spec,
            graph: BatchGraph::default(),
            columns: [0; 2],
            attributes: 0,
            tables: [0; 2],
            shared: [0; 2],
            parameters: [0; 2],
            globals: [0; 2],
            operator_gradients: [None; 2],
            global_gradients: [None; 2],
            sums: [None; 2],
            pass: None,
            cluster: Stage::Gather,
        };
        builder.add_tables();
        builder
    }

    /// Adds the tensors that are not part of the batch, and the batch's columns.
    fn add_tables(&mut self) {
        let step_spec = self.step_spec;
        // An operator's parameters are sized for the right side's dimension.
        let width = Dim::Parameters(parameter_width(step_spec.operator, step_spec.dimension[1]));
        let packed = match step_spec.relations {
            None => vec![width],
            Some(relations) => vec![Dim::Relations(relations), width],
        };
        let positives = [Dim::Chunks, Dim::Positives];
        let attributes = [Dim::Chunks, Dim::Positives, Dim::Count(2)];
        self.attributes = self.column("columns", None, &attributes);
        for side in Side::BOTH {
            let i = side as usize;
            let width = Dim::Embedding(step_spec.dimension[i]);
            let mut shared = |what, dims: &[Dim]| {
                self.tensor(what, Some(side), dims, ElementType::F32, TensorLife::Shared)
            };
            let table = shared("table", &[Dim::TableRows(side), width]);
            let parameters = shared("parameters", &packed);
            let global = shared("global embedding", &[width]);
            self.tables[i] = table;
            self.shared[i] = parameters;
            self.parameters[i] = parameters;
            self.globals[i] = global;
            self.columns[i] = self.column("columns", Some(side), &positives);
        }
    }

    pub(super) fn column(&mut self, what: &'static str, side: Option<Side>, dims: &[Dim]) -> usize {
        self.tensor(what, side, dims, ElementType::U32, TensorLife::Column)
    }

    fn tensor(
        &mut self,
        what: &'static str,
        side: Option<Side>,
        dims: &[Dim],
        element: ElementType,
        kind: TensorLife,
    ) -> usize {
        self.graph.tensors.push(GraphTensor {
            name: TensorName { what, side },
            shape: TensorShape(dims.to_vec()),
            element,
            life: kind,
            replaces: None,
        });
        self.graph.tensors.len() - 1
    }

    /// Adds a node with the results that its operation defines, named by `results`. A result may replace an operand.
    pub(super) fn node(
        &mut self,
        name: TensorName,
        operation: Operation,
        inputs: &[usize],
        results: &[(TensorName, Option<usize>)],
    ) -> Result<Vec<usize>, ShapeError> {
        let shapes: Vec<&TensorShape> = inputs
            .iter()
            .map(|&input| &self.graph.tensors[input].shape)
            .collect();
        let inferred = infer(name, operation, &shapes)?;
        let element = match operation {
            Operation::Round => ElementType::Bf16,
            _ => ElementType::F32,
        };
        let mut outputs = Vec::new();
        for (shape, &(name, instead_of)) in inferred.into_iter().zip(results) {
            outputs.push(self.graph.tensors.len());
            self.graph.tensors.push(GraphTensor {
                name,
                shape,
                element,
                life: TensorLife::Made,
                replaces: instead_of,
            });
        }
        self.graph.nodes.push(GraphNode {
            name,
            operation,
            cluster: self.cluster,
            pass: self.pass,
            inputs: inputs.to_vec(),
            outputs: outputs.clone(),
        });
        Ok(outputs)
    }

    /// Adds a node with one result, which replaces its first operand.
    pub(super) fn in_place(
        &mut self,
        name: TensorName,
        operation: Operation,
        inputs: &[usize],
    ) -> Result<usize, ShapeError> {
        let kept = self.graph.tensors[inputs[0]].name;
        let outputs = self.node(name, operation, inputs, &[(kept, Some(inputs[0]))])?;
        Ok(outputs.first().copied().unwrap_or(inputs[0]))
    }

    /// Adds another tensor that the last node keeps while it runs, or for later nodes.
    pub(super) fn add_buffer(
        &mut self,
        what: &'static str,
        side: Option<Side>,
        dims: &[Dim],
        element: ElementType,
    ) -> usize {
        let tensor = self.tensor(what, side, dims, element, TensorLife::Made);
        if let Some(node) = self.graph.nodes.last_mut() {
            node.outputs.push(tensor);
        }
        tensor
    }

    pub(super) fn dims(&self, tensor: usize) -> Vec<Dim> {
        self.graph.tensors[tensor].shape.0.clone()
    }
}
