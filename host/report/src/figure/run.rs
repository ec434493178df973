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
    let epochs = epochs_by_edges(report);
    let epochs = epochs.map(|(edges, epoch)| (edges, epoch.stats.mean_loss()));
    let epochs = line("epochs", epochs.collect(), color(0), 2.5);
    Figure {
        id: "loss".to_owned(),
        title: "Loss per edge".to_owned(),
        caption: "Of each bucket, and of each epoch at its end.".to_owned(),
        height: 380,
        data: vec![
            line("buckets", buckets, color(4), 1.0),
            with(epochs, json!({ "mode": "lines+markers" })),
        ],
        layout: json!({ "xaxis": edges_axis(), "yaxis": axis("loss per edge") }),
    }
}

/// Returns the figure of the ranks of held-out and validation edges; `None` if there are none.
#[must_use]
pub fn run_quality(report: &RunReport) -> Option<Figure> {
    let held_out = epochs_by_edges(report);
    let held_out = held_out.filter_map(|(edges, epoch)| Some((edges, epoch.eval_before?)));
    let held_out: Vec<(f64, RankStats)> = held_out.collect();
    if held_out.is_empty() && report.validation.is_empty() {
        return None;
    }
    let mut data = Vec::new();
    let mut caption = String::new();
    if !held_out.is_empty() {
        data.extend(ranks("held-out", &held_out, None));
        caption.push_str(
            "Held-out edges were ranked before their bucket was trained, among sampled candidates: use these ranks to \
             compare epochs, not to publish them. ",
        );
    }
    if !report.validation.is_empty() {
        let edges = |epochs: u32| {
            let trained = report.epochs.iter().take_while(|row| row.epoch < epochs);
            trained.map(|row| row.stats.count).sum::<u64>() as f64
        };
        let validation = report.validation.iter();
        let validation = validation.map(|(epochs, ranks)| (edges(*epochs), *ranks));
        data.extend(ranks(
            "validation",
            &validation.collect::<Vec<_>>(),
            Some("dash"),
        ));
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

/// Returns each epoch with the number of edges trained by its end.
fn epochs_by_edges(report: &RunReport) -> impl Iterator<Item = (f64, &EpochRow)> {
    let epochs = report.epochs.iter();
    epochs.scan(0, |edges, epoch| {
        *edges += epoch.stats.count;
        Some((*edges as f64, epoch))
    })
}

/// Returns lines of the MRR and Hits@10 of `points`, which are ranks after a number of trained edges.
fn ranks(of: &str, points: &[(f64, RankStats)], dash: Option<&str>) -> [Value; 2] {
    let trace = |figure: &str, value: fn(&RankStats) -> f64, index| {
        let points = points.iter().map(|(edges, ranks)| (*edges, value(ranks)));
        let trace = line(
            &format!("{of} {figure}"),
            points.collect(),
            color(index),
            2.0,
        );
        let mut trace = with(trace, json!({ "mode": "lines+markers" }));
        if let Some(dash) = dash {
            trace["line"] = json!({ "color": color(index), "dash": dash });
        }
        trace
    };
    [
        trace("MRR", |r| r.mrr, 0),
        trace("Hits@10", |r| r.hits_at_10, 2),
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
    let training = curve(&report.buckets, |rows| rate(rows, |row| row.seconds));
    let waiting = |row: &BucketRow| row.seconds + row.io.waited();
    let waiting = curve(&report.buckets, |rows| rate(rows, waiting));
    let range = json!({ "rangemode": "tozero", "exponentformat": "SI" });
    Figure {
        id: "speed".to_owned(),
        title: "Edges per second".to_owned(),
        caption: "During training, and including the time that training waited for partitions, edges and commits."
            .to_owned(),
        height: 340,
        data: vec![
            line("training", training, color(4), 1.5),
            line("with waiting", waiting, color(0), 1.5),
        ],
        layout: json!({ "xaxis": edges_axis(), "yaxis": with(axis("edges/s"), range) }),
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
fn curve(rows: &[BucketRow], value: impl Fn(&[BucketRow]) -> Option<f64>) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let mut edges = 0;
    for group in rows.chunks(rows.len().div_ceil(POINTS).max(1)) {
        edges += group.iter().map(|row| row.stats.count).sum::<u64>();
        points.extend(value(group).map(|value| (edges as f64, value)));
    }
    points
}

fn line(name: &str, points: Vec<(f64, f64)>, color: &str, width: f64) -> Value {
    let (x, y): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
    json!({
        "type": "scatter", "mode": "lines", "name": name, "x": x, "y": y,
        "line": { "color": color, "width": width },
        "hovertemplate": "%{x:.4s} edges: %{y:.5g}<extra>%{fullData.name}</extra>",
    })
}
