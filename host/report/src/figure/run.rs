//! Figures of a run over its buckets and epochs.

use serde_json::{Value, json};

use super::{Figure, RED, Timeline, axis, color, timeline, with};
use pbg_core::event::RankStats;

use crate::run::{BucketRow, EpochRow, MeasuredPass, RunReport};

/// Maximum number of points of a curve; longer curves are averaged.
const POINTS: usize = 1000;

/// Returns the figure of the loss of buckets and epochs against edges.
#[must_use]
pub fn run_loss(report: &RunReport) -> Figure {
    let edges = |row: &BucketRow| row.stats.count as f64;
    let buckets = curve(&report.buckets, |rows| {
        let count: f64 = rows.iter().map(edges).sum();
        (count > 0.0).then(|| rows.iter().map(|row| row.stats.loss).sum::<f64>() / count)
    });
    let mut sum = 0;
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for epoch in &report.epochs {
        sum += epoch.stats.count;
        x.push(sum);
        y.push(epoch.stats.mean_loss());
    }
    Figure {
        id: "loss".to_owned(),
        title: "Loss per edge".to_owned(),
        caption: "Of each bucket, and of each epoch at its end.".to_owned(),
        height: 380,
        data: vec![
            line("buckets", buckets, color(4), 1.0),
            with(
                line(
                    "epochs",
                    Curve {
                        x: x.into_iter().map(|x| x as f64).collect(),
                        y,
                    },
                    color(0),
                    2.5,
                ),
                json!({ "mode": "lines+markers" }),
            ),
        ],
        layout: json!({ "xaxis": edges_axis(), "yaxis": axis("loss per edge") }),
    }
}

/// Returns the figure of the ranks of held-out and validation edges; `None` if there are none.
#[must_use]
pub fn run_quality(report: &RunReport) -> Option<Figure> {
    let mut sum = 0;
    let mut points: Vec<HeldOutPoint> = Vec::new();
    for epoch in &report.epochs {
        sum += epoch.stats.count;
        if let Some(eval) = &epoch.eval_before {
            points.push(HeldOutPoint {
                edges: sum as f64,
                mrr: eval.mrr,
                hits_at_10: eval.hits_at_10,
            });
        }
    }
    if points.is_empty() && report.validation.is_empty() {
        return None;
    }
    let mut data = Vec::new();
    let mut caption = String::new();
    if !points.is_empty() {
        data.extend(held_out(&points));
        caption.push_str(
            "Held-out edges were ranked before their bucket was trained, among sampled candidates: use these ranks to \
             compare epochs, not to publish them. ",
        );
    }
    if !report.validation.is_empty() {
        data.extend(validated(report));
        caption.push_str("Validation edges were ranked after epochs, filtered.");
    }
    Some(Figure {
        id: "quality".to_owned(),
        title: "Ranks of edges that are not trained".to_owned(),
        caption,
        height: 340,
        data,
        layout: json!({ "xaxis": edges_axis(), "yaxis": axis("") }),
    })
}

/// Points of a line, in their order.
struct Curve {
    x: Vec<f64>,
    y: Vec<f64>,
}

/// Ranks of held-out edges at a moment of training.
struct HeldOutPoint {
    /// Number of edges trained before.
    edges: f64,
    mrr: f64,
    hits_at_10: f64,
}

fn held_out(points: &[HeldOutPoint]) -> [Value; 2] {
    let x: Vec<f64> = points.iter().map(|p| p.edges).collect();
    let of = |figure: fn(&HeldOutPoint) -> f64| Curve {
        x: x.clone(),
        y: points.iter().map(figure).collect(),
    };
    let trace = |name, points, index| {
        let markers = json!({ "mode": "lines+markers" });
        with(line(name, points, color(index), 2.0), markers)
    };
    [
        trace("held-out MRR", of(|p| p.mrr), 0),
        trace("held-out Hits@10", of(|p| p.hits_at_10), 2),
    ]
}

fn validated(report: &RunReport) -> [Value; 2] {
    let edges = |epochs: u32| {
        let trained = report.epochs.iter().take_while(|row| row.epoch < epochs);
        trained.map(|row| row.stats.count).sum::<u64>() as f64
    };
    let validation = report.validation.iter();
    let x: Vec<f64> = validation.map(|(epochs, _)| edges(*epochs)).collect();
    let of = |figure: fn(&RankStats) -> f64| {
        let ranks = report.validation.iter().map(|(_, ranks)| figure(ranks));
        Curve {
            x: x.clone(),
            y: ranks.collect(),
        }
    };
    let trace = |name, points, index| {
        let dashed = json!({ "mode": "lines+markers", "line": { "dash": "dash" } });
        let mut trace = with(line(name, points, color(index), 2.0), dashed);
        trace["line"]["color"] = color(index).into();
        trace
    };
    [
        trace("validation MRR", of(|r| r.mrr), 0),
        trace("validation Hits@10", of(|r| r.hits_at_10), 2),
    ]
}

/// Returns the figure of edges per second, with and without waiting.
#[must_use]
pub fn run_speed(report: &RunReport) -> Figure {
    let rate = |rows: &[BucketRow], seconds: fn(&BucketRow) -> f64| {
        let edges: u64 = rows.iter().map(|row| row.stats.count).sum();
        let seconds: f64 = rows.iter().map(seconds).sum();
        (seconds > 0.0 && edges > 0).then(|| edges as f64 / seconds)
    };
    Figure {
        id: "speed".to_owned(),
        title: "Edges per second".to_owned(),
        caption: "During training, and including the time that training waited for partitions, edges and commits."
            .to_owned(),
        height: 340,
        data: vec![
            line(
                "training",
                curve(&report.buckets, |rows| rate(rows, |row| row.seconds)),
                color(4),
                1.5,
            ),
            line(
                "with waiting",
                curve(&report.buckets, |rows| {
                    rate(rows, |row| row.seconds + row.io.waited())
                }),
                color(0),
                1.5,
            ),
        ],
        layout: json!({ "xaxis": edges_axis(), "yaxis": with(axis("edges/s"), json!({ "rangemode": "tozero", "exponentformat": "SI" })) }),
    }
}

/// Returns the figure of the seconds of training and waiting per epoch.
#[must_use]
pub fn run_stalls(report: &RunReport) -> Figure {
    let epochs: Vec<u32> = report.epochs.iter().map(|row| row.epoch + 1).collect();
    let bar = |name: &str, color: &str, seconds: Vec<f64>| {
        json!({ "type": "bar", "name": name, "x": epochs, "y": seconds, "marker": { "color": color },
                "hovertemplate": format!("epoch %{{x}}: %{{y:.2f}} s {name}<extra></extra>") })
    };
    let wait = report.epochs.iter().map(|row| row.io.wait_seconds);
    let commits = report.epochs.iter().map(|row| row.io.commit_seconds);
    let train = report
        .epochs
        .iter()
        .map(|row| (row.seconds - row.io.waited()).max(0.0));
    let ranked = |row: &EpochRow| {
        let behind = report.validation_seconds.iter();
        let behind = behind.filter(|(epochs, _)| *epochs == row.epoch + 1);
        behind.map(|(_, seconds)| seconds).sum::<f64>()
    };
    let validation: Vec<f64> = report.epochs.iter().map(ranked).collect();
    Figure {
        id: "stalls".to_owned(),
        title: "Where the time went".to_owned(),
        caption: "Seconds of each epoch spent training, waiting for partitions and edges, waiting for commits, \
                  and in the validation after it."
            .to_owned(),
        height: 340,
        data: vec![
            bar("training", color(0), train.collect()),
            bar("stalled", RED, wait.collect()),
            bar("commits", color(3), commits.collect()),
            bar("validation", color(2), validation),
        ],
        layout: json!({ "barmode": "stack", "xaxis": with(axis("epoch"), json!({ "dtick": 1.0_f64.max((epochs.len() / 20) as f64) })), "yaxis": axis("seconds") }),
    }
}

/// Returns the figure of the buffer in the last complete pass, with measured times.
#[must_use]
pub fn run_buffer(pass: &MeasuredPass, shared: bool) -> Figure {
    timeline(&Timeline {
        id: "buffer".to_owned(),
        title: format!("The buffer in epoch {}", pass.pass.epoch + 1),
        caption: "Each bar is a partition in a slot, coloured by its number. Stalls are measured; reads and writes \
                  during training are not."
            .to_owned(),
        replay: &pass.replay,
        transfers: &pass.transfers,
        stalls: pass.stalls.clone(),
        end: pass.seconds,
        shared,
    })
}

fn edges_axis() -> Value {
    with(
        axis("edges trained"),
        json!({ "exponentformat": "SI", "rangemode": "tozero" }),
    )
}

/// Returns the values of groups of rows against the number of edges trained by the end of each group.
fn curve(rows: &[BucketRow], value: impl Fn(&[BucketRow]) -> Option<f64>) -> Curve {
    let (mut x, mut y) = (Vec::new(), Vec::new());
    let mut edges = 0;
    for group in rows.chunks(rows.len().div_ceil(POINTS).max(1)) {
        edges += group.iter().map(|row| row.stats.count).sum::<u64>();
        if let Some(value) = value(group) {
            x.push(edges as f64);
            y.push(value);
        }
    }
    Curve { x, y }
}

fn line(name: &str, Curve { x, y }: Curve, color: &str, width: f64) -> Value {
    json!({
        "type": "scatter", "mode": "lines", "name": name, "x": x, "y": y,
        "line": { "color": color, "width": width },
        "hovertemplate": "%{x:.4s} edges: %{y:.5g}<extra>%{fullData.name}</extra>",
    })
}
