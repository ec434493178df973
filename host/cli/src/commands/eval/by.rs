//! Tables of ranks by relation or entity type.

use comfy_table::Table;
use pbg_core::event::RankStats;
use pbg_query::{EvalReport, GroupBy};

use crate::tables;

/// Grouping of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ByArg {
    /// Relations.
    Relation,
    /// Types of the entities that are ranked.
    EntityType,
}

impl ByArg {
    /// Returns the name for messages and headers.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Relation => "relation",
            Self::EntityType => "entity type",
        }
    }
}

impl From<ByArg> for GroupBy {
    fn from(by: ByArg) -> Self {
        match by {
            ByArg::Relation => Self::Relation,
            ByArg::EntityType => Self::EntityType,
        }
    }
}

/// Returns a table with a row per relation or type and a row for all: filtered ranks if there is a filter, raw ranks
/// otherwise.
pub(super) fn table(report: &EvalReport, by: ByArg) -> Table {
    let counted = match by {
        ByArg::Relation => "edges",
        ByArg::EntityType => "ranks",
    };
    let header = [
        by.name(),
        counted,
        "MRR",
        "MRR left",
        "MRR right",
        "Hits@10",
        "Hits@10 left",
        "Hits@10 right",
        "mean rank",
    ];
    let rows = report.by.iter().map(|of| {
        let filtered = [&of.filtered, &of.filtered_lhs, &of.filtered_rhs];
        let ranks = filtered_or(filtered, [&of.raw, &of.raw_lhs, &of.raw_rhs]);
        row(&of.name, ranks[0].count, ranks)
    });
    let filtered = [&report.filtered, &report.filtered_lhs, &report.filtered_rhs];
    let all = filtered_or(filtered, [&report.raw, &report.raw_lhs, &report.raw_rhs]);
    let sides = if by == ByArg::Relation { 1 } else { 2 };
    let last = row("all", sides * all[0].count, all);
    tables::wrapped(header, rows.chain([last]), 1)
}

/// Returns the filtered ranks if there are any, otherwise the raw ranks.
fn filtered_or<'r>(
    filtered: [&'r Option<RankStats>; 3],
    raw: [&'r RankStats; 3],
) -> [&'r RankStats; 3] {
    match filtered.map(Option::as_ref) {
        [Some(both), Some(left), Some(right)] => [both, left, right],
        _ => raw,
    }
}

/// Returns the cells of a row: both sides, left and right. A side without ranks has `-` for its numbers.
fn row(name: &str, count: u64, ranks: [&RankStats; 3]) -> Vec<String> {
    let share = |stats: &RankStats, number: fn(&RankStats) -> f64| match stats.count {
        0 => "-".to_owned(),
        _ => format!("{:.4}", number(stats)),
    };
    let mut cells = vec![name.to_owned(), count.to_string()];
    cells.extend(ranks.map(|stats| share(stats, |s| s.mrr)));
    cells.extend(ranks.map(|stats| share(stats, |s| s.hits_at_10)));
    cells.push(format!("{:.2}", ranks[0].mean_rank));
    cells
}
