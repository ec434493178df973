//! Projection of embeddings to two dimensions, for display.

mod clusters;
mod entities;
mod principal;

use pbg_model::RunError;
use rayon::ThreadPoolBuilder;
use serde::Serialize;

pub use entities::MapEntities;

/// Maximum number of entities of a map; the time is quadratic in it.
pub const MOST: usize = 3000;

/// Perplexity of t-SNE, the effective number of neighbours of an entity; smaller for few entities.
const PERPLEXITY: f64 = 30.0;
/// Minimum number of entities for t-SNE; fewer are placed by their principal components.
const FEWEST: usize = 12;
/// Standard deviation of the initial places of t-SNE, as small as in openTSNE, so that points can pass each other.
const BEGINNING: f64 = 1e-4;
const EXAGGERATION: f64 = 12.0;

/// Entity on a map.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MapPoint {
    /// Name of the entity.
    pub name: String,
    /// Group of the entity, which decides its colour.
    pub group: String,
    /// Horizontal coordinate.
    pub x: f64,
    /// Vertical coordinate.
    pub y: f64,
}

/// Error of computing a map.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// Too few entities.
    #[error("a map needs at least 2 entities, not {0}")]
    TooFew(usize),
    /// Too many entities.
    #[error("a map can show at most {MOST} entities, not {0}")]
    TooMany(usize),
    /// A thread cannot be started.
    #[error(
        "cannot start a thread; allow this user more processes (ulimit -u) or this process more address space \
         (ulimit -v)"
    )]
    Thread(#[from] rayon::ThreadPoolBuildError),
    /// The model cannot be read.
    #[error(transparent)]
    Model(#[from] RunError),
}

/// Places embeddings `rows`, `[entities, dimension]`, by t-SNE (van der Maaten and Hinton, 2008) that starts from their
/// principal components, so that near embeddings are near on the map. The same embeddings give the same map.
///
/// # Errors
/// When there are too few or too many embeddings, or the thread cannot be started.
///
/// # Panics
/// If `rows` is not a whole number of embeddings.
pub fn project(rows: &[f32], dimension: usize) -> Result<Vec<[f64; 2]>, MapError> {
    assert_eq!(rows.len() % dimension, 0, "whole rows");
    let count = rows.len() / dimension;
    match count {
        0..2 => return Err(MapError::TooFew(count)),
        _ if count > MOST => return Err(MapError::TooMany(count)),
        _ => {}
    }
    let rows: Vec<Vec<f64>> = rows
        .chunks_exact(dimension)
        .map(|row| row.iter().map(|&x| f64::from(x)).collect())
        .collect();
    let rows = principal::centred(rows);
    let first = principal::components(&rows);
    if count < FEWEST {
        return Ok(first);
    }
    let spread = (first.iter().map(|p| p[0] * p[0]).sum::<f64>() / count as f64).sqrt();
    let scale = BEGINNING / spread.max(f64::MIN_POSITIVE);
    let first: Vec<f64> = first.iter().flatten().map(|x| x * scale).collect();
    // A single thread, since with several the order of sums, and so their rounding, would vary.
    let alone = ThreadPoolBuilder::new().num_threads(1).build()?;
    let placed = alone.install(|| {
        let samples: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        let mut map = bhtsne::tSNE::<f64, &[f64], 2>::new(&samples);
        map.perplexity(PERPLEXITY.min((count - 1) as f64 / 3.0))
            .learning_rate((count as f64 / EXAGGERATION / 4.0).max(50.0))
            .early_exaggeration(EXAGGERATION)
            .initial_embedding(first)
            .exact(|a, b| distance(a, b))
            .embedding()
    });
    let placed = placed.chunks_exact(2).map(|p| vec![p[0], p[1]]).collect();
    // Rotates the map so that it is widest from left to right.
    Ok(principal::components(&principal::centred(placed)))
}

/// Groups near embeddings. Returns the group of each embedding, and the index of the embedding nearest to the centre of
/// each group. The largest group comes first.
#[must_use]
pub fn groups(rows: &[f32], dimension: usize) -> (Vec<usize>, Vec<usize>) {
    clusters::groups(rows, dimension)
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    let squares = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b));
    squares.sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns three clusters of 20 embeddings each, far from each other in ten dimensions.
    fn heaps() -> Vec<f32> {
        let mut state = 1_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        let mut rows = Vec::new();
        for entity in 0..60 {
            for axis in 0..10 {
                let middle = if axis == entity % 3 { 8.0 } else { 0.0 };
                rows.push(middle + noise());
            }
        }
        rows
    }

    #[test]
    fn what_is_near_is_near_on_the_map_every_time() {
        let rows = heaps();
        let placed = project(&rows, 10).unwrap();
        assert_eq!(placed, project(&rows, 10).unwrap());
        let apart = |a: [f64; 2], b: [f64; 2]| (a[0] - b[0]).hypot(a[1] - b[1]);
        for (at, &place) in placed.iter().enumerate() {
            let others = placed.iter().enumerate().filter(|(other, _)| *other != at);
            let nearest = others.min_by(|a, b| apart(*a.1, place).total_cmp(&apart(*b.1, place)));
            assert_eq!(nearest.unwrap().0 % 3, at % 3);
        }
    }

    #[test]
    fn few_entities_lie_by_their_principal_components() {
        let placed = project(&[0.0, 0.0, 0.0, 3.0, 0.0, 9.0], 2).unwrap();
        let x: Vec<f64> = placed.iter().map(|p| p[0].abs().round()).collect();
        assert_eq!(x, [4.0, 1.0, 5.0]);
        // Equal embeddings have no principal directions.
        assert_eq!(project(&[1.0; 8], 2).unwrap(), [[0.0, 0.0]; 4]);
        assert!(
            project(&[1.0; 40], 2)
                .unwrap()
                .iter()
                .flatten()
                .all(|x| x.is_finite())
        );
        assert!(project(&[1.0; 2], 2).is_err());
    }

    #[test]
    fn groups_are_what_is_near() {
        let (groups, middles) = groups(&heaps(), 10);
        for heap in 0..3 {
            let own: Vec<usize> = groups.iter().skip(heap).step_by(3).copied().collect();
            let others = groups.iter().enumerate().filter(|(at, _)| at % 3 != heap);
            assert!(others.clone().all(|(_, group)| !own.contains(group)));
        }
        for (group, &middle) in middles.iter().enumerate() {
            assert_eq!(groups[middle], group);
        }
    }
}
