//! Figures of swaps: of one case, against the size of the buffer, and against the number of partitions.

use serde_json::{Value, json};

use super::multiples::{BOUND, multiples};
use super::{
    Figure, Series, axis, bound_line, color, line, log_axis, marker, names_axis, text, with,
};
use pbg_lab::comparison::{ComparisonCase, OrderComparison, OrderResult};

const SWAPS: &str = "swaps per pass";

/// Returns a figure with one bar per order, the lower bound and the range of the seeds.
#[must_use]
pub fn overview(case: &ComparisonCase, series: &Series) -> Figure {
    let orders: Vec<&OrderResult> = case.orders.iter().rev().collect();
    let names: Vec<String> = orders.iter().map(|entry| text(&entry.order)).collect();
    let means: Vec<f64> = orders.iter().map(|entry| mean(entry)).collect();
    let colors = orders.iter().map(|entry| color(series.place(&entry.order)));
    let colors: Vec<&str> = colors.collect();
    let range = |entry: &&OrderResult| entry.range(|analysis| analysis.swaps as f64);
    let above: Vec<f64> = orders.iter().map(|e| range(e).1 - mean(e)).collect();
    let below: Vec<f64> = orders.iter().map(|e| mean(e) - range(e).0).collect();
    let bars = json!({
        "type": "bar", "orientation": "h", "x": means, "y": names, "name": "swaps",
        "marker": { "color": colors }, "showlegend": false,
        "text": means.iter().map(|x| format!("{x:.0}")).collect::<Vec<_>>(),
        // The number is at the start of a bar, clear of the bound and the range of the seeds.
        "textposition": "auto", "insidetextanchor": "start",
        "error_x": { "type": "data", "symmetric": false, "array": above, "arrayminus": below, "color": "#555" },
        "hovertemplate": "%{y}: %{x:.1f} swaps<extra></extra>",
    });
    let bound = json!({
        "type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": case.lower_bound, "x1": case.lower_bound,
        "line": bound_line(),
    });
    let shapes = Vec::from_iter((case.lower_bound > 0).then_some(bound));
    Figure {
        id: "swaps".to_owned(),
        title: format!("Swaps: {}", case.title()),
        caption: format!(
            "Partition loads into a full buffer, mean and range over the seeds. The dashed line is the lower bound of all \
             orders, {}.",
            case.lower_bound
        ),
        height: 140 + 24 * orders.len() as u32,
        data: vec![bars],
        layout: json!({ "xaxis": with(axis(SWAPS), json!({ "rangemode": "tozero" })), "yaxis": names_axis(), "shapes": shapes, "bargap": 0.35 }),
    }
}

/// Returns figures of swaps against the size of the buffer, one per grid with several buffers.
#[must_use]
pub fn swaps_by_buffer(comparison: &OrderComparison) -> Vec<Figure> {
    let grids = groups(comparison, |case| {
        (case.lhs_partitions, case.rhs_partitions)
    });
    let series = Series::of(comparison);
    let several = grids.into_iter().filter(|(_, cases)| cases.len() > 1);
    several
        .map(|((lhs, rhs), cases)| {
            multiples(Figure {
                id: format!("swaps-by-buffer-{lhs}x{rhs}"),
                title: format!("Swaps against the buffer: {lhs} x {rhs} partitions"),
                caption: caption("the size of the buffer"),
                height: 480,
                data: lines(&cases, &series, |case| case.buffer),
                layout: layout("partitions in the buffer"),
            })
        })
        .collect()
}

/// Returns figures of swaps against the number of partitions, one per size of the buffer with several grids.
#[must_use]
pub fn swaps_by_partitions(comparison: &OrderComparison) -> Vec<Figure> {
    let buffers = groups(comparison, |case| case.buffer);
    let series = Series::of(comparison);
    let several = buffers.into_iter().filter(|(_, cases)| cases.len() > 1);
    several
        .map(|(buffer, cases)| {
            multiples(Figure {
                id: format!("swaps-by-partitions-{buffer}"),
                title: format!("Swaps against the partitions: buffer {buffer}"),
                caption: caption("the number of partitions"),
                height: 480,
                data: lines(&cases, &series, |case| case.lhs_partitions),
                layout: layout("partitions"),
            })
        })
        .collect()
}

fn caption(against: &str) -> String {
    format!(
        "Mean over the seeds against {against}; both axes are logarithmic. The dashed line is the lower bound."
    )
}

fn layout(title: &str) -> Value {
    json!({ "xaxis": powers_of_two(title), "yaxis": log_axis(SWAPS) })
}

/// Returns a logarithmic axis with ticks at powers of two, since sizes of buffers and grids mostly are.
fn powers_of_two(title: &str) -> Value {
    let ticks: Vec<u32> = (0..13).map(|power| 1 << power).collect();
    with(
        log_axis(title),
        json!({ "tickvals": ticks, "tickformat": "d" }),
    )
}

/// Groups the cases by `key`, in the order of first occurrence.
fn groups<K: PartialEq>(
    comparison: &OrderComparison,
    key: impl Fn(&ComparisonCase) -> K,
) -> Vec<(K, Vec<&ComparisonCase>)> {
    let mut groups: Vec<(K, Vec<&ComparisonCase>)> = Vec::new();
    for case in &comparison.cases {
        let key = key(case);
        match groups.iter_mut().find(|(k, _)| *k == key) {
            Some((_, cases)) => cases.push(case),
            None => groups.push((key, vec![case])),
        }
    }
    groups
}

/// Returns one line per order over `cases`, and the lower bound.
fn lines(
    cases: &[&ComparisonCase],
    series: &Series,
    x: impl Fn(&ComparisonCase) -> u32,
) -> Vec<Value> {
    let mut cases = cases.to_vec();
    cases.sort_by_key(|case| x(case));
    let bound: Vec<(u32, f64)> = cases.iter().map(|c| (x(c), c.lower_bound as f64)).collect();
    let mut data = vec![with(
        trace(BOUND, &bound, "lines"),
        json!({ "line": bound_line() }),
    )];
    data.extend(series.names().enumerate().map(|(index, name)| {
        let of = |case: &&ComparisonCase| {
            let entry = case.orders.iter().find(|entry| entry.order == name)?;
            Some((x(case), mean(entry)))
        };
        let points: Vec<(u32, f64)> = cases.iter().filter_map(of).collect();
        with(
            trace(name, &points, "lines+markers"),
            json!({ "line": line(index), "marker": marker(index) }),
        )
    }));
    data
}

/// Returns a trace without zeros, which a logarithmic axis cannot show.
fn trace(name: &str, points: &[(u32, f64)], mode: &str) -> Value {
    let points = points.iter().filter(|(_, swaps)| *swaps > 0.0);
    let (x, y): (Vec<u32>, Vec<f64>) = points.copied().unzip();
    let name = text(name);
    json!({
        "type": "scatter", "mode": mode, "name": name, "x": x, "y": y,
        "hovertemplate": "%{x}: %{y:.1f} swaps<extra>%{fullData.name}</extra>",
    })
}

fn mean(entry: &OrderResult) -> f64 {
    entry.mean(|analysis| analysis.swaps as f64)
}
