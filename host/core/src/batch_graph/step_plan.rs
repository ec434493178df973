//! Plan of a relation's training step: its stages, the graph of their operations, and the buffers of a slice and of a
//! batch.
//!
//! A node that touches a tensor of the batch runs once per slice, on views of a slice's chunks. All other nodes run
//! once, before or after the loop over slices. Results of the nodes in the loop exist for one slice only, in buffers
//! that the next slice reuses and that tensors of the same name share if they do not live at the same time. So memory
//! does not depend on the size of the batch, except for its columns and one gradient row per table row that it touches.

use std::ops::RangeInclusive;

use super::buffers::{Buffer, BufferLife, allocate};
use super::dimension::BatchSizes;
use super::error::ShapeError;
use super::graph::{BatchGraph, BatchPass};
use super::stages::PassStages;
use super::step_spec::StepSpec;
use crate::graph::Side;
use crate::model::Update;

/// Positives per slice with all negatives. Every slice reads all entities and their gradients once, so with fewer
/// positives the matrix product would be bound by memory bandwidth.
const ALL_NEGATIVES_ROWS: RangeInclusive<usize> = 64..=256;
/// Bytes of a slice's buffers above which the slice has only the smallest number of [`ALL_NEGATIVES_ROWS`].
const ALL_NEGATIVES_BYTES: usize = 64 << 20;

/// Plan of a relation's training step, for batches of any size.
#[derive(Clone, Debug, PartialEq)]
pub struct StepPlan {
    /// Specification of the step.
    pub step_spec: StepSpec,
    /// Stages of each pass over the batch, in order. The last stage, the update, needs no description.
    pub passes: Vec<PassStages>,
    /// Operations of the stages.
    pub graph: BatchGraph,
    /// Buffers to allocate.
    pub buffers: Vec<Buffer>,
}

impl StepPlan {
    /// Plans the step `step_spec`. With `Update::Slice`, each slice ends with an update of its rows.
    ///
    /// # Errors
    /// Returns the first operand whose shape does not fit its node.
    pub fn new(step_spec: &StepSpec, update: Update) -> Result<Self, ShapeError> {
        let passes = match step_spec.relations {
            None => BatchPass::STATIC,
            Some(_) => BatchPass::DYNAMIC,
        };
        let passes = passes.iter();
        let passes: Vec<_> = passes
            .map(|&pass| PassStages::new(step_spec, pass, update))
            .collect();
        let graph = BatchGraph::new(step_spec, &passes)?;
        Ok(Self {
            step_spec: step_spec.clone(),
            buffers: allocate(&graph),
            passes,
            graph,
        })
    }

    /// Returns the bytes that one chunk of a slice takes in the pass that needs most.
    #[must_use]
    pub fn chunk_bytes(&self, sizes: &BatchSizes) -> usize {
        let of = |pass: usize| {
            let used = |buffer: &&Buffer| {
                buffer.keep == BufferLife::Slice && buffer.passes.contains(&pass)
            };
            let buffers = self.buffers.iter().filter(used);
            buffers
                .map(|buffer| buffer.bytes(sizes))
                .fold(0, usize::saturating_add)
        };
        (0..self.passes.len()).map(of).max().unwrap_or(0)
    }

    /// Returns the number of chunks per slice with which its buffers take at most `slice_bytes`, provided that the
    /// least number of chunks fits.
    #[must_use]
    pub fn chunks_per_slice(&self, sizes: &BatchSizes, slice_bytes: usize) -> usize {
        let all = Side::BOTH.iter().any(|&side| self.step_spec.all(side));
        let chunk = self.chunk_bytes(sizes).max(1);
        let least = match all {
            true => {
                let (fewest, most) = ALL_NEGATIVES_ROWS.into_inner();
                (ALL_NEGATIVES_BYTES / chunk).clamp(fewest, most)
            }
            false => 1,
        };
        let fit = slice_bytes / chunk;
        fit.max(least).min(sizes.chunks().max(1))
    }
}
