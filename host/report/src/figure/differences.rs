//! Figure of the differences between orders, with their intervals.

use serde_json::{Value, json};

use super::{Figure, axis, color, names_axis, text, with};
use pbg_lab::differences::OrderDifference;
use pbg_lab::study::Study;

/// Returns the figure of differences in MRR to the first order; `None` with fewer than two seeds or orders.
#[must_use]
pub fn differences(study: &Study) -> Option<Figure> {
    let baseline = &study.orders.first()?.order;
    let differences = study.differences(|point| point.mrr);
    if !differences
        .iter()
        .any(|difference| difference.values.len() > 1)
    {
        return None;
    }
    let traces = differences.iter().enumerate();
    let data: Vec<Value> = traces
        .flat_map(|(index, difference)| [seeds(difference), mean(index, difference)])
        .collect();
    let zero = json!({
        "type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": 0, "x1": 0, "line": { "color": "#555", "width": 1 },
    });
    let interval = match differences
        .iter()
        .all(|difference| difference.interval.is_some())
    {
        true => "with its 95 % interval",
        false => "with its 95 % interval where the seeds allow one",
    };
    Some(Figure {
        id: "differences".to_owned(),
        title: format!("Filtered MRR: difference to {baseline}"),
        caption: format!(
            "Difference between runs of the same seed after the last epoch: the mean {interval}, and each seed as a cross. The \
             line is {baseline} itself."
        ),
        height: 120 + 34 * differences.len() as u32,
        data,
        layout: json!({
            "xaxis": with(axis("difference in MRR"), json!({ "zeroline": false, "rangemode": "tozero" })), "yaxis": names_axis(), "shapes": [zero],
        }),
    })
}

/// Returns the mean with its interval.
fn mean(index: usize, difference: &OrderDifference) -> Value {
    let (name, mean, color) = (text(&difference.order), difference.mean, color(index + 1));
    let base = json!({
        "type": "scatter", "mode": "markers", "name": name, "showlegend": false, "x": [mean], "y": [name],
        "marker": { "color": color, "size": 9 },
    });
    match difference.interval {
        None => with(
            base,
            json!({ "hovertemplate": "%{y}: %{x:+.4f}<extra></extra>" }),
        ),
        Some([low, high]) => with(
            base,
            json!({
                "error_x": {
                    "type": "data", "symmetric": false, "array": [high - mean], "arrayminus": [mean - low], "color": color,
                    "thickness": 2,
                },
                "hovertemplate": format!("%{{y}}: %{{x:+.4f}} ({low:+.4} to {high:+.4})<extra></extra>"),
            }),
        ),
    }
}

/// Returns the difference with each seed.
fn seeds(difference: &OrderDifference) -> Value {
    let name = text(&difference.order);
    let names: Vec<&str> = difference.values.iter().map(|_| name.as_str()).collect();
    let seeds: Vec<String> = difference.seeds.iter().map(u64::to_string).collect();
    json!({
        "type": "scatter", "mode": "markers", "name": name, "showlegend": false, "x": difference.values, "y": names,
        "text": seeds, "marker": { "color": "#333333", "size": 6, "symbol": "x" },
        "hovertemplate": "%{y}, seed %{text}: %{x:+.4f}<extra></extra>",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_lab::study::{EpochPoint, OrderRuns, SeedRun};

    /// Where all differences are on one side, the line of the baseline is drawn all the same.
    #[test]
    fn the_baseline_is_in_the_drawing() {
        let order = |name: &str, above: f64| OrderRuns {
            order: name.to_owned(),
            runs: (0..4_u32)
                .map(|seed| SeedRun {
                    seed: seed.into(),
                    epochs: vec![EpochPoint {
                        mrr: above + 0.001 * f64::from(seed),
                        ..EpochPoint::default()
                    }],
                    ..SeedRun::default()
                })
                .collect(),
        };
        let mut better = order("better", 0.2);
        better.runs[0].epochs[0].mrr += 0.0004;
        let study = Study {
            orders: vec![order("base", 0.1), better],
            ..Study::default()
        };
        let drawing = crate::svg::draw(&differences(&study).unwrap()).unwrap();
        assert!(drawing.contains(">0</text>"), "{drawing}");
        assert!(drawing.contains("stroke=\"#555\""), "{drawing}");
    }
}
