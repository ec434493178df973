//! Figure of the buffer over time: contents of the slots, loads, and stalls.

use pbg_core::graph::{Side, SidePartition};
use pbg_lab::replay::{BufferReplay, PartitionLoad};
use pbg_lab::stall::{Interval, Transfer};
use serde_json::{Value, json};

use super::{Figure, RED, axis, names_axis, text, viridis, with};

/// Replayed plan with predicted or measured times.
#[derive(Clone, Debug)]
pub struct Timeline<'a> {
    /// Anchor of the figure.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Explanation below the figure.
    pub caption: String,
    /// Loads and slots.
    pub replay: &'a BufferReplay,
    /// Times of each load.
    pub transfers: &'a [Transfer],
    /// Times at which training waits.
    pub stalls: Vec<Interval>,
    /// End of the pass, in seconds.
    pub end: f64,
    /// Whether left and right partitions are the same.
    pub shared: bool,
}

/// Maximum number of loads in a figure, since browsers draw each bar.
const MOST_LOADS: usize = 2000;
/// Number of loads in the initial window; a strip below the figure moves and widens the window.
const WINDOW: usize = 100;
/// Maximum number of loads for which bars have white edges and the numbers of their partitions. With more, these would
/// hide narrow bars.
const LABELLED: usize = 400;

/// Returns a figure with one row per slot, one for the disk and one for stalls.
#[must_use]
pub fn timeline(timeline: &Timeline<'_>) -> Figure {
    let Timeline {
        replay, transfers, ..
    } = timeline;
    let shown = transfers.len().min(MOST_LOADS);
    let until = transfers
        .get(shown)
        .map_or(timeline.end, |next| next.leaves);
    let name = |(side, partition): SidePartition| match side {
        _ if timeline.shared => partition.to_string(),
        Side::Lhs => format!("l{partition}"),
        Side::Rhs => format!("r{partition}"),
    };
    let mut data = vec![held(timeline, shown, until, &name), stalls(timeline, until)];
    let mut rows: Vec<String> = (0..replay.slots).map(slot_name).collect();
    let busy = |transfer: &Transfer| transfer.read.seconds() + transfer.write.seconds() > 0.0;
    if transfers.iter().any(busy) {
        data.extend(disk(timeline, shown, &name));
        rows.push("disk".to_owned());
    }
    rows.push("stall".to_owned());
    let mut caption = timeline.caption.clone();
    if shown < transfers.len() {
        let all = transfers.len();
        caption.push_str(&format!(
            " The figure shows the first {shown} of {all} loads."
        ));
    }
    let mut seconds = axis("seconds from the start of the pass");
    let mut height = 130 + 22 * rows.len() as u32;
    if let Some(beyond) = transfers.get(WINDOW) {
        caption.push_str(&format!(
            " Initially {WINDOW} of {shown} loads are visible: drag the strip below the figure to move the window, and its \
             ends to widen it."
        ));
        let strip = json!({
            "range": [0.0, short(beyond.leaves)],
            "rangeslider": { "range": [0.0, short(until)], "thickness": STRIP / f64::from(height), "bordercolor": "#bbb", "borderwidth": 1 },
        });
        seconds = with(seconds, strip);
        height += 2 * STRIP as u32;
    }
    Figure {
        id: timeline.id.clone(),
        title: text(&timeline.title),
        caption,
        height,
        data,
        layout: json!({
            "barmode": "overlay", "bargap": 0.15, "xaxis": seconds,
            "legend": { "orientation": "h", "x": 0, "y": 1, "yanchor": "bottom" },
            "yaxis": with(names_axis(), json!({ "categoryorder": "array", "categoryarray": rows, "autorange": "reversed" })),
        }),
    }
}

/// Returns bars of the stalls before `until`.
fn stalls(timeline: &Timeline<'_>, until: f64) -> Value {
    let stalls = timeline.stalls.iter().filter(|span| span.start < until);
    let (base, seconds): (Vec<f64>, Vec<f64>) = stalls
        .map(|span| (short(span.start), short(span.seconds())))
        .unzip();
    json!({
        "type": "bar", "orientation": "h", "name": "stall", "base": base, "x": seconds,
        "y": vec!["stall"; base.len()], "marker": { "color": RED },
        "hovertemplate": "training waits %{x:.2f} s, from %{base:.2f} s<extra></extra>",
    })
}

/// Height of the strip that moves the window, in pixels.
const STRIP: f64 = 34.0;

fn slot_name(slot: u32) -> String {
    format!("slot {slot}")
}

/// Returns bars of the contents of each slot between loads.
fn held(
    timeline: &Timeline<'_>,
    shown: usize,
    until: f64,
    name: &dyn Fn(SidePartition) -> String,
) -> Value {
    let replay = timeline.replay;
    let mut since: Vec<Option<(f64, SidePartition)>> = vec![None; replay.slots as usize];
    for (slot, &group) in replay.initial.iter().enumerate() {
        since[slot] = Some((0.0, group));
    }
    let mut bars = Bars::default();
    for (load, transfer) in replay.loads.iter().zip(timeline.transfers).take(shown) {
        let slot = load.slot as usize;
        if let Some((start, group)) = since[slot].replace((transfer.enters, load.group)) {
            bars.add(load.slot, start, transfer.leaves, group, name);
        }
    }
    for (slot, held) in since.into_iter().enumerate() {
        if let Some((start, group)) = held {
            bars.add(slot as u32, start, until, group, name);
        }
    }
    let (labels, edge) = if shown <= LABELLED {
        (bars.names.clone(), 0.5)
    } else {
        (Vec::new(), 0.0)
    };
    let most = bars.numbers.iter().copied().max().unwrap_or(0).max(1);
    let share = |number: &u32| f64::from(*number) / f64::from(most);
    let colors: Vec<String> = bars
        .numbers
        .iter()
        .map(|number| viridis(share(number)))
        .collect();
    json!({
        "type": "bar", "orientation": "h", "name": "holds", "base": bars.base, "x": bars.seconds, "y": bars.rows,
        "customdata": bars.names, "text": labels, "textposition": "inside", "insidetextanchor": "middle",
        "textangle": 0, "cliponaxis": true,
        "marker": { "color": colors, "line": { "width": edge, "color": "#fff" } },
        "showlegend": false,
        "hovertemplate": "partition %{customdata} for %{x:.2f} s, from %{base:.2f} s<extra></extra>",
    })
}

/// Bars of the contents of slots.
#[derive(Default)]
struct Bars {
    base: Vec<f64>,
    seconds: Vec<f64>,
    rows: Vec<String>,
    names: Vec<String>,
    numbers: Vec<u32>,
}

impl Bars {
    fn add(
        &mut self,
        slot: u32,
        start: f64,
        end: f64,
        group: SidePartition,
        name: &dyn Fn(SidePartition) -> String,
    ) {
        if end > start {
            self.base.push(short(start));
            self.seconds.push(short(end - start));
            self.rows.push(slot_name(slot));
            self.names.push(name(group));
            self.numbers.push(group.1);
        }
    }
}

/// Returns bars of the reads of loaded partitions and of the writes of evicted ones.
fn disk(
    timeline: &Timeline<'_>,
    shown: usize,
    name: &dyn Fn(SidePartition) -> String,
) -> [Value; 2] {
    let loads = || {
        timeline
            .replay
            .loads
            .iter()
            .zip(timeline.transfers)
            .take(shown)
    };
    let bars = |what: &str, color: &str, pattern: &str, spans: Vec<(Interval, String)>| {
        let spans: Vec<_> = spans
            .into_iter()
            .filter(|(span, _)| span.seconds() > 0.0)
            .collect();
        json!({
            "type": "bar", "orientation": "h", "name": what,
            "base": spans.iter().map(|(span, _)| short(span.start)).collect::<Vec<_>>(),
            "x": spans.iter().map(|(span, _)| short(span.seconds())).collect::<Vec<_>>(),
            "y": vec!["disk"; spans.len()],
            "customdata": spans.iter().map(|(_, name)| name).collect::<Vec<_>>(),
            "marker": { "color": color, "pattern": { "shape": pattern, "fgcolor": "#333", "size": 5 } },
            "hovertemplate": format!("{what} %{{customdata}}: %{{x:.2f}} s, from %{{base:.2f}} s<extra></extra>"),
        })
    };
    let gone = |load: &PartitionLoad| load.evicted.map(name).unwrap_or_default();
    let reads = loads().map(|(load, times)| (times.read, name(load.group)));
    let writes = loads().map(|(load, times)| (times.write, gone(load)));
    [
        bars("reads", "#56B4E9", "", reads.collect()),
        bars("writes", "#ddd", "/", writes.collect()),
    ]
}

/// Rounds to a tenth of a millisecond, which is enough for a figure.
fn short(seconds: f64) -> f64 {
    (seconds * 1e4).round() / 1e4
}
