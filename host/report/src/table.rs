//! Tables of results as CSV.

use crate::columns::COLUMNS;
use crate::run::RunReport;
use pbg_lab::comparison::OrderComparison;
use pbg_lab::study::Study;

/// Returns a row per case, order and seed; an order that failed has a reason instead of figures.
///
/// # Errors
/// When the rows cannot be written.
pub fn comparison_csv(comparison: &OrderComparison) -> Result<String, csv::Error> {
    let mut head = vec![
        "lhs_partitions",
        "rhs_partitions",
        "shared",
        "buffer",
        "order",
        "seed",
    ];
    head.push("planning_seconds");
    head.extend(COLUMNS.iter().map(|column| column.key));
    head.push("refused");
    write(&head, |rows| {
        for case in &comparison.cases {
            let place = [
                case.lhs_partitions.to_string(),
                case.rhs_partitions.to_string(),
                case.shared.to_string(),
                case.buffer.to_string(),
            ];
            for entry in &case.orders {
                for seed in &entry.seeds {
                    let mut row = place.to_vec();
                    row.extend([entry.order.clone(), seed.seed.to_string()]);
                    row.push(seed.planning_seconds.to_string());
                    row.extend(COLUMNS.iter().map(|column| {
                        (column.value)(&seed.analysis).map_or(String::new(), |x| x.to_string())
                    }));
                    row.push(String::new());
                    rows.push(row);
                }
            }
            for refused in &case.refused {
                let mut row = place.to_vec();
                row.push(refused.order.clone());
                row.resize(head.len() - 1, String::new());
                row.push(refused.reason.clone());
                rows.push(row);
            }
        }
    })
}

/// Writes a table with a header.
pub(crate) fn write(
    head: &[&str],
    fill: impl FnOnce(&mut Vec<Vec<String>>),
) -> Result<String, csv::Error> {
    let mut rows = Vec::new();
    fill(&mut rows);
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(head)?;
    for row in rows {
        writer.write_record(row)?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns a row per order, seed and epoch of a study.
///
/// # Errors
/// When the rows cannot be written.
pub fn study_csv(study: &Study) -> Result<String, csv::Error> {
    let head = [
        "order",
        "seed",
        "epoch",
        "edges",
        "seconds",
        "stall_seconds",
        "io_bytes",
        "loss",
        "mrr",
        "hits_at_10",
        "predicted_swaps",
        "performed_swaps",
        "predicted_loads",
        "performed_loads",
    ];
    write(&head, |rows| {
        for order in &study.orders {
            for run in &order.runs {
                rows.extend(run.epochs.iter().map(|point| {
                    vec![
                        order.order.clone(),
                        run.seed.to_string(),
                        point.epoch.to_string(),
                        point.edges.to_string(),
                        point.seconds.to_string(),
                        point.stall_seconds.to_string(),
                        point.io_bytes.to_string(),
                        point.loss.to_string(),
                        point.mrr.to_string(),
                        point.hits_at_10.to_string(),
                        point.predicted_swaps.to_string(),
                        point.swaps().to_string(),
                        point.predicted_loads.to_string(),
                        point.loads.to_string(),
                    ]
                }));
            }
        }
    })
}

/// Returns a row per trained bucket of a run.
///
/// # Errors
/// When the rows cannot be written.
pub fn run_csv(report: &RunReport) -> Result<String, csv::Error> {
    let head = [
        "epoch",
        "edge_set",
        "edge_chunk",
        "lhs",
        "rhs",
        "edges",
        "loss",
        "regularization",
        "held_out_mrr",
        "seconds",
        "stall_seconds",
        "partition_loads",
        "bytes_read",
        "bytes_written",
        "trainer",
    ];
    write(&head, |rows| {
        rows.extend(report.buckets.iter().map(|row| {
            vec![
                row.pass.epoch.to_string(),
                row.pass.edge_set.to_string(),
                row.pass.edge_chunk.to_string(),
                row.bucket.lhs.to_string(),
                row.bucket.rhs.to_string(),
                row.stats.count.to_string(),
                row.stats.mean_loss().to_string(),
                row.stats.reg.to_string(),
                row.eval_before
                    .map_or(String::new(), |eval| eval.mrr.to_string()),
                row.seconds.to_string(),
                row.io.waited().to_string(),
                row.io.loads.to_string(),
                row.io.bytes_read.to_string(),
                row.io.bytes_written.to_string(),
                row.trainer.clone().unwrap_or_default(),
            ]
        }));
    })
}
