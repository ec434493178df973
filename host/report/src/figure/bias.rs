//! Figure of the bias: how unevenly partitions advance during a pass.

use serde_json::json;

use super::multiples::multiples;
use super::{Figure, Series, axis, line, text, with};
use pbg_lab::comparison::ComparisonCase;

/// Returns a figure with one line per order, for the first seed.
#[must_use]
pub fn bias(case: &ComparisonCase, series: &Series) -> Figure {
    let curve = |entry: &pbg_lab::comparison::OrderResult| {
        let samples = entry
            .seeds
            .first()
            .map_or(&[][..], |seed| &seed.analysis.bias.curve);
        let x: Vec<u64> = samples.iter().map(|(done, _)| *done).collect();
        let y: Vec<f64> = samples
            .iter()
            .map(|(_, bias)| (bias * 1e4).round() / 1e4)
            .collect();
        json!({
            "type": "scatter", "mode": "lines", "name": text(&entry.order), "x": x, "y": y,
            "line": line(series.place(&entry.order)),
            "hovertemplate": "after %{x} buckets: %{y:.2f}<extra>%{fullData.name}</extra>",
        })
    };
    multiples(Figure {
        id: "bias".to_owned(),
        title: format!("Bias over a pass: {}", case.title()),
        caption: "The largest minus the smallest fraction of its own buckets that a partition has finished. \
                  A high bias means that some partitions are nearly finished while others have not started."
            .to_owned(),
        height: 440,
        data: case.orders.iter().map(curve).collect(),
        layout: json!({
            "xaxis": axis("buckets trained"),
            "yaxis": with(axis("bias"), json!({ "range": [0, 1.02] })),
        }),
    })
}
