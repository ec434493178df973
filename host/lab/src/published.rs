//! Swaps of bucket orders as their sources state them, for comparison with measured ones.
//!
//! The values are for complete square grids of equal partitions and one entity type, after the first fill of the buffer.
//! `docs/orders.bib` has the sources by the keys given here.

use pbg_core::strategy::Pass;
use serde::Serialize;

/// Value of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PublishedSwaps {
    /// Swaps of a pass.
    pub swaps: u64,
    /// Key of the source in `docs/orders.bib`.
    pub source: &'static str,
}

/// Source of BETA and of the lower bound.
pub const MARIUS: &str = "mohoney2021marius";
const MARIUS_GNN: &str = "waleffe2023mariusgnn";
const LEGEND: &str = "li2025legend";

/// Returns a short citation of a source, with its DOI; the key itself if it is unknown.
#[must_use]
pub fn citation(source: &'static str) -> &'static str {
    match source {
        MARIUS => "Mohoney et al., Marius (OSDI 2021), doi:10.48550/arXiv.2101.08358",
        MARIUS_GNN => "Waleffe et al., MariusGNN (EuroSys 2023), doi:10.1145/3552326.3567501",
        LEGEND => "Li et al., Legend, the released schedule (2025), doi:10.48550/arXiv.2505.09258",
        key => key,
    }
}

/// Returns the published swaps of an order with `partitions` and a buffer of `buffer`; `None` if there is no source for
/// this order and size. `label` is the order as the user named it; only default parameters have published values.
#[must_use]
pub fn swaps(label: &str, partitions: u32, buffer: u32) -> Option<PublishedSwaps> {
    let (p, c) = (u64::from(partitions), u64::from(buffer));
    let published = |swaps, source| Some(PublishedSwaps { swaps, source });
    if c < 2 || p <= c {
        return None;
    }
    match label {
        "beta" => published(beta(p, c), MARIUS),
        // Groups of half a buffer, as in the published settings: BETA over the groups, each swap loads a group.
        "comet" if c % 2 == 0 && p % (c / 2) == 0 => {
            let group = c / 2;
            published(group * beta(p / group, 2), MARIUS_GNN)
        }
        // The released schedule has this size only.
        "legend" if (p, c) == (12, 3) => published(34, LEGEND),
        _ => None,
    }
}

/// Returns the published swaps of an order for `pass`, as [`swaps`] does; `None` unless the grid is complete and square, has
/// one entity type, and nothing is resident.
#[must_use]
pub fn for_pass(label: &str, pass: &Pass) -> Option<PublishedSwaps> {
    let is_complete = pass.shared
        && pass.resident.is_empty()
        && pass.edges.iter().all(|&edges| edges > 0)
        && pass.lhs_bytes.iter().all(|&bytes| bytes > 0);
    let found = || swaps(label, pass.lhs_partitions, pass.buffer_partitions);
    is_complete.then(found).flatten()
}

/// Returns the swaps of BETA with `p > c` partitions by the formula of its source.
const fn beta(p: u64, c: u64) -> u64 {
    let rounds = (p - c) / (c - 1);
    (p - c) + (rounds + 1) * (p - c) - rounds * (rounds + 1) / 2 * (c - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_sources() {
        let of = |label, p, c| swaps(label, p, c).map(|published| published.swaps);
        for (p, c, expected) in [
            (8, 2, 27),
            (16, 4, 42),
            (32, 8, 78),
            (64, 16, 150),
            (128, 32, 294),
        ] {
            assert_eq!(of("beta", p, c), Some(expected), "p={p} c={c}");
        }
        // 27 swaps of 8 groups in a buffer of two.
        assert_eq!(of("comet", 16, 4), Some(54));
        assert_eq!(of("comet", 64, 16), Some(216));
        assert_eq!(of("comet", 15, 4), None);
        assert_eq!(of("legend", 12, 3), Some(34));
        assert_eq!(of("legend", 16, 4), None);
        assert_eq!(of("beta:assignment=random", 16, 4), None);
        assert_eq!(of("beta", 4, 4), None);
    }

    #[test]
    fn an_incomplete_grid_has_no_published_value() {
        let mut pass = crate::testing::pass(8, 4);
        assert!(for_pass("beta", &pass).is_some());
        pass.edges[3] = 0;
        assert_eq!(for_pass("beta", &pass), None);
    }

    #[test]
    fn every_source_is_in_the_bibliography() {
        let bibliography = include_str!("../../../docs/orders.bib");
        for source in [MARIUS, MARIUS_GNN, LEGEND] {
            assert!(bibliography.contains(&format!("{{{source},")), "{source}");
            let (_, doi) = citation(source).split_once("doi:").unwrap();
            assert!(bibliography.contains(&format!("{{{doi}}}")), "{doi}");
        }
    }
}
