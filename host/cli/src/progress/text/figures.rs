//! Formats losses, ranks, speed and traffic.

use pbg_core::event::{PartitionIo, RankStats, TrainStats};

use crate::format;

/// Returns the parts of the line about an epoch.
pub(super) fn epoch_parts(
    stats: &TrainStats,
    eval_before: Option<&RankStats>,
    seconds: f64,
    io: &PartitionIo,
) -> Vec<String> {
    let mut parts = vec![format!("loss {}", format::loss(stats.mean_loss()))];
    if stats.reg != 0.0 && stats.count > 0 {
        let reg = format::loss(stats.reg / stats.count as f64);
        parts.push(format!("reg {reg}"));
    }
    parts.extend(eval_before.map(held_out));
    parts.push(format!(
        "{} edges in {} ({}/s)",
        format::count(stats.count as f64),
        format::seconds(seconds),
        format::count(stats.count as f64 / seconds.max(1e-9)),
    ));
    parts.extend(traffic(io));
    parts
}

/// Formats a learning rate with five digits.
pub(super) fn learning_rate(lr: f32) -> String {
    format!("lr {}", format::loss(f64::from(lr)))
}

/// Formats the ranks of a validation.
pub(super) fn validated(edges: &str, ranks: &RankStats, seconds: f64) -> String {
    format!(
        "  {edges}: filtered MRR {:.4} Hits@10 {:.4}, {} edges in {}",
        ranks.mrr,
        ranks.hits_at_10,
        format::count(ranks.count as f64),
        format::seconds(seconds),
    )
}

fn held_out(stats: &RankStats) -> String {
    format!(
        "held-out MRR {:.3} Hits@10 {:.3}",
        stats.mrr, stats.hits_at_10
    )
}

/// Formats traffic as `I/O 12 loads, 9 writes, 2.2 GiB, waited 0.3 s`; `None` without loads and writes.
pub(crate) fn traffic(io: &PartitionIo) -> Option<String> {
    if io.loads + io.writes == 0 {
        return None;
    }
    Some(format!(
        "I/O {}, {}, {}, waited {}",
        format::plural(io.loads, "load"),
        format::plural(io.writes, "write"),
        format::bytes(io.bytes_read.saturating_add(io.bytes_written)),
        format::seconds(io.waited()),
    ))
}
