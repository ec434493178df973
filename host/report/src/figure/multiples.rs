//! Small multiples: one plot per series, where many series in one plot would hide each other.

use serde_json::{Map, Value, json};

use super::grids::{COLUMNS, domain};
use super::{COLORS, Figure, suffix, with};

/// Largest number of points of a series in the background of other plots.
const BACKGROUND: usize = 60;

/// Name of the series that every plot shows.
pub(crate) const BOUND: &str = "lower bound";

/// Returns the figure with one plot per series if it has more series than colours: each plot shows its series in colour,
/// the lower bound, and all other series in grey.
#[must_use]
pub(crate) fn multiples(figure: Figure) -> Figure {
    let is_main = |trace: &&Value| trace["showlegend"] != false && trace["name"] != BOUND;
    let mains: Vec<&Value> = figure.data.iter().filter(is_main).collect();
    if mains.len() <= COLORS.len() {
        return figure;
    }
    let bounds: Vec<&Value> = figure.data.iter().filter(|t| t["name"] == BOUND).collect();
    let rows = mains.len().div_ceil(COLUMNS);
    let grey = background(&mains);
    let (mut data, mut layout, mut titles) = (Vec::new(), Map::new(), Vec::new());
    for (index, main) in mains.iter().enumerate() {
        let panel = Panel::new(index, mains.len());
        data.push(panel.place(&grey));
        data.extend(bounds.iter().map(|bound| panel.place(bound)));
        // A series and its companions have one legend group.
        let group = &main["legendgroup"];
        let is_companion =
            |trace: &&Value| trace["showlegend"] == false && &trace["legendgroup"] == group;
        let companions = figure.data.iter().filter(is_companion);
        let companions = companions.filter(|_| group.is_string());
        data.extend(companions.chain(std::iter::once(*main)).map(|trace| {
            let line = with(trace["line"].clone(), json!({ "dash": "solid" }));
            panel.place(&with(
                trace.clone(),
                json!({ "line": line, "mode": "lines" }),
            ))
        }));
        for side in ["x", "y"] {
            let axis = panel.axis(side, &figure.layout[format!("{side}axis")]);
            layout.insert(format!("{side}axis{}", panel.suffix), axis);
        }
        titles.push(panel.title(&main["name"]));
    }
    layout.insert("annotations".to_owned(), Value::Array(titles));
    layout.insert("showlegend".to_owned(), json!(false));
    layout.insert("meta".to_owned(), json!({ "rows": rows }));
    let caption = format!(
        "{} Each plot shows one order in colour and the others in grey.",
        figure.caption
    );
    Figure {
        caption,
        height: 40 + 230 * rows as u32,
        data,
        layout: Value::Object(layout),
        ..figure
    }
}

/// Returns one grey trace of all series, with gaps between them.
fn background(mains: &[&Value]) -> Value {
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for main in mains {
        let points = |side: &str| main[side].as_array().map_or(&[][..], Vec::as_slice);
        let step = points("x").len().div_ceil(BACKGROUND).max(1);
        for (side, all) in [("x", &mut x), ("y", &mut y)] {
            all.extend(points(side).iter().step_by(step).cloned());
            all.push(Value::Null);
        }
    }
    json!({
        "type": "scatter", "mode": "lines", "x": x, "y": y, "hoverinfo": "skip",
        "line": { "color": "#ddd", "width": 1 },
    })
}

/// Place of a plot among the others.
struct Panel {
    suffix: String,
    x: [f64; 2],
    y: [f64; 2],
    is_left: bool,
    is_lowest: bool,
}

impl Panel {
    fn new(index: usize, count: usize) -> Self {
        let rows = count.div_ceil(COLUMNS);
        let (row, column) = (index / COLUMNS, index % COLUMNS);
        Self {
            suffix: suffix(index),
            x: domain(column, COLUMNS, 0.05),
            y: domain(rows - 1 - row, rows, 0.3 / rows as f64),
            is_left: column == 0,
            is_lowest: index + COLUMNS >= count,
        }
    }

    /// Returns a trace in this plot, without an entry in a legend.
    fn place(&self, trace: &Value) -> Value {
        let suffix = &self.suffix;
        let axes = json!({ "xaxis": format!("x{suffix}"), "yaxis": format!("y{suffix}"), "showlegend": false });
        with(trace.clone(), axes)
    }

    /// Returns an axis of this plot; only the outer plots have labels.
    fn axis(&self, side: &str, whole: &Value) -> Value {
        let (domain, anchor, labelled) = match side {
            "x" => (self.x, "y", self.is_lowest),
            _ => (self.y, "x", self.is_left),
        };
        let mut axis = with(
            whole.clone(),
            json!({
                "domain": domain, "anchor": format!("{anchor}{}", self.suffix), "showticklabels": labelled,
                "nticks": 4, "tickangle": 0,
            }),
        );
        if !labelled {
            axis["title"] = Value::Null;
        }
        if !self.suffix.is_empty() {
            axis["matches"] = json!(side);
        }
        axis
    }

    fn title(&self, name: &Value) -> Value {
        json!({
            "text": name, "xref": "paper", "yref": "paper", "showarrow": false, "font": { "size": 11 },
            "x": (self.x[0] + self.x[1]) / 2.0, "y": self.y[1], "yanchor": "bottom", "xanchor": "center",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(series: usize) -> Figure {
        let trace = |n: usize| json!({ "name": format!("order {n}"), "x": [1, 2], "y": [n, n + 1], "line": { "color": "#123", "dash": "dot" } });
        let bound = json!({ "name": BOUND, "x": [1, 2], "y": [0, 0] });
        Figure {
            id: "f".to_owned(),
            title: "F".to_owned(),
            caption: "C.".to_owned(),
            height: 400,
            data: std::iter::once(bound)
                .chain((0..series).map(trace))
                .collect(),
            layout: json!({ "xaxis": { "title": { "text": "x" } }, "yaxis": { "title": { "text": "y" } } }),
        }
    }

    #[test]
    fn few_series_share_a_plot() {
        let few = multiples(figure(8));
        assert_eq!(few.data.len(), 9);
        assert_eq!(few.height, 400);
    }

    #[test]
    fn many_series_have_a_plot_each_with_the_bound_and_the_others() {
        let many = multiples(figure(9));
        assert_eq!(many.data.len(), 3 * 9);
        assert_eq!(many.layout["annotations"].as_array().unwrap().len(), 9);
        assert_eq!(many.layout["xaxis9"]["matches"], "x");
        let last = many.data.last().unwrap();
        assert_eq!(
            (&last["xaxis"], &last["name"]),
            (&json!("x9"), &json!("order 8"))
        );
        assert_eq!(last["line"]["dash"], "solid");
        // The first plot of the lowest row has labels on both axes.
        assert_eq!(many.layout["xaxis9"]["showticklabels"], true);
        assert_eq!(many.layout["yaxis9"]["showticklabels"], true);
        assert_eq!(many.layout["yaxis2"]["showticklabels"], false);
    }
}
