//! Figures in the schema of Plotly.js, <https://plotly.com/javascript/reference/>.

mod bias;
mod grids;
mod lanes;
mod learning;
mod map;
mod misses;
mod run;
mod stalls;
mod swaps;
mod timeline;

pub use bias::bias;
pub(crate) use grids::MOST_BUCKETS;
pub use grids::grids;
pub use lanes::run_lanes;
pub use learning::{loss, mrr};
pub use map::map;
pub use misses::misses;
pub use run::{run_buffer, run_loss, run_quality, run_speed, run_stalls};
pub use stalls::stalls;
pub use swaps::{overview, swaps_by_buffer, swaps_by_partitions};
pub use timeline::{Timeline, timeline};

use pbg_lab::comparison::Comparison;
use serde::Serialize;
use serde_json::{Value, json};

/// One figure of a page.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Name of the downloaded file, and anchor in the page.
    pub id: String,
    /// Heading.
    pub title: String,
    /// What one sees, below the figure.
    pub caption: String,
    /// Height in pixels.
    pub height: u32,
    /// Plotly's traces.
    pub data: Vec<Value>,
    /// Plotly's layout.
    pub layout: Value,
}

/// Eight colours that people with any kind of colour vision can tell apart: Okabe and Ito, "Color
/// universal design" (2008), with grey in the place of black, which belongs to the lower bound. Yellow comes last,
/// since it is faint on white.
const COLORS: [&str; 8] = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8C8C8C", "#B8A900",
];
/// What is dashed is the lower bound.
const DASHES: [&str; 4] = ["solid", "dot", "dashdot", "longdashdot"];
const SYMBOLS: [&str; 8] = [
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "cross",
    "x",
    "star",
    "triangle-down",
];

/// Orders by the place at which they come first, so that each has its colour in all figures of a page, however
/// the orders of a case are sorted.
#[derive(Clone, Debug)]
pub struct Series(Vec<String>);

impl Series {
    /// The orders of all cases.
    #[must_use]
    pub fn of(comparison: &Comparison) -> Self {
        let mut names: Vec<String> = Vec::new();
        for entry in comparison.cases.iter().flat_map(|case| &case.orders) {
            if !names.contains(&entry.order) {
                names.push(entry.order.clone());
            }
        }
        Self(names)
    }

    /// Their names.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The place of an order.
    fn place(&self, order: &str) -> usize {
        self.names()
            .position(|name| name == order)
            .unwrap_or_default()
    }
}

/// How the lower bound is drawn: no series is as it.
pub(crate) fn bound_line() -> Value {
    json!({ "color": "#000000", "dash": "dash", "width": 1.5 })
}

/// The red of stalls.
pub(crate) const RED: &str = "#D55E00";

/// The colour of series `index`.
pub(crate) fn color(index: usize) -> &'static str {
    COLORS[index % COLORS.len()]
}

/// How the line of series `index` is drawn: beyond eight, colours come again with other dashes.
pub(crate) fn line(index: usize) -> Value {
    json!({
        "color": color(index),
        "dash": DASHES[index / COLORS.len() % DASHES.len()],
        "width": 2,
    })
}

/// The marker of series `index`.
pub(crate) fn marker(index: usize) -> Value {
    json!({
        "color": color(index),
        "symbol": SYMBOLS[(index + index / COLORS.len()) % SYMBOLS.len()],
        "size": 7,
    })
}

/// Viridis from 0 to 1, by van der Walt and Smith (2015): even steps for any kind of colour vision.
pub(crate) fn viridis(share: f64) -> String {
    const STEPS: [[f64; 3]; 9] = [
        [68.0, 1.0, 84.0],
        [71.0, 44.0, 122.0],
        [59.0, 81.0, 139.0],
        [44.0, 113.0, 142.0],
        [33.0, 144.0, 141.0],
        [39.0, 173.0, 129.0],
        [92.0, 200.0, 99.0],
        [170.0, 220.0, 50.0],
        [253.0, 231.0, 37.0],
    ];
    let at = share.clamp(0.0, 1.0) * (STEPS.len() - 1) as f64;
    let low = (at as usize).min(STEPS.len() - 2);
    let mix = |channel: usize| {
        let (a, b) = (STEPS[low][channel], STEPS[low + 1][channel]);
        (a + (b - a) * (at - low as f64)).round()
    };
    format!("rgb({},{},{})", mix(0), mix(1), mix(2))
}

/// Text for Plotly, which takes some tags: names of plugins are no markup.
pub(crate) fn text(name: &str) -> String {
    name.replace('<', "‹").replace('>', "›")
}

/// An axis of numbers with a title.
pub(crate) fn axis(title: &str) -> Value {
    json!({ "title": { "text": title }, "gridcolor": "#e5e5e5", "zerolinecolor": "#bbb" })
}

/// An axis of names, which take the room that they need. Numbers are given theirs: margins that follow the labels of
/// both axes may never come to rest, since the labels follow the margins.
pub(crate) fn names_axis() -> Value {
    with(axis(""), json!({ "automargin": true }))
}

/// A logarithmic axis with a title.
pub(crate) fn log_axis(title: &str) -> Value {
    // Plotly's own labels between powers of ten are single digits.
    let ticks: Vec<u64> = (0..9_u32)
        .flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)))
        .collect();
    with(
        axis(title),
        json!({ "type": "log", "tickvals": ticks, "tickformat": "~s" }),
    )
}

/// `base` with the entries of `more`.
pub(crate) fn with(base: Value, more: Value) -> Value {
    let (Value::Object(mut base), Value::Object(more)) = (base, more) else {
        return Value::Null;
    };
    base.extend(more);
    Value::Object(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_series_looks_like_the_bound() {
        let bound = bound_line();
        for index in 0..4 * COLORS.len() {
            for what in ["color", "dash"] {
                assert_ne!(line(index)[what], bound[what], "{what} of series {index}");
            }
        }
    }
}
