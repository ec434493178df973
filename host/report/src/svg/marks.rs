//! Traces: lines, markers, bands, bars, error bars and grids of cells.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::area::{Area, escape};
use super::axis::{Axis, Position};
use crate::figure::viridis;

/// Whether the kind of the trace can be drawn.
pub(super) fn is_drawable(trace: &Value) -> bool {
    match trace["type"].as_str() {
        Some("scatter" | "heatmap") => true,
        Some("bar") => trace["base"].is_null() && trace["orientation"] == "h",
        _ => false,
    }
}

/// Returns the values of a trace on an axis.
pub(super) fn values(trace: &Value, side: &str) -> Vec<Position> {
    if trace["type"] == "heatmap" {
        let rows = trace["z"].as_array().map_or(0, Vec::len);
        let columns = trace["z"][0].as_array().map_or(0, Vec::len);
        let count = if side == "x" { columns } else { rows };
        return [-0.5, count as f64 - 0.5].map(Position::Number).to_vec();
    }
    let mut values: Vec<Position> = points(trace, side).into_iter().flatten().collect();
    if side == "x" && trace["type"] == "bar" {
        values.push(Position::Number(0.0));
    }
    if side == "x" {
        let (above, below) = errors(trace);
        let numbers = points(trace, "x");
        for (index, value) in numbers.iter().enumerate() {
            if let Some(Position::Number(x)) = value {
                let of = |all: &[f64]| all.get(index).copied().unwrap_or(0.0);
                values.extend([x + of(&above), x - of(&below)].map(Position::Number));
            }
        }
    }
    values
}

fn points(trace: &Value, side: &str) -> Vec<Option<Position>> {
    let position = |value: &Value| match value {
        Value::String(name) => Some(Position::Name(name.clone())),
        value => value.as_f64().map(Position::Number),
    };
    trace[side]
        .as_array()
        .into_iter()
        .flatten()
        .map(position)
        .collect()
}

/// Returns the lengths of horizontal error bars above and below each value.
fn errors(trace: &Value) -> (Vec<f64>, Vec<f64>) {
    let of = |key: &str| {
        let values = trace["error_x"][key].as_array().into_iter().flatten();
        values.filter_map(Value::as_f64).collect()
    };
    (of("array"), of("arrayminus"))
}

/// Draws a trace.
pub(super) fn draw(svg: &mut String, trace: &Value, x: &Axis, y: &Axis) {
    match trace["type"].as_str() {
        Some("bar") => bars(svg, trace, x, y),
        Some("heatmap") => cells(svg, trace, x, y),
        _ => scatter(svg, trace, x, y),
    }
    error_bars(svg, trace, x, y);
}

fn scatter(svg: &mut String, trace: &Value, x: &Axis, y: &Axis) {
    let (xs, ys) = (points(trace, "x"), points(trace, "y"));
    let pixels = xs
        .iter()
        .zip(&ys)
        .map(|(a, b)| Some((x.at(a.as_ref()?)?, y.at(b.as_ref()?)?)));
    let pixels: Vec<Option<(f64, f64)>> = pixels.collect();
    let mode = trace["mode"].as_str().unwrap_or("lines");
    if mode.contains("lines") {
        let mut path = String::new();
        let mut is_new = true;
        for point in &pixels {
            if let Some((x, y)) = point {
                let _ = write!(path, "{}{x:.1} {y:.1}", if is_new { 'M' } else { 'L' });
            }
            is_new = point.is_none();
        }
        let look = if trace["fill"] == "toself" {
            fill(trace["fillcolor"].as_str().unwrap_or("#00000022"))
        } else {
            format!("fill=\"none\" {}", stroke(&trace["line"]))
        };
        let _ = writeln!(svg, "<path d=\"{path}\" {look}/>");
    }
    if mode.contains("markers") {
        for (x, y) in pixels.into_iter().flatten() {
            marker(svg, &trace["marker"], x, y);
        }
    }
}

/// Returns the fill of a colour that may end with its opacity, as `#0072B233` does.
fn fill(color: &str) -> String {
    let opacity = color
        .get(7..9)
        .and_then(|hex| u8::from_str_radix(hex, 16).ok());
    let plain = escape(color.get(..7).unwrap_or(color));
    let opacity = opacity.map_or(1.0, |opacity| f64::from(opacity) / 255.0);
    format!("fill=\"{plain}\" fill-opacity=\"{opacity:.2}\" stroke=\"none\"")
}

/// Returns the attributes of a line.
pub(super) fn stroke(line: &Value) -> String {
    let color = escape(line["color"].as_str().unwrap_or("#555"));
    let width = line["width"].as_f64().unwrap_or(2.0);
    let dash = match line["dash"].as_str() {
        Some("dot") => " stroke-dasharray=\"2 3\"",
        Some("dash") => " stroke-dasharray=\"6 4\"",
        Some("dashdot") => " stroke-dasharray=\"7 3 2 3\"",
        Some("longdashdot") => " stroke-dasharray=\"12 4 2 4\"",
        _ => "",
    };
    let opacity = line["opacity"].as_f64().unwrap_or(1.0);
    format!("stroke=\"{color}\" stroke-width=\"{width}\" stroke-opacity=\"{opacity}\"{dash}")
}

/// Draws a marker.
pub(super) fn marker(svg: &mut String, marker: &Value, x: f64, y: f64) {
    let color = escape(marker["color"].as_str().unwrap_or("#555"));
    let r = marker["size"].as_f64().unwrap_or(7.0) / 2.0;
    let shape = match marker["symbol"].as_str().unwrap_or("circle") {
        "square" => {
            let (left, top, side) = (x - r, y - r, 2.0 * r);
            format!("M{left:.1} {top:.1}h{side:.1}v{side:.1}h-{side:.1}z")
        }
        "diamond" => format!(
            "M{x:.1} {:.1}l{r:.1} {r:.1}l-{r:.1} {r:.1}l-{r:.1} -{r:.1}z",
            y - r
        ),
        "triangle-up" => format!(
            "M{x:.1} {:.1}l{r:.1} {:.1}h-{:.1}z",
            y - r,
            2.0 * r,
            2.0 * r
        ),
        "triangle-down" => format!(
            "M{x:.1} {:.1}l{r:.1} -{:.1}h-{:.1}z",
            y + r,
            2.0 * r,
            2.0 * r
        ),
        "cross" | "x" | "star" => {
            let (a, b) = (x - r, y - r);
            let d = 2.0 * r;
            let _ = writeln!(
                svg,
                "<path d=\"M{a:.1} {b:.1}l{d:.1} {d:.1}M{a:.1} {:.1}l{d:.1} -{d:.1}\" stroke=\"{color}\" stroke-width=\"1.8\" fill=\"none\"/>",
                y + r
            );
            return;
        }
        _ => {
            let _ = writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r:.1}\" fill=\"{color}\"/>"
            );
            return;
        }
    };
    let _ = writeln!(svg, "<path d=\"{shape}\" fill=\"{color}\"/>");
}

fn bars(svg: &mut String, trace: &Value, x: &Axis, y: &Axis) {
    let thickness = 0.65 * y.step();
    let labels = trace["text"].as_array();
    let all = points(trace, "x").into_iter().zip(points(trace, "y"));
    for (index, (value, name)) in all.enumerate() {
        let at = || Some((x.at(value.as_ref()?)?, y.at(name.as_ref()?)?));
        let Some((end, middle)) = at() else { continue };
        let start = trace["starts"][index].as_f64().unwrap_or(0.0);
        let Some(zero) = x.at(&Position::Number(start)) else {
            continue;
        };
        let colors = &trace["marker"]["color"];
        let color = colors[index].as_str().or(colors.as_str());
        let color = color.unwrap_or("#0072B2");
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{thickness:.1}\" fill=\"{}\" fill-opacity=\"{}\"/>",
            zero.min(end),
            middle - thickness / 2.0,
            (end - zero).abs(),
            escape(color),
            opacity(trace)
        );
        if let Some(label) = labels.and_then(|all| all.get(index)?.as_str()) {
            let (above, _) = errors(trace);
            let beyond = above.get(index).copied().unwrap_or(0.0);
            let number = match value {
                Some(Position::Number(number)) => number + beyond,
                _ => 0.0,
            };
            let end = x.at(&Position::Number(number)).unwrap_or(end);
            let (x, y) = (end + 6.0, middle + 4.0);
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"10\">{}</text>",
                escape(label)
            );
        }
    }
}

/// Returns the opacity of bars; a page draws a pattern where it is below 1.
pub(super) fn opacity(trace: &Value) -> f64 {
    match trace["marker"]["pattern"]["shape"].as_str() {
        None | Some("") => 1.0,
        Some(_) => 0.35,
    }
}

fn error_bars(svg: &mut String, trace: &Value, x: &Axis, y: &Axis) {
    let (above, below) = errors(trace);
    let color = escape(trace["error_x"]["color"].as_str().unwrap_or("#555"));
    let all = points(trace, "x").into_iter().zip(points(trace, "y"));
    for (index, (value, other)) in all.enumerate() {
        let (Some(Position::Number(value)), Some(other)) = (value, other) else {
            continue;
        };
        let of = |all: &[f64]| all.get(index).copied().filter(|length| *length > 0.0);
        if of(&above).or(of(&below)).is_none() {
            continue;
        }
        let low = x.at(&Position::Number(value - of(&below).unwrap_or(0.0)));
        let high = x.at(&Position::Number(value + of(&above).unwrap_or(0.0)));
        if let (Some(low), Some(high), Some(y)) = (low, high, y.at(&other)) {
            let cap = y - 4.0;
            let _ = writeln!(
                svg,
                "<path d=\"M{low:.1} {y:.1}H{high:.1}M{low:.1} {cap:.1}v8M{high:.1} {cap:.1}v8\" stroke=\"{color}\" stroke-width=\"1.5\" fill=\"none\"/>"
            );
        }
    }
}

fn cells(svg: &mut String, trace: &Value, x: &Axis, y: &Axis) {
    let most = trace["zmax"].as_f64().unwrap_or(1.0).max(1.0);
    let (width, height) = (x.step() + 0.2, y.step() + 0.2);
    for (row, cells) in trace["z"].as_array().into_iter().flatten().enumerate() {
        for (column, cell) in cells.as_array().into_iter().flatten().enumerate() {
            let at = |n: usize| Position::Number(n as f64);
            let (Some(left), Some(top)) = (x.at(&at(column)), y.at(&at(row))) else {
                continue;
            };
            let color = viridis(cell.as_f64().unwrap_or(0.0) / most);
            let (left, top) = (left - width / 2.0, top - height / 2.0);
            let _ = writeln!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{color}\"/>"
            );
        }
    }
}

/// Draws the vertical lines of a layout.
pub(super) fn shapes(svg: &mut String, layout: &Value, axes: &BTreeMap<String, Axis>, area: Area) {
    let Some(x) = axes.get("x") else { return };
    for shape in layout["shapes"].as_array().into_iter().flatten() {
        let at = shape["x0"]
            .as_f64()
            .and_then(|value| x.at(&Position::Number(value)));
        let [left, right] = x.pixels();
        if let Some(at) = at.filter(|at| (left..=right).contains(at)) {
            let (top, bottom) = (area.top, area.top + area.height);
            let stroke = stroke(&shape["line"]);
            let _ = writeln!(
                svg,
                "<path d=\"M{at:.1} {top:.1}V{bottom:.1}\" fill=\"none\" {stroke}/>"
            );
        }
    }
}
