//! Figures in the schema of Plotly.js, <https://plotly.com/javascript/reference/>.

mod bias;
mod differences;
mod grids;
mod lanes;
mod learning;
mod map;
mod misses;
mod multiples;
mod reliability;
mod run;
mod stalls;
mod swaps;
mod timeline;

pub use bias::bias;
pub use differences::differences;
pub(crate) use grids::MOST_BUCKETS;
pub use grids::grids;
pub use lanes::run_lanes;
pub use learning::{loss, mrr};
pub use map::map;
pub use misses::misses;
pub use reliability::{ReliabilityPoint, reliability};
pub use run::{run_buffer, run_loss, run_quality, run_speed, run_stalls};
pub use stalls::stalls;
pub use swaps::{overview, swaps_by_buffer, swaps_by_partitions};
pub use timeline::{Timeline, timeline};

use pbg_lab::comparison::OrderComparison;
use serde::Serialize;
use serde_json::{Value, json};

/// Figure of a page.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Name of the downloaded file, and anchor in the page.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Explanation below the figure.
    pub caption: String,
    /// Height in pixels.
    pub height: u32,
    /// Plotly's traces.
    pub data: Vec<Value>,
    /// Plotly's layout.
    pub layout: Value,
}

/// Eight colours that people with any kind of colour vision can distinguish: Okabe and Ito, "Color
/// universal design" (2008), with grey instead of black, which is the colour of the lower bound. Yellow comes last,
/// since it is faint on white.
const COLORS: [&str; 8] = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8C8C8C", "#B8A900",
];
/// Line styles of series; dashed lines are reserved for the lower bound.
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

/// Bucket orders in the sequence of their first occurrence, so that an order has the same colour in all figures of a
/// page, however the orders of a case are sorted.
#[derive(Clone, Debug)]
pub struct Series(Vec<String>);

impl Series {
    /// Collects the orders of all cases.
    #[must_use]
    pub fn of(comparison: &OrderComparison) -> Self {
        let mut names: Vec<String> = Vec::new();
        for entry in comparison.cases.iter().flat_map(|case| &case.orders) {
            if !names.contains(&entry.order) {
                names.push(entry.order.clone());
            }
        }
        Self(names)
    }

    /// Returns the names of the orders.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns the index of an order.
    fn place(&self, order: &str) -> usize {
        self.names()
            .position(|name| name == order)
            .unwrap_or_default()
    }
}

/// Returns the line style of the lower bound, which no series uses.
pub(crate) fn bound_line() -> Value {
    json!({ "color": "#000000", "dash": "dash", "width": 1.5 })
}

/// Colour of stalls.
pub(crate) const RED: &str = "#D55E00";

/// Returns the colour of series `index`.
pub(crate) fn color(index: usize) -> &'static str {
    COLORS[index % COLORS.len()]
}

/// Returns the line style of series `index`. After eight series the colours repeat with other dashes.
pub(crate) fn line(index: usize) -> Value {
    json!({
        "color": color(index),
        "dash": DASHES[index / COLORS.len() % DASHES.len()],
        "width": 2,
    })
}

/// Returns the marker of series `index`.
pub(crate) fn marker(index: usize) -> Value {
    json!({
        "color": color(index),
        "symbol": SYMBOLS[(index + index / COLORS.len()) % SYMBOLS.len()],
        "size": 7,
    })
}

/// Returns the colour at `share`, from 0 to 1, of the scale viridis by van der Walt and Smith (2015), which is
/// perceptually uniform for any kind of colour vision.
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

/// Escapes text for Plotly, which interprets some HTML tags.
pub(crate) fn text(name: &str) -> String {
    name.replace('<', "‹").replace('>', "›")
}

/// Returns the suffix by which Plotly tells the axes of plot `index` from those of the other plots.
pub(crate) fn suffix(index: usize) -> String {
    match index {
        0 => String::new(),
        _ => (index + 1).to_string(),
    }
}

/// Returns an axis of numbers with a title.
pub(crate) fn axis(title: &str) -> Value {
    json!({ "title": { "text": title }, "gridcolor": "#e5e5e5", "zerolinecolor": "#bbb" })
}

/// Returns an axis of names with an automatic margin. Axes of numbers have fixed margins: if the margins of both axes
/// followed their labels, and the labels the margins, the layout might never converge.
pub(crate) fn names_axis() -> Value {
    with(axis(""), json!({ "automargin": true }))
}

/// Returns a logarithmic axis with a title.
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

/// Returns `base` extended by the entries of `more`.
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
