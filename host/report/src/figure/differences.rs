//! Figure of the differences between orders, with their intervals.

use serde_json::{Value, json};

use super::{Figure, axis, color, names_axis, text, with};
use pbg_lab::study::Study;

/// Returns the figure of differences in MRR to the first order; `None` with fewer than two seeds or orders.
#[must_use]
pub fn differences(study: &Study) -> Option<Figure> {
    let differences = study.differences(|point| point.mrr);
    let mut data: Vec<Value> = Vec::new();
    for (index, difference) in differences.iter().enumerate() {
        let [low, high] = difference.interval?;
        data.push(json!({
            "type": "scatter", "mode": "markers", "name": text(&difference.order), "showlegend": false,
            "x": [difference.mean], "y": [text(&difference.order)],
            "marker": { "color": color(index + 1), "size": 9 },
            "error_x": {
                "type": "data", "symmetric": false, "array": [high - difference.mean],
                "arrayminus": [difference.mean - low], "color": color(index + 1), "thickness": 2,
            },
            "hovertemplate": format!("%{{y}}: %{{x:+.4f}} ({low:+.4} to {high:+.4})<extra></extra>"),
        }));
    }
    let baseline = &study.orders.first()?.order;
    let zero = json!({
        "type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": 0, "x1": 0, "line": { "color": "#555", "width": 1 },
    });
    (!data.is_empty()).then(|| Figure {
        id: "differences".to_owned(),
        title: format!("Filtered MRR: difference to {baseline}"),
        caption: format!(
            "Mean difference between runs of the same seed after the last epoch, with its 95 % interval; the line is \
             {baseline} itself."
        ),
        height: 120 + 34 * data.len() as u32,
        data,
        layout: json!({
            "xaxis": with(axis("difference in MRR"), json!({ "zeroline": false })), "yaxis": names_axis(), "shapes": [zero],
        }),
    })
}
