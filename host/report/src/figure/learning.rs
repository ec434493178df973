//! Figures of the quality of trained models against edges, seconds and bytes of I/O.

use serde_json::{Value, json};

use super::{Figure, axis, color, line, marker, suffix, text, with};
use pbg_lab::study::{EpochPoint, OrderRuns, Study};

/// Function that returns a figure of a point.
type Of = fn(&EpochPoint) -> f64;

/// Horizontal axes of the panels: title and value.
const AGAINST: [(&str, Of); 3] = [
    ("edges trained", |p| p.edges as f64),
    ("seconds of training", |p| p.seconds),
    ("bytes read and written", |p| p.io_bytes() as f64),
];

/// Returns the figure of filtered MRR, in three panels.
#[must_use]
pub fn mrr(study: &Study) -> Figure {
    panels(study, "mrr", "Filtered MRR", |point| point.mrr)
}

/// Returns the figure of loss, in three panels.
#[must_use]
pub fn loss(study: &Study) -> Figure {
    panels(study, "loss", "Loss per edge", |point| point.loss)
}

fn panels(study: &Study, id: &str, title: &str, y: Of) -> Figure {
    let mut data = Vec::new();
    for (index, order) in study.orders.iter().enumerate() {
        for (panel, (_, x)) in AGAINST.iter().enumerate() {
            data.extend(curve(order, index, panel, *x, y));
        }
    }
    let mut layout = json!({});
    for (panel, (name, _)) in AGAINST.iter().enumerate() {
        let suffix = suffix(panel);
        let start = panel as f64 * 0.345;
        let x = json!({ "domain": [start, start + 0.31], "anchor": format!("y{suffix}"), "exponentformat": "SI", "rangemode": "tozero" });
        layout[format!("xaxis{suffix}")] = with(axis(name), x);
        let head = if panel == 0 { title } else { "" };
        let y = with(axis(head), json!({ "anchor": format!("x{suffix}") }));
        layout[format!("yaxis{suffix}")] = match panel {
            0 => y,
            _ => with(y, json!({ "matches": "y" })),
        };
    }
    Figure {
        id: id.to_owned(),
        title: format!("{title} against edges, seconds and bytes"),
        caption: "Mean over the seeds after each epoch; the band reaches from the lowest to the highest seed.".to_owned(),
        height: 430,
        data,
        layout,
    }
}

/// Returns the band between the seeds, and their mean.
fn curve(order: &OrderRuns, index: usize, panel: usize, x: Of, y: Of) -> [Value; 2] {
    let epochs = order.seeds().map(|run| run.epochs.len()).min();
    let epochs = epochs.unwrap_or(0);
    let at = |epoch: usize, figure: Of| -> Vec<f64> {
        let points = order.seeds().filter_map(|run| run.epochs.get(epoch));
        points.map(figure).collect()
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let xs: Vec<f64> = (0..epochs).map(|epoch| mean(&at(epoch, x))).collect();
    let ys: Vec<f64> = (0..epochs).map(|epoch| mean(&at(epoch, y))).collect();
    let low = (0..epochs).map(|epoch| at(epoch, y).into_iter().fold(f64::INFINITY, f64::min));
    let high = (0..epochs).map(|epoch| at(epoch, y).into_iter().fold(f64::NEG_INFINITY, f64::max));
    let outline: Vec<f64> = high.chain(low.rev()).collect();
    let around: Vec<f64> = xs.iter().copied().chain(xs.iter().rev().copied()).collect();
    let axes = json!({ "xaxis": format!("x{}", suffix(panel)), "yaxis": format!("y{}", suffix(panel)),
                       "legendgroup": format!("order {index}") });
    let band = json!({
        "type": "scatter", "mode": "lines", "x": around, "y": outline, "fill": "toself",
        "fillcolor": format!("{}33", color(index)), "line": { "width": 0 }, "hoverinfo": "skip", "showlegend": false,
    });
    let name = text(&order.order);
    let middle = json!({
        "type": "scatter", "mode": "lines+markers", "name": name, "x": xs, "y": ys, "line": line(index),
        "marker": with(marker(index), json!({ "size": 5 })), "showlegend": panel == 0,
        "hovertemplate": "%{x:.4s}: %{y:.4f}<extra>%{fullData.name}</extra>",
    });
    [with(band, axes.clone()), with(middle, axes)]
}
