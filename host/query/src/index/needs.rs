//! Upper bounds of the memory for building an index.

use pbg_index::NeighborGraph;
use pbg_kernels::rank::PointSpace;
use pbg_model::error::RunError;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::settings::cores;

use super::options::IndexOptions;
use super::query_needs::{sums, walks};
use crate::evaluate::predict::{PredictOptions, predict_needs};

/// Returns the largest memory needed by [`build_index`](super::build_index), by component, in bytes.
///
/// # Errors
/// When the entity type does not exist.
pub fn index_needs(
    resolved: &ResolvedConfig,
    options: &IndexOptions,
) -> Result<Vec<(String, u64)>, RunError> {
    let (dataset, blueprint) = (resolved.dataset(), resolved.blueprint());
    let mut spec = blueprint.spec.clone();
    spec.comparator = options.comparator.unwrap_or(spec.comparator);
    super::indexed_name(spec.comparator)?;
    let mut largest = [0; 2];
    for index in options.types(blueprint)? {
        let layout = &blueprint.layout.types[index];
        let width = PointSpace::of(&spec, layout.dimension).width() as u64;
        let counts = &dataset.manifest().entities[&layout.name].counts;
        for &count in counts {
            let count = u64::from(count);
            largest[0] = largest[0].max(4 * width * count);
            largest[1] = largest[1].max(NeighborGraph::bytes(count, options.degree as usize));
        }
    }
    let threads = options.threads.unwrap_or_else(cores).max(1) as u64;
    let asked = PredictOptions {
        count: 10,
        filter: Vec::new(),
        loops: true,
        threads: options.threads,
        questions: Some(2 * options.questions as usize),
        index: None,
    };
    // Partitions are linked one after the other; measuring then loads a partition of its own.
    let mut needs = predict_needs(resolved, &asked)?;
    needs.extend([
        ("points of the largest partition".to_owned(), largest[0]),
        ("links of the largest partition".to_owned(), 2 * largest[1]),
        sums(resolved),
        walks(threads),
    ]);
    Ok(needs)
}
