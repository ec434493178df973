//! Figures as SVG files, without a browser.
//!
//! It draws the traces that figures of orders and studies have: lines, markers, bands, horizontal bars, error bars and
//! grids of cells. The pages leave drawing to Plotly, which draws the same figures with interaction.

mod area;
mod axis;
mod marks;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::figure::{Figure, with};
use area::{Area, escape};
use axis::Axis;

/// Width of a drawing in pixels.
const WIDTH: f64 = 900.0;
/// Height of a line of the legend, and of the title.
const LINE: f64 = 18.0;

/// Returns the SVG of a figure; `None` if it has a kind of trace that only a page draws, such as the buffer over time.
#[must_use]
pub fn draw(figure: &Figure) -> Option<String> {
    if !figure.data.iter().all(marks::is_drawable) {
        return None;
    }
    let figure = &Figure {
        data: stacked(figure),
        ..figure.clone()
    };
    let names = legend_names(figure);
    let legend = Legend::new(&names);
    let area = Area {
        left: margin(figure),
        top: 44.0,
        width: WIDTH - margin(figure) - 20.0,
        height: (f64::from(figure.height) - 90.0).max(80.0),
    };
    let height = area.top + area.height + 52.0 + legend.height();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" height=\"{height:.0}\" \
         font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"12\" fill=\"#1a1a1a\">\n\
         <title>{title}</title>\n<desc>{caption}</desc>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{left}\" y=\"20\" font-size=\"14\" font-weight=\"bold\">{title}</text>\n",
        title = escape(&figure.title),
        caption = escape(&figure.caption),
        left = 12,
    );
    let axes = axes(figure, area);
    for (key, axis) in axes.iter().filter(|(key, _)| key.starts_with('x')) {
        let partner = format!("y{}", &key[1..]);
        if let Some(other) = axes.get(&partner) {
            axis.draw(&mut svg, other);
            other.draw(&mut svg, axis);
        }
    }
    for trace in &figure.data {
        let of = |side: &str| axes.get(trace[format!("{side}axis")].as_str().unwrap_or(side));
        if let (Some(x), Some(y)) = (of("x"), of("y")) {
            marks::draw(&mut svg, trace, x, y);
        }
    }
    marks::shapes(&mut svg, &figure.layout, &axes, area);
    annotations(&mut svg, &figure.layout, area);
    legend.draw(&mut svg, &names, figure, area.top + area.height + 56.0);
    svg.push_str("</svg>\n");
    Some(svg)
}

/// Returns the traces, with bars on top of the earlier ones: `x` is their end and `starts` their beginning.
fn stacked(figure: &Figure) -> Vec<Value> {
    let mut tops: BTreeMap<String, f64> = BTreeMap::new();
    let stack = |trace: &Value| {
        if trace["type"] != "bar" || figure.layout["barmode"] != "stack" {
            return trace.clone();
        }
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        let names = trace["y"].as_array().into_iter().flatten();
        for (name, x) in names.zip(trace["x"].as_array().into_iter().flatten()) {
            let top = tops.entry(name.to_string()).or_default();
            starts.push(*top);
            *top += x.as_f64().unwrap_or(0.0);
            ends.push(*top);
        }
        with(trace.clone(), json!({ "x": ends, "starts": starts }))
    };
    figure.data.iter().map(stack).collect()
}

/// Returns the left margin: names of categories need more room than numbers.
fn margin(figure: &Figure) -> f64 {
    let names = figure.data.iter().filter_map(|trace| trace["y"].as_array());
    let widths = names
        .flatten()
        .filter_map(Value::as_str)
        .map(|name| name.chars().count());
    widths
        .max()
        .map_or(72.0, |longest| 24.0 + 6.6 * longest as f64)
}

/// Returns the axes of the figure by their names in traces (`x`, `y`, `x2`, ...).
fn axes(figure: &Figure, area: Area) -> BTreeMap<String, Axis> {
    let mut axes: BTreeMap<String, Axis> = BTreeMap::new();
    for side in ["x", "y"] {
        let mut ids: Vec<String> = figure
            .data
            .iter()
            .map(|trace| {
                trace[format!("{side}axis")]
                    .as_str()
                    .unwrap_or(side)
                    .to_owned()
            })
            .collect();
        ids.sort();
        ids.dedup();
        for id in &ids {
            let layout = &figure.layout[format!("{side}axis{}", &id[1..])];
            // Axes that match the first one show its range.
            let shares = |other: &str| {
                other == id || !layout["matches"].is_null() || is_matched(figure, side, other)
            };
            let traces = figure
                .data
                .iter()
                .filter(|trace| shares(trace[format!("{side}axis")].as_str().unwrap_or(side)));
            let values = traces.flat_map(|trace| marks::values(trace, side));
            axes.insert(id.clone(), Axis::new(side, layout, values.collect(), area));
        }
    }
    axes
}

/// Whether an axis shows the range of the first one.
fn is_matched(figure: &Figure, side: &str, id: &str) -> bool {
    !figure.layout[format!("{side}axis{}", &id[1..])]["matches"].is_null()
}

/// Returns the names of the traces in the legend, in order of first occurrence.
fn legend_names(figure: &Figure) -> Vec<(String, Value)> {
    if figure.layout["showlegend"] == false {
        return Vec::new();
    }
    let shown = figure
        .data
        .iter()
        .filter(|trace| trace["showlegend"] != false);
    let look = |trace: &Value| match trace["type"].as_str() {
        Some("bar") => {
            json!({ "color": trace["marker"]["color"], "width": 10, "opacity": marks::opacity(trace) })
        }
        _ => trace["line"].clone(),
    };
    let named = shown.filter_map(|trace| Some((trace["name"].as_str()?.to_owned(), look(trace))));
    let named: Vec<_> = named.filter(|(_, line)| line.is_object()).collect();
    if named.len() < 2 { Vec::new() } else { named }
}

/// Rows of names below a figure.
struct Legend {
    columns: usize,
    rows: usize,
    width: f64,
}

impl Legend {
    fn new(names: &[(String, Value)]) -> Self {
        let longest = names
            .iter()
            .map(|(name, _)| name.chars().count())
            .max()
            .unwrap_or(0);
        let width = 48.0 + 6.8 * longest as f64;
        let columns = ((WIDTH - 40.0) / width).floor().max(1.0) as usize;
        Self {
            columns,
            rows: names.len().div_ceil(columns),
            width,
        }
    }

    fn height(&self) -> f64 {
        LINE * self.rows as f64
    }

    fn draw(&self, svg: &mut String, names: &[(String, Value)], figure: &Figure, top: f64) {
        for (index, (name, line)) in names.iter().enumerate() {
            let x = 20.0 + self.width * (index % self.columns) as f64;
            let y = top + LINE * (index / self.columns) as f64;
            let stroke = marks::stroke(line);
            let _ = writeln!(
                svg,
                "<path d=\"M{x:.1} {:.1}h26\" fill=\"none\" {stroke}/><text x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
                y - 4.0,
                x + 32.0,
                escape(name)
            );
            let of_name = figure
                .data
                .iter()
                .find(|trace| trace["name"] == name.as_str());
            if let Some(marker) = of_name
                .map(|trace| &trace["marker"])
                .filter(|marker| marker["symbol"].is_string())
            {
                marks::marker(svg, marker, x + 13.0, y - 4.0);
            }
        }
    }
}

/// Draws the titles of small plots.
fn annotations(svg: &mut String, layout: &Value, area: Area) {
    for note in layout["annotations"].as_array().into_iter().flatten() {
        let at = |side: &str| note[side].as_f64().unwrap_or(0.5);
        let x = area.left + at("x") * area.width;
        let y = area.top + (1.0 - at("y")) * area.height - 4.0;
        let text = escape(note["text"].as_str().unwrap_or_default());
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" font-size=\"11\">{text}</text>"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn figure(data: Vec<Value>, layout: Value) -> Figure {
        Figure {
            id: "f".to_owned(),
            title: "A <b> & \"c\"".to_owned(),
            caption: "C".to_owned(),
            height: 300,
            data,
            layout,
        }
    }

    #[test]
    fn a_line_goes_through_its_points() {
        let line = json!({ "type": "scatter", "mode": "lines+markers", "name": "n", "x": [1, 10, null, 100], "y": [1, 2, null, 3],
                           "line": { "color": "#0072B2" } });
        let layout =
            json!({ "xaxis": { "type": "log" }, "yaxis": { "title": { "text": "swaps" } } });
        let svg = draw(&figure(vec![line], layout)).unwrap();
        assert!(svg.contains("A &lt;b&gt; &amp; &quot;c&quot;"));
        assert!(svg.contains(">swaps</text>"), "{svg}");
        // The gap separates two parts of the path.
        let path = svg.lines().find(|line| line.contains("#0072B2")).unwrap();
        assert_eq!(path.matches('M').count(), 2, "{path}");
        // On a logarithmic axis, 10 is in the middle between 1 and 100.
        let numbers: Vec<f64> = path
            .split(['M', 'L', ' ', '"'])
            .filter_map(|word| word.parse().ok())
            .collect();
        assert!(
            (numbers[2] - f64::midpoint(numbers[0], numbers[4])).abs() < 0.2,
            "{path}"
        );
    }

    #[test]
    fn bars_have_the_names_of_their_categories() {
        let bars = json!({ "type": "bar", "orientation": "h", "x": [4, 2], "y": ["beta", "snake"], "marker": { "color": ["#000", "#111"] } });
        let svg = draw(&figure(vec![bars], json!({}))).unwrap();
        assert!(
            svg.contains(">beta</text>") && svg.contains("fill=\"#111\""),
            "{svg}"
        );
    }

    #[test]
    fn stacked_bars_begin_where_the_earlier_ones_end() {
        let bar = |x: f64| json!({ "type": "bar", "orientation": "h", "name": format!("n{x}"), "x": [x], "y": ["beta"], "marker": { "color": "#000" } });
        let svg = draw(&figure(
            vec![bar(3.0), bar(1.0)],
            json!({ "barmode": "stack" }),
        ))
        .unwrap();
        let number = |line: &str, key: &str| -> f64 {
            let (_, rest) = line.split_once(&format!(" {key}=\"")).unwrap();
            rest.split_once('"').unwrap().0.parse().unwrap()
        };
        let bars: Vec<&str> = svg
            .lines()
            .filter(|line| line.starts_with("<rect x="))
            .collect();
        let [first, second] = bars.as_slice() else {
            panic!("{svg}")
        };
        let end = number(first, "x") + number(first, "width");
        assert!((end - number(second, "x")).abs() < 0.2, "{svg}");
        assert!(
            (number(first, "width") - 3.0 * number(second, "width")).abs() < 0.5,
            "{svg}"
        );
        assert!(svg.contains(">n3</text>"), "{svg}");
    }

    #[test]
    fn what_only_a_page_draws_is_left_out() {
        let unknown = json!({ "type": "pie", "x": [1], "y": [1] });
        assert_eq!(draw(&figure(vec![unknown], json!({}))), None);
    }
}
