//! Figure of the buckets of each trainer over time: one lane per trainer, one bar per bucket.

use serde_json::{Value, json};

use super::{Figure, RED, axis, color, names_axis, text, with};
use crate::run::{BucketRow, RunReport, SettlementRow};

/// Maximum number of buckets in the figure, since browsers draw each bar.
const MOST_BUCKETS: usize = 4000;

/// Returns the figure, with times in seconds from the start of the first bucket shown; `None` for runs of a single
/// trainer.
#[must_use]
pub fn run_lanes(report: &RunReport) -> Option<Figure> {
    let timed = report.buckets.iter().filter_map(|row| {
        let (trainer, ended) = (row.trainer.as_deref()?, row.at?);
        Some((trainer, ended, row))
    });
    let mut rows: Vec<(&str, f64, &BucketRow)> = timed.collect();
    rows.sort_by(|a, b| a.1.total_cmp(&b.1));
    let left_out = rows.len().saturating_sub(MOST_BUCKETS);
    rows.drain(..left_out);
    let began = |(_, ended, row): &(&str, f64, &BucketRow)| ended - row.seconds - row.io.waited();
    let origin = rows.iter().map(began).min_by(f64::total_cmp)?;
    let mut names: Vec<&str> = rows.iter().map(|(trainer, ..)| *trainer).collect();
    names.sort_unstable();
    names.dedup();
    let mut data: Vec<Value> = Vec::new();
    for name in &names {
        let own = rows.iter().filter(|(trainer, ..)| trainer == name);
        let own: Vec<_> = own.collect();
        let trained = own
            .iter()
            .map(|(_, ended, row)| (ended - row.seconds - origin, row.seconds));
        let (base, seconds): (Vec<f64>, Vec<f64>) = trained.unzip();
        let words = own.iter().map(|(.., row)| {
            let (epoch, edges) = (row.pass.epoch + 1, row.stats.count);
            format!("bucket {} of epoch {epoch}, {edges} edges", row.bucket)
        });
        data.push(json!({
            "type": "bar", "orientation": "h", "name": text(name), "base": base, "x": seconds,
            "y": vec![text(name); base.len()], "text": words.collect::<Vec<_>>(), "textposition": "none",
            "marker": { "color": color(0), "line": { "color": "white", "width": 0.5 } },
            "hovertemplate": "%{text}: %{x:.2f} s<extra></extra>", "showlegend": false,
        }));
    }
    data.push(waits(&rows, origin));
    let settlements = report.settlements.iter();
    let settlements: Vec<_> = settlements.filter(|row| row.at >= origin).collect();
    let settled = [
        (
            "write",
            color(2),
            settlement_bars(&settlements, origin, |row| {
                (row.ledger_seconds, row.write_seconds)
            }),
        ),
        (
            "ledger",
            color(1),
            settlement_bars(&settlements, origin, |row| (0.0, row.ledger_seconds)),
        ),
    ];
    if !settlements.is_empty() {
        data.extend(settled.map(|(name, color, bars)| with(bars, json!({
            "type": "bar", "orientation": "h", "name": name, "marker": { "color": color },
            "hovertemplate": format!("{name} of %{{text}}: %{{x:.3f}} s<extra></extra>"), "textposition": "none",
        }))));
    }
    let lanes = names.iter().flat_map(|name| {
        let has_settled = settlements.iter().any(|row| row.trainer == *name);
        [Some(text(name)), has_settled.then(|| settling_lane(name))]
    });
    let lanes: Vec<String> = lanes.flatten().collect();
    let mut caption = "Each bar is a trained bucket. Red bars are waits for partitions or edges that are long enough to be visible; white gaps \
                       are waits for other trainers, for the ledger, or for the end of a pass. The times are \
                       those of each trainer's own clock."
        .to_owned();
    if !settlements.is_empty() {
        caption.push_str(
            " The lanes named settling show for how long trained partitions were written, and how long the ledger then \
             took to record them.",
        );
    }
    if left_out > 0 {
        caption.push_str(&format!(
            " The figure shows the last {MOST_BUCKETS} buckets."
        ));
    }
    Some(Figure {
        id: "lanes".to_owned(),
        title: "What each trainer did".to_owned(),
        caption,
        height: 150 + 34 * lanes.len() as u32,
        data,
        layout: json!({
            "barmode": "overlay", "bargap": 0.25, "xaxis": axis("seconds from the first bucket"),
            "legend": { "orientation": "h", "x": 0, "y": 1, "yanchor": "bottom" },
            "yaxis": with(names_axis(), json!({
                "categoryorder": "array", "autorange": "reversed",
                "categoryarray": lanes,
            })),
        }),
    })
}

/// Returns the name of the lane in which the settlements of a trainer are.
fn settling_lane(trainer: &str) -> String {
    format!("{}, settling", text(trainer))
}

/// Returns bars of the spans of settlements; `span` returns how many seconds before the record a span ends, and its
/// duration.
fn settlement_bars(
    rows: &[&SettlementRow],
    origin: f64,
    span: impl Fn(&SettlementRow) -> (f64, f64),
) -> Value {
    let spans = rows.iter().map(|row| {
        let (ends_before, seconds) = span(row);
        (row.at - ends_before - seconds - origin, seconds)
    });
    let (base, seconds): (Vec<f64>, Vec<f64>) = spans.unzip();
    let lanes: Vec<String> = rows.iter().map(|row| settling_lane(&row.trainer)).collect();
    let names = rows.iter().map(|row| {
        let buckets: Vec<String> = row.buckets.iter().map(ToString::to_string).collect();
        buckets.join(" ")
    });
    json!({ "base": base, "x": seconds, "y": lanes, "text": names.collect::<Vec<_>>() })
}

/// Fraction of the whole time below which a wait is not drawn, since the shortest bar in a browser would exaggerate it.
const SHORTEST: f64 = 1.0 / 1000.0;

/// Returns bars of the times at which trainers waited before a bucket.
fn waits(rows: &[(&str, f64, &BucketRow)], origin: f64) -> Value {
    let whole = rows.last().map_or(0.0, |(_, ended, _)| ended - origin);
    let waited = rows
        .iter()
        .filter(|(.., row)| row.io.waited() > SHORTEST * whole);
    let waited: Vec<_> = waited.collect();
    let base = waited
        .iter()
        .map(|(_, ended, row)| ended - row.seconds - row.io.waited() - origin);
    let seconds = waited.iter().map(|(.., row)| row.io.waited());
    let names = waited.iter().map(|(trainer, ..)| text(trainer));
    json!({
        "type": "bar", "orientation": "h", "name": "wait", "marker": { "color": RED },
        "base": base.collect::<Vec<f64>>(), "x": seconds.collect::<Vec<f64>>(), "y": names.collect::<Vec<_>>(),
        "hovertemplate": "waited %{x:.2f} s<extra></extra>",
    })
}
