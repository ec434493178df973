//! Figure of the reliability of calibrated probabilities.

use serde_json::json;

use super::{Figure, axis, line, marker, with};

/// Samples with similar probabilities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReliabilityPoint {
    /// Mean of the probabilities.
    pub predicted: f64,
    /// Share of the samples that are edges.
    pub observed: f64,
    /// Number of samples.
    pub count: u64,
}

/// Returns a figure with the share of edges against the probability, and the diagonal. `about` says what the
/// probabilities refer to.
#[must_use]
pub fn reliability(points: &[ReliabilityPoint], about: &str) -> Figure {
    let column = |of: fn(&ReliabilityPoint) -> f64| -> Vec<f64> {
        points
            .iter()
            .map(|point| (of(point) * 1e4).round() / 1e4)
            .collect()
    };
    let counts: Vec<u64> = points.iter().map(|point| point.count).collect();
    let measured = json!({
        "type": "scatter", "mode": "lines+markers", "name": "measured", "x": column(|p| p.predicted),
        "y": column(|p| p.observed), "customdata": counts, "line": line(0), "marker": marker(0),
        "hovertemplate": "probability %{x:.3f}, share of edges %{y:.3f}, %{customdata} samples<extra></extra>",
    });
    let ideal = json!({
        "type": "scatter", "mode": "lines", "name": "ideal", "x": [0, 1], "y": [0, 1],
        "line": { "color": "#999", "width": 1, "dash": "dot" }, "hoverinfo": "skip",
    });
    let range = json!({ "range": [0, 1.02] });
    Figure {
        id: "reliability".to_owned(),
        title: "Reliability of calibrated probabilities".to_owned(),
        caption: format!(
            "The share of edges among samples with similar probabilities; on the diagonal, probabilities are right. {about}"
        ),
        height: 440,
        data: vec![ideal, measured],
        layout: json!({
            "xaxis": with(axis("probability"), range.clone()),
            "yaxis": with(axis("share of edges"), range),
        }),
    }
}
