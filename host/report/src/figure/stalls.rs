//! Figure of the predicted time of a pass at given rates.

use serde_json::{Value, json};

use super::{Figure, RED, axis, names_axis, text};
use pbg_lab::analysis::Analysis;
use pbg_lab::comparison::{ComparisonCase, OrderResult};
use pbg_lab::stall::DeviceRates;

/// Returns a figure with one bar per order: computing, stalls with prefetch, and additional stalls without.
#[must_use]
pub fn stalls(case: &ComparisonCase, rates: &DeviceRates) -> Figure {
    let orders: Vec<&OrderResult> = case.orders.iter().rev().collect();
    let names: Vec<String> = orders.iter().map(|entry| text(&entry.order)).collect();
    let bar = |name: &str, color: &str, hatched: bool, figure: fn(&Analysis) -> f64| -> Value {
        let x: Vec<f64> = orders.iter().map(|entry| entry.mean(figure)).collect();
        json!({
            "type": "bar", "orientation": "h", "name": name, "x": x, "y": names,
            "marker": {
                "color": color, "line": { "color": color, "width": 1 },
                "pattern": { "shape": if hatched { "/" } else { "" }, "fgcolor": color, "bgcolor": "#fff" },
            },
            "hovertemplate": format!("%{{y}}: %{{x:.0f}} s {name}<extra></extra>"),
        })
    };
    Figure {
        id: "stalls".to_owned(),
        title: format!("Predicted time of a pass: {}", case.title()),
        caption: format!(
            "At {} edges trained, {} MB read and {} MB written per second. With prefetch, missing partitions \
             of the next bucket are read while other buckets are trained.",
            rates.edges,
            rates.read / 1e6,
            rates.write / 1e6,
        ),
        height: 180 + 24 * orders.len() as u32,
        data: vec![
            bar("computing", "#0072B2", false, |a| a.compute_seconds),
            bar("stalled even with prefetch", RED, false, |a| a.stall_ahead),
            bar("stalled without prefetch", RED, true, |a| {
                a.stall_on_demand - a.stall_ahead
            }),
        ],
        layout: json!({ "xaxis": axis("seconds"), "yaxis": names_axis(), "barmode": "stack", "bargap": 0.35,
            "legend": { "traceorder": "normal" } }),
    }
}
