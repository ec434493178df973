//! Ranks grouped by relation or entity type.

use std::collections::BTreeMap;

use pbg_core::event::{RankStats, RankTotals};
use pbg_core::graph::Side;
use serde::{Deserialize, Serialize};

use super::ranked_edge::RankedEdge;
use super::stats::{RankSums, RankedCounts};
use super::view::ModelView;

/// Property by which ranks are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBy {
    /// The relation of the edge.
    Relation,
    /// The type of the ranked entity, which may differ between the sides of an edge.
    EntityType,
}

/// Ranks of a relation or an entity type. If it has no edges on a side, the values of that side are 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupRanks {
    /// Name of the relation or entity type.
    pub name: String,
    /// Raw ranks of left sides.
    pub raw_lhs: RankStats,
    /// Raw ranks of right sides.
    pub raw_rhs: RankStats,
    /// Raw ranks of both sides; `count` is the number of edges of a relation, or of ranks of a type.
    pub raw: RankStats,
    /// Filtered ranks of left sides; `None` without edge sets to filter by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filtered_lhs: Option<RankStats>,
    /// Filtered ranks of right sides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filtered_rhs: Option<RankStats>,
    /// Filtered ranks of both sides; `count` as for `raw`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filtered: Option<RankStats>,
}

/// Running sums by relation or type.
pub(super) struct Breakdown {
    by: GroupBy,
    sums: SumsBy,
}

/// Sums by the index of a relation or a type.
pub(super) type SumsBy = BTreeMap<u32, [RankSums; 2]>;

impl Breakdown {
    pub(super) const fn new(by: GroupBy) -> Self {
        let sums = BTreeMap::new();
        Self { by, sums }
    }

    /// Returns the largest memory that a breakdown needs, in bytes.
    pub(super) fn bytes(relations: usize) -> u64 {
        // Memory of a tree, half of which may be empty.
        relations as u64 * 2 * (size_of::<[RankSums; 2]>() as u64 + 16)
    }

    /// Adds the rank of the true entity on `side` of `edge`.
    pub(super) fn add(
        &mut self,
        view: &ModelView<'_>,
        side: Side,
        edge: &RankedEdge,
        ranked: RankedCounts,
    ) {
        let key = match self.by {
            GroupBy::Relation => edge.rel,
            GroupBy::EntityType => view.blueprint.type_of(edge.rel, side) as u32,
        };
        self.sums.entry(key).or_default()[side as usize].add_ranked(ranked);
    }

    /// Takes the sums since the start or the last call.
    pub(super) fn take(&mut self) -> SumsBy {
        std::mem::take(&mut self.sums)
    }

    /// Adds sums taken from another breakdown of the same view.
    pub(super) fn merge(&mut self, other: &SumsBy) {
        for (key, sums) in other {
            let own = self.sums.entry(*key).or_default();
            for (own, sums) in own.iter_mut().zip(sums) {
                own.add(sums);
            }
        }
    }

    /// Returns the means, in descending order of edges; with filtered ranks if edge sets were filtered out.
    pub(super) fn report(&self, view: &ModelView<'_>, is_filtered: bool) -> Vec<GroupRanks> {
        let name = |key: u32| match self.by {
            GroupBy::Relation => &view.blueprint.relation_names[key as usize],
            GroupBy::EntityType => &view.blueprint.layout.types[key as usize].name,
        };
        let both = |lhs: &RankTotals, rhs: &RankTotals| match self.by {
            GroupBy::Relation => RankTotals::of_both(lhs, rhs),
            GroupBy::EntityType => lhs.means().merge(&rhs.means()),
        };
        let entry = |(&key, [lhs, rhs]): (&u32, &[RankSums; 2])| GroupRanks {
            name: name(key).clone(),
            raw_lhs: lhs.raw.means(),
            raw_rhs: rhs.raw.means(),
            raw: both(&lhs.raw, &rhs.raw),
            filtered_lhs: is_filtered.then(|| lhs.filtered.means()),
            filtered_rhs: is_filtered.then(|| rhs.filtered.means()),
            filtered: is_filtered.then(|| both(&lhs.filtered, &rhs.filtered)),
        };
        let mut report: Vec<GroupRanks> = self.sums.iter().map(entry).collect();
        report.sort_by(|a, b| b.raw.count.cmp(&a.raw.count).then(a.name.cmp(&b.name)));
        report
    }
}
