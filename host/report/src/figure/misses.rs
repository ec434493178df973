//! Figure of the swaps of each plan with buffers of all sizes.

use serde_json::{Value, json};

use super::multiples::{BOUND, multiples};
use super::{Figure, Series, bound_line, line, log_axis, text, with};
use pbg_lab::bound;
use pbg_lab::comparison::ComparisonCase;

/// Returns a figure with two lines per order: with Belady's eviction, and (thin) with eviction of the least recently
/// used partition.
#[must_use]
pub fn misses(case: &ComparisonCase, series: &Series) -> Figure {
    let mut data = Vec::new();
    if let Some(entry) = case.orders.first() {
        let slots = &entry.miss_curve.slots;
        let least: Vec<u64> = slots.iter().map(|&c| bound::swaps(&case.pass, c)).collect();
        let dashed = json!({ "line": bound_line() });
        data.push(with(trace(BOUND, slots, &least), dashed));
    }
    for entry in &case.orders {
        let index = series.place(&entry.order);
        let curve = &entry.miss_curve;
        let group = json!({ "legendgroup": format!("order {index}"), "line": line(index) });
        data.push(with(
            trace(&entry.order, &curve.slots, &curve.belady),
            group.clone(),
        ));
        let lru = with(
            trace(&format!("{}, LRU", entry.order), &curve.slots, &curve.lru),
            group,
        );
        let thin = with(line(index), json!({ "width": 0.8 }));
        data.push(with(
            lru,
            json!({ "line": thin, "showlegend": false, "opacity": 0.7 }),
        ));
    }
    multiples(Figure {
        id: "miss-curve".to_owned(),
        title: format!("Miss curve: {}", case.title()),
        caption: format!(
            "Swaps of each plan (made for a buffer of {}) with buffers of every size: thick with Belady's eviction, \
             thin with eviction of the least recently used partition, computed for all sizes from reuse distances.",
            case.buffer
        ),
        height: 520,
        data,
        layout: json!({ "xaxis": log_axis("partitions in the buffer"), "yaxis": log_axis("swaps per pass") }),
    })
}

fn trace(name: &str, slots: &[u32], swaps: &[u64]) -> Value {
    let points = slots.iter().zip(swaps).filter(|(_, swaps)| **swaps > 0);
    let (x, y): (Vec<u32>, Vec<u64>) = points.map(|(a, b)| (*a, *b)).unzip();
    json!({
        "type": "scatter", "mode": "lines", "name": text(name), "x": x, "y": y,
        "hovertemplate": "buffer %{x}: %{y} swaps<extra>%{fullData.name}</extra>",
    })
}
