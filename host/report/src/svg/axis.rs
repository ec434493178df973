//! Axes: positions of values in pixels, ticks and titles.

use std::fmt::Write as _;

use serde_json::Value;

use super::area::{Area, escape};

/// Axis of a plot.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    is_horizontal: bool,
    is_log: bool,
    is_reversed: bool,
    /// Smallest and largest value, as logarithms if the axis is logarithmic.
    range: [f64; 2],
    /// Start and end in pixels, of the smallest and the largest value.
    pixels: [f64; 2],
    /// Names of an axis of categories, by position.
    names: Vec<String>,
    ticks: Option<Vec<f64>>,
    title: String,
    has_labels: bool,
    has_grid: bool,
}

/// Value of a trace on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Position {
    Number(f64),
    Name(String),
}

impl Axis {
    /// Creates an axis that shows `values`.
    pub(super) fn new(side: &str, layout: &Value, values: Vec<Position>, area: Area) -> Self {
        let is_horizontal = side == "x";
        let is_log = layout["type"] == "log";
        let mut names: Vec<String> = Vec::new();
        let mut numbers = Vec::new();
        for value in values {
            match value {
                Position::Name(name) if !names.contains(&name) => names.push(name),
                Position::Name(_) => {}
                Position::Number(number) if !is_log || number > 0.0 => numbers.push(number),
                Position::Number(_) => {}
            }
        }
        let part = |n: usize| layout["domain"][n].as_f64().unwrap_or(n as f64);
        let pixels = match is_horizontal {
            true => [0, 1].map(|n| area.left + part(n) * area.width),
            false => [0, 1].map(|n| area.top + (1.0 - part(n)) * area.height),
        };
        let numbers_of = |key: &Value| -> Option<Vec<f64>> {
            Some(key.as_array()?.iter().filter_map(Value::as_f64).collect())
        };
        let mut axis = Self {
            is_horizontal,
            is_log,
            is_reversed: layout["autorange"] == "reversed",
            range: [0.0, 1.0],
            pixels,
            names,
            ticks: numbers_of(&layout["tickvals"]),
            title: layout["title"]["text"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            has_labels: layout["showticklabels"] != false,
            has_grid: layout["showgrid"] != false,
        };
        let given = numbers_of(&layout["range"]);
        axis.range = match given.as_deref() {
            Some(&[low, high]) => [low, high],
            _ => axis.fitting(&numbers, layout["rangemode"] == "tozero"),
        };
        axis
    }

    /// Returns a range that contains all values, with some room on both sides.
    fn fitting(&self, numbers: &[f64], from_zero: bool) -> [f64; 2] {
        if !self.names.is_empty() {
            return [-0.5, self.names.len() as f64 - 0.5];
        }
        let scaled = numbers
            .iter()
            .map(|&n| self.scaled(n))
            .filter(|n| n.is_finite());
        let ends = scaled.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], n| {
            [low.min(n), high.max(n)]
        });
        let [mut low, mut high] = ends;
        if low > high {
            return [0.0, 1.0];
        }
        if from_zero && !self.is_log {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        let room = if high > low { 0.05 * (high - low) } else { 0.5 };
        let below = if from_zero && low == 0.0 { 0.0 } else { room };
        [low - below, high + room]
    }

    fn scaled(&self, number: f64) -> f64 {
        if self.is_log { number.log10() } else { number }
    }

    /// Returns the pixel of a value; `None` if the axis cannot show it.
    pub(super) fn at(&self, position: &Position) -> Option<f64> {
        let value = match position {
            Position::Number(number) => self.scaled(*number),
            Position::Name(name) => self.names.iter().position(|known| known == name)? as f64,
        };
        let [low, high] = self.range;
        let mut share = (value - low) / (high - low);
        if self.is_reversed {
            share = 1.0 - share;
        }
        let [start, end] = self.pixels;
        let pixel = start + share * (end - start);
        pixel.is_finite().then_some(pixel)
    }

    /// Returns the pixels between two neighbouring categories or whole numbers.
    pub(super) fn step(&self) -> f64 {
        let [low, high] = self.range;
        let [start, end] = self.pixels;
        ((end - start) / (high - low)).abs()
    }

    /// Returns start and end in pixels.
    pub(super) const fn pixels(&self) -> [f64; 2] {
        self.pixels
    }

    /// Draws grid lines, labels of ticks and the title; `other` is the other axis of the plot.
    pub(super) fn draw(&self, svg: &mut String, other: &Self) {
        let [from, to] = other.pixels;
        let base = from;
        for (position, label) in self.labels() {
            let Some(at) = self.at(&position) else {
                continue;
            };
            let line = if self.is_horizontal {
                format!("M{at:.1} {from:.1}V{to:.1}")
            } else {
                format!("M{from:.1} {at:.1}H{to:.1}")
            };
            if self.has_grid && self.names.is_empty() {
                let _ = writeln!(svg, "<path d=\"{line}\" stroke=\"#e5e5e5\" fill=\"none\"/>");
            }
            if self.has_labels {
                let label = escape(&label);
                let _ = match self.is_horizontal {
                    true => writeln!(
                        svg,
                        "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"10\">{label}</text>",
                        base + 14.0
                    ),
                    false => writeln!(
                        svg,
                        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" font-size=\"10\">{label}</text>",
                        base - 6.0,
                        at + 3.5
                    ),
                };
            }
        }
        self.draw_title(svg, base);
    }

    fn draw_title(&self, svg: &mut String, base: f64) {
        if self.title.is_empty() {
            return;
        }
        let title = escape(&self.title);
        let middle = f64::midpoint(self.pixels[0], self.pixels[1]);
        let _ = match self.is_horizontal {
            true => writeln!(
                svg,
                "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{title}</text>",
                base + 32.0
            ),
            false => {
                let x = base - 44.0;
                writeln!(
                    svg,
                    "<text x=\"{x:.1}\" y=\"{middle:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 {x:.1} {middle:.1})\">{title}</text>"
                )
            }
        };
    }

    /// Returns the positions and labels of the ticks in the range.
    fn labels(&self) -> Vec<(Position, String)> {
        if !self.names.is_empty() {
            let name = |name: &String| (Position::Name(name.clone()), name.clone());
            return self.names.iter().map(name).collect();
        }
        let [low, high] = self.range;
        let ticks = self.ticks.clone().unwrap_or_else(|| self.round_ticks());
        let inside = |tick: &f64| (low - 1e-9..=high + 1e-9).contains(&self.scaled(*tick));
        let ticks: Vec<f64> = ticks.into_iter().filter(inside).collect();
        // A label needs about this many pixels.
        let size = if self.is_horizontal { 30.0 } else { 18.0 };
        let room = ((self.pixels[1] - self.pixels[0]).abs() / size).max(2.0) as usize;
        let every = ticks.len().div_ceil(room).max(1);
        let shown = ticks.into_iter().step_by(every);
        shown
            .map(|tick| (Position::Number(tick), short(tick)))
            .collect()
    }

    /// Returns ticks at round numbers, about five of them; at powers of ten on a logarithmic axis.
    fn round_ticks(&self) -> Vec<f64> {
        let [low, high] = self.range;
        if self.is_log {
            let powers = low.ceil() as i32..=high.floor() as i32;
            return powers.map(|power| 10_f64.powi(power)).collect();
        }
        let rough = (high - low) / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
        let step = step
            .into_iter()
            .find(|&step| step >= rough)
            .unwrap_or(rough);
        let count = ((high - low) / step).floor().clamp(0.0, 50.0) as i64 + 1;
        let first = (low / step).ceil();
        (0..=count).map(|n| (first + n as f64) * step).collect()
    }
}

/// Formats a number with a prefix for thousands and at most four digits.
fn short(value: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = units.into_iter().find(|(size, _)| value.abs() >= *size);
    let (scaled, unit) = unit.map_or((value, ""), |(size, unit)| (value / size, unit));
    let text = format!("{scaled:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text {
        "-0" => "0".to_owned(),
        text => format!("{text}{unit}"),
    }
}
