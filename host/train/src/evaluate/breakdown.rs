//! Ranks by what they are of: relations or entity types.

use std::collections::BTreeMap;

use pbg_core::event::{RankStats, RankTotals};
use pbg_core::graph::Side;
use serde::{Deserialize, Serialize};

use super::edges::Edge;
use super::stats::{RankSums, Ranked};
use super::view::View;

/// What ranks are summed up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The relation of the edge.
    Relation,
    /// The type of the entity that is ranked, which may be another one on either side.
    EntityType,
}

/// The ranks of a relation or an entity type. Where nothing is on a side, its numbers are 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RanksOf {
    /// Its name.
    pub name: String,
    /// Ranks of left sides, raw.
    pub raw_lhs: RankStats,
    /// Ranks of right sides, raw.
    pub raw_rhs: RankStats,
    /// Both sides, raw; `count` are edges of a relation, and ranks of a type.
    pub raw: RankStats,
    /// Ranks of left sides, filtered; none where no edge set was filtered out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filtered_lhs: Option<RankStats>,
    /// Ranks of right sides, filtered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filtered_rhs: Option<RankStats>,
    /// Both sides, filtered; `count` as of `raw`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filtered: Option<RankStats>,
}

/// Sums by relation or type, as ranks come in.
pub(super) struct Breakdown {
    by: By,
    sums: SumsBy,
}

/// Sums by the index of a relation or a type.
pub(super) type SumsBy = BTreeMap<u32, [RankSums; 2]>;

impl Breakdown {
    pub(super) const fn new(by: By) -> Self {
        let sums = BTreeMap::new();
        Self { by, sums }
    }

    /// Memory that it takes at most.
    pub(super) fn bytes(relations: usize) -> u64 {
        // Of a tree, half of which may be empty.
        relations as u64 * 2 * (size_of::<[RankSums; 2]>() as u64 + 16)
    }

    /// Adds the rank of the true entity on `side` of `edge`.
    pub(super) fn add(&mut self, view: &View<'_>, side: Side, edge: &Edge, ranked: Ranked) {
        let key = match self.by {
            By::Relation => edge.rel,
            By::EntityType => view.blueprint.type_of(edge.rel, side) as u32,
        };
        self.sums.entry(key).or_default()[side as usize].add_ranked(ranked);
    }

    /// What was added since it was new or taken.
    pub(super) fn take(&mut self) -> SumsBy {
        std::mem::take(&mut self.sums)
    }

    /// Adds what was taken from another one of the same view.
    pub(super) fn merge(&mut self, other: &SumsBy) {
        for (key, sums) in other {
            let own = self.sums.entry(*key).or_default();
            for (own, sums) in own.iter_mut().zip(sums) {
                own.add(sums);
            }
        }
    }

    /// The means, those of the most edges first; filtered ones if edge sets were filtered out.
    pub(super) fn report(&self, view: &View<'_>, is_filtered: bool) -> Vec<RanksOf> {
        let name = |key: u32| match self.by {
            By::Relation => &view.blueprint.relation_names[key as usize],
            By::EntityType => &view.blueprint.layout.types[key as usize].name,
        };
        let both = |lhs: &RankTotals, rhs: &RankTotals| match self.by {
            By::Relation => RankTotals::of_both(lhs, rhs),
            By::EntityType => lhs.means().merge(&rhs.means()),
        };
        let entry = |(&key, [lhs, rhs]): (&u32, &[RankSums; 2])| RanksOf {
            name: name(key).clone(),
            raw_lhs: lhs.raw.means(),
            raw_rhs: rhs.raw.means(),
            raw: both(&lhs.raw, &rhs.raw),
            filtered_lhs: is_filtered.then(|| lhs.filtered.means()),
            filtered_rhs: is_filtered.then(|| rhs.filtered.means()),
            filtered: is_filtered.then(|| both(&lhs.filtered, &rhs.filtered)),
        };
        let mut report: Vec<RanksOf> = self.sums.iter().map(entry).collect();
        report.sort_by(|a, b| b.raw.count.cmp(&a.raw.count).then(a.name.cmp(&b.name)));
        report
    }
}
