//! The parts of the study of bucket orders.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

use xtask::repo::Repo;

use super::commands::{ComparedCase, compared, pbg_host, printed};
use super::kept::{KeptResults, labels, lines};
use super::table::{CellRule, MarkdownTable};

/// Function that makes a part in a folder and compares it with what is kept.
type Make = fn(&Repo, &Path, &mut KeptResults) -> Result<()>;

/// All parts with their names, the quickest first.
pub(super) const PARTS: [(&str, Make); 8] = [
    ("swaps of orders", costs),
    ("records of optimal", records),
    ("two entity types", two_types),
    ("skewed grids", skewed),
    ("plans and figures of plans", plans),
    ("several trainers", trainers),
    ("stalls of a limited disk", limited_disk),
    ("quality of models", study),
];

const ORDERS_PAGE: &str = "docs/orders.md";
const LAB_PAGE: &str = "docs/order-lab.md";
const STUDY_PAGE: &str = "examples/order-study/README.md";
const STUDY: &str = "examples/order-study/pbg.toml";

/// Grids of the tables of swaps: partitions and buffer.
const GRIDS: [(u32, u32); 12] = [
    (8, 2),
    (16, 2),
    (32, 2),
    (8, 4),
    (16, 4),
    (32, 4),
    (16, 8),
    (32, 8),
    (64, 8),
    (64, 16),
    (128, 16),
    (128, 32),
];

/// Standard orders, in the order of the tables of swaps.
const PLAIN: [&str; 11] = [
    "beta",
    "hilbert_symmetric",
    "hilbert",
    "snake",
    "lexicographic",
    "inside_out",
    "outside_in",
    "affinity",
    "chained_symmetric_pairs",
    "random_symmetric",
    "random",
];
const SEARCHING: [&str; 7] = [
    "optimal",
    "overlap",
    "beta",
    "legend",
    "comet",
    "cover",
    "stratified",
];

fn exact(_: &str) -> CellRule {
    CellRule::Exact
}

fn with_orders(arguments: &str, orders: &[&str]) -> String {
    let orders = orders.iter().map(|order| format!(" --order {order}"));
    orders.fold(arguments.to_owned(), |all, order| all + &order)
}

fn gib(bytes: f64) -> String {
    format!("{:.1}", bytes / f64::from(1 << 30))
}

/// Makes the two tables of swaps on complete grids.
fn costs(repo: &Repo, folder: &Path, kept: &mut KeptResults) -> Result<()> {
    for orders in [&PLAIN[..], &SEARCHING] {
        let mut rows = Vec::new();
        for (p, c) in GRIDS {
            let arguments = with_orders(&format!("-p {p} -c {c} --seeds 3"), orders);
            let case = compared(repo, folder, &arguments)?;
            let mut row = vec![
                p.to_string(),
                c.to_string(),
                case.lower_bound()?.to_string(),
            ];
            for order in orders {
                row.push(format!("{:.0}", case.mean(order, "swaps")?));
            }
            rows.push(row);
        }
        let head = [&["p", "c", "lower bound"][..], orders].concat();
        kept.table(ORDERS_PAGE, &MarkdownTable::new(&head, rows), &exact)?;
    }
    Ok(())
}

/// Most partitions of a record. Plans of larger grids take gigabytes, and the page is a text that anyone may edit.
const RECORD_PARTITIONS: u32 = 1024;

/// Makes the figures of the table of records again. What the literature states is taken from the page, and so is the origin
/// of a record that is the same.
fn records(repo: &Repo, folder: &Path, kept: &mut KeptResults) -> Result<()> {
    let head = ["p", "c", "lower bound", "beta", "before", "`optimal`", ""];
    let page = fs::read_to_string(repo.root.join(ORDERS_PAGE)).context("cannot read the page")?;
    let mut table = MarkdownTable::new(&head, Vec::new())
        .kept_in(&page)
        .context("the page has no table of records")?;
    for row in &mut table.rows {
        let [p, c, bound, beta, before, optimal, remark, ..] = row.as_mut_slice() else {
            bail!("the table of records has a row of {} cells", row.len());
        };
        let partitions: u32 = p.parse().context("partitions are no number")?;
        ensure!(
            partitions <= RECORD_PARTITIONS,
            "a record of {partitions} partitions is not made again, since plans of more than {RECORD_PARTITIONS} take \
             gigabytes of memory"
        );
        let arguments = with_orders(&format!("-p {p} -c {c}"), &["beta", "optimal"]);
        let case = compared(repo, folder, &arguments)?;
        *bound = case.lower_bound()?.to_string();
        *beta = format!("{:.0}", case.mean("beta", "swaps")?);
        let mut found = case.mean("optimal", "swaps")?;
        if let Some(most) = range_of_seeds(&page, p, c).and_then(|range| range.undercut(found)) {
            kept.verdicts.note(&format!(
                "{ORDERS_PAGE}, record of {p} {c}: kept {most}, made {found:.0}, as the page says that some seeds do"
            ));
            found = most;
        }
        (*optimal, *remark) = record_cells(optimal, before, found, case.lower_bound()?)?;
    }
    kept.table(ORDERS_PAGE, &table, &exact)
}

/// Swaps that a page states for all seeds.
#[derive(Debug, PartialEq)]
struct SwapRange {
    least: f64,
    most: f64,
}

impl SwapRange {
    /// Returns the largest number if `found` is in the range and below it.
    fn undercut(&self, found: f64) -> Option<f64> {
        (self.least <= found && found < self.most).then_some(self.most)
    }
}

/// Returns the swaps of `optimal` that the page states for the seeds of a grid, as in "At (32, 8) ... `optimal` ... makes 75
/// to 77".
fn range_of_seeds(page: &str, p: &str, c: &str) -> Option<SwapRange> {
    let (_, rest) = page.split_once(&format!("At ({p}, {c}) "))?;
    let (_, of_optimal) = rest.lines().next()?.split_once("`optimal`")?;
    let (_, range) = of_optimal.split_once("makes ")?;
    let mut words = range.split([' ', '.', ',']);
    let least = words.next()?.parse().ok()?;
    let most = words.next().filter(|word| *word == "to");
    let most = most.and(words.next())?.parse().ok()?;
    Some(SwapRange { least, most })
}

/// Returns the cells of a record and of the remark about it, for `found` swaps. A record that is undercut has another
/// origin than the kept one: the search of the plugin itself.
fn record_cells(
    kept: &str,
    before: &str,
    found: f64,
    lower_bound: u64,
) -> Result<(String, String)> {
    let (record, origin) = kept.split_once(' ').unwrap_or((kept, ""));
    let record: f64 = record.parse().context("a record is no number")?;
    let origin = if found < record { "(search)" } else { origin };
    let is_new = before.parse().is_ok_and(|before: f64| found < before) || before == "-";
    let remarks = [
        is_new.then_some("**new**"),
        (found <= lower_bound as f64).then_some("least possible"),
    ];
    let remarks: Vec<&str> = remarks.into_iter().flatten().collect();
    let cell = format!("{found:.0} {origin}");
    Ok((cell.trim_end().to_owned(), remarks.join(", ")))
}

/// Figure of a comparison by its key, and the function that formats its mean.
type ComparedFigure = (&'static str, fn(f64) -> String);

/// Rows of a table of orders by the bytes that they read, the fewest first.
fn by_bytes(case: &ComparedCase, cells: &[ComparedFigure]) -> Result<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    for order in case.orders() {
        let mut row = vec![format!("`{order}`")];
        for (figure, cell) in cells {
            row.push(cell(case.mean(&order, figure)?));
        }
        rows.push((case.mean(&order, "bytes_read")?, row));
    }
    rows.sort_by(|(a, left), (b, right)| a.total_cmp(b).then_with(|| left.cmp(right)));
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// Makes the table of 16 and 4 partitions of two entity types, and checks that no order reads less than `optimal`.
fn two_types(repo: &Repo, folder: &Path, kept: &mut KeptResults) -> Result<()> {
    let case = compared(repo, folder, "-p 16 --rhs-partitions 4 -c 4 --seeds 3")?;
    let cells: [ComparedFigure; 4] = [
        ("bytes_read", gib),
        ("bytes_written", gib),
        ("bytes_final", gib),
        ("swaps", |swaps| format!("{swaps:.1}")),
    ];
    let head = [
        "two entity types",
        "GiB read",
        "GiB written",
        "GiB final",
        "swaps",
    ];
    kept.table(
        LAB_PAGE,
        &MarkdownTable::new(&head, by_bytes(&case, &cells)?),
        &exact,
    )
}

/// Makes the table of a grid whose partitions and buckets differ in size.
fn skewed(repo: &Repo, folder: &Path, kept: &mut KeptResults) -> Result<()> {
    let orders = [
        "optimal",
        "overlap",
        "legend",
        "beta",
        "cover",
        "comet",
        "hilbert_symmetric",
    ];
    let arguments = "-p 16 -c 4 --seeds 3 --skew 1 --entity-skew 0.5";
    let case = compared(repo, folder, &with_orders(arguments, &orders))?;
    let cells: [ComparedFigure; 3] = [
        ("bytes_read", gib),
        ("swaps", |swaps| format!("{swaps:.1}")),
        ("stall_ahead", |seconds| format!("{seconds:.0}")),
    ];
    let head = ["skewed grid", "GiB read", "swaps", "stall in s, prefetched"];
    kept.table(
        LAB_PAGE,
        &MarkdownTable::new(&head, by_bytes(&case, &cells)?),
        &exact,
    )
}

/// Makes the table of several trainers and the advice that follows from it.
fn trainers(repo: &Repo, folder: &Path, kept: &mut KeptResults) -> Result<()> {
    let orders = [
        "optimal",
        "beta",
        "stratified",
        "cover:sequence=rounds",
        "lexicographic",
    ];
    let numbers = [2, 4, 8];
    let arguments = with_orders("-p 16 -c 4 --seeds 10 --machines 2,4,8", &orders);
    let case = compared(repo, folder, &arguments)?;
    let mut columns = Vec::new();
    for number in numbers {
        let read = |order: &&str| case.mean_together(order, number, "bytes_read");
        let read: Vec<f64> = orders.iter().map(read).collect::<Result<_>>()?;
        let least = read.iter().copied().fold(f64::INFINITY, f64::min);
        for (order, bytes) in orders.iter().zip(&read) {
            if *bytes <= least {
                kept.sentence(
                    LAB_PAGE,
                    &format!("With {number} trainers, `{order}` reads least."),
                )?;
            }
        }
        let cell = |bytes: &f64| match *bytes <= least {
            true => format!("**{}**", gib(*bytes)),
            false => gib(*bytes),
        };
        columns.push(read.iter().map(cell).collect::<Vec<_>>());
    }
    let (made_for_several, mut also) = (["stratified", "cover:sequence=rounds"], Vec::new());
    let mut rounds = 0.0_f64;
    for number in numbers {
        let read = |order: &str| case.mean_together(order, number, "bytes_read");
        let all: Vec<f64> = orders
            .iter()
            .map(|order| read(order))
            .collect::<Result<_>>()?;
        let optimal = read("optimal")?;
        let of_those: Vec<f64> = made_for_several
            .into_iter()
            .map(read)
            .collect::<Result<_>>()?;
        let is_least = |among: &[f64]| among.iter().all(|bytes| optimal <= *bytes);
        if is_least(&of_those) && !is_least(&all) {
            also.push(number.to_string());
        }
        for order in orders {
            let figure = |name| case.mean_together(order, number, name);
            rounds = rounds.max(figure("rounds")? / figure("ideal")?);
        }
    }
    if !also.is_empty() {
        let also = also.join(" and ");
        let text = format!(
            "Compared with `stratified` and `cover` alone, which are made for several trainers, it also does with {also}."
        );
        kept.sentence(LAB_PAGE, &text)?;
    }
    let excess = (100.0 * (rounds - 1.0)).ceil();
    let text = format!("All need within {excess} % of the fewest possible rounds.");
    kept.sentence(LAB_PAGE, &text)?;
    let row = |(at, order): (usize, &&str)| {
        let cells = columns.iter().map(|column| column[at].clone());
        std::iter::once(format!("`{order}`")).chain(cells).collect()
    };
    let rows = orders.iter().enumerate().map(row).collect();
    let head = [
        "GiB read in total",
        "2 trainers",
        "4 trainers",
        "8 trainers",
    ];
    kept.table(LAB_PAGE, &MarkdownTable::new(&head, rows), &exact)
}

/// Returns arguments that name the study's configuration, its dataset in `folder`, after importing that if it is missing.
fn study_arguments(repo: &Repo, folder: &Path) -> Result<String> {
    let dataset = folder.join("dataset");
    let keys = format!(
        "{STUDY} --set dataset={} --set checkpoint_path={}",
        repo.short(&dataset),
        repo.short(&folder.join("model"))
    );
    if !dataset.exists() {
        let sets = ["train", "valid", "test"];
        let edges = sets.map(|set| format!(" --edges {set}=examples/wordnet/{set}.tsv.gz"));
        printed(&mut pbg_host(
            repo,
            &format!("import {keys}{}", edges.concat()),
        ))?;
    }
    Ok(keys)
}

/// Makes the checksums of the plans of the study's first pass, and the figures that follow from plans alone.
fn plans(repo: &Repo, folder: &Path, kept: &mut KeptResults) -> Result<()> {
    let study = study_arguments(repo, folder)?;
    let mut names: Vec<&str> = PLAIN.iter().chain(&SEARCHING).copied().collect();
    names.sort_unstable();
    names.dedup();
    let mut sums = String::new();
    for name in names {
        let plan = printed(&mut pbg_host(
            repo,
            &format!("orders show {name} {study} --json"),
        ))?;
        let sum = Sha256::digest(plan.trim());
        let hex: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
        sums.push_str(&format!("{hex}  {name}\n"));
    }
    kept.file("examples/order-study/plans.sha256", &sums, &lines)?;
    let figures = folder.join("plans");
    let mut command = pbg_host(repo, &format!("orders compare {study}"));
    printed(command.arg("--svg").arg(&figures))?;
    for name in ["swaps.svg", "miss-curve.svg"] {
        let made = fs::read_to_string(figures.join(name)).context("a figure is missing")?;
        kept.file(&format!("examples/order-study/{name}"), &made, &lines)?;
    }
    Ok(())
}

/// Speed in MB/s, in both directions, of the limited disk.
const LIMIT: u32 = 40;

/// Trains with a disk of a given speed: measured stalls beside predicted ones, and bytes by what counts them.
fn limited_disk(repo: &Repo, folder: &Path, kept: &mut KeptResults) -> Result<()> {
    let study = study_arguments(repo, folder)?;
    let arguments = format!("orders train {study} --limit 100 --io-limit {LIMIT},{LIMIT}");
    let orders = ["random", "inside_out", "beta", "optimal", "overlap"];
    let mut command = pbg_host(repo, &with_orders(&arguments, &orders));
    let text = printed(command.arg("--study").arg(folder.join("limited")))?;
    let tables = MarkdownTable::all_of(&text);
    let [results, bytes, ..] = tables.as_slice() else {
        bail!("the study printed no table of bytes");
    };
    let columns = [
        "order",
        "read and written",
        "seconds",
        "stall",
        "stall predicted",
    ];
    let mut table = results.with_columns(&columns)?;
    table.head[0] = format!("order, disk of {LIMIT} MB/s");
    table.head.push("measured / predicted".to_owned());
    for row in &mut table.rows {
        let [.., measured, predicted] = row.as_slice() else {
            continue;
        };
        let [measured, predicted] = [measured, predicted].map(|cell| cell.parse::<f64>());
        let ratio = measured.context("no stall")? / predicted.context("no predicted stall")?;
        row.push(format!("{ratio:.2}"));
    }
    kept.table(STUDY_PAGE, &table, &|column| match column {
        "seconds" | "stall" | "stall predicted" => CellRule::Shown,
        "measured / predicted" => CellRule::Within {
            share: 0.0,
            least: RATIO,
        },
        _ => CellRule::Exact,
    })?;
    kept.table(STUDY_PAGE, bytes, &|column| match column {
        "disk read" | "disk wrote" => CellRule::Shown,
        "process read" | "process wrote" => CellRule::Within {
            share: PROCESS,
            least: 0.0,
        },
        _ => CellRule::Exact,
    })
}

/// Tolerance of measured stalls divided by predicted ones, which depend on how busy the machine is.
const RATIO: f64 = 0.25;
/// Tolerance of the bytes of system calls, as a share.
const PROCESS: f64 = 0.1;
/// Tolerance of ranks and losses, which differ between processors with other instructions, as a share.
const QUALITY: f64 = 0.1;

/// Trains the study's models and makes its table and figure.
fn study(repo: &Repo, folder: &Path, kept: &mut KeptResults) -> Result<()> {
    let study = study_arguments(repo, folder)?;
    let arguments = format!("orders train {study} --seeds 2 --limit 1000");
    let orders = ["random", "inside_out", "beta"];
    let mut command = pbg_host(repo, &with_orders(&arguments, &orders));
    command.arg("--study").arg(folder.join("study"));
    command.arg("--svg").arg(folder.join("study-figures"));
    let text = printed(command.arg("--html").arg(folder.join("study.html")))?;
    let table = MarkdownTable::first_of(&text)?;
    let columns: Vec<&str> = table.head.iter().map(String::as_str).collect();
    let columns: Vec<&str> = columns
        .into_iter()
        .filter(|column| !["stall predicted", "commits"].contains(column))
        .collect();
    kept.table(
        STUDY_PAGE,
        &table.with_columns(&columns)?,
        &|column| match column {
            "seconds" | "stall" => CellRule::Shown,
            "MRR" | "Hits@10" | "loss" => CellRule::Within {
                share: QUALITY,
                least: 0.0,
            },
            _ => CellRule::Exact,
        },
    )?;
    let made = fs::read_to_string(folder.join("study-figures/mrr.svg"));
    let made = made.context("a figure is missing")?;
    kept.file("examples/order-study/mrr.svg", &made, &labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_undercut_differs_from_the_kept_one() {
        let cells = |found| record_cells("25 (certificate)", "-", found, 24).unwrap();
        let told = |cell: &str, remark: &str| (cell.to_owned(), remark.to_owned());
        assert_eq!(cells(25.0), told("25 (certificate)", "**new**"));
        assert_eq!(cells(26.0), told("26 (certificate)", "**new**"));
        assert_eq!(cells(24.0), told("24 (search)", "**new**, least possible"));
        let known = record_cells("6 (composed)", "6", 6.0, 5).unwrap();
        assert_eq!(known, told("6 (composed)", ""));
        assert!(record_cells("many", "-", 1.0, 1).is_err());
    }

    #[test]
    fn some_seeds_may_undercut_a_record_if_the_page_says_so() {
        let page = "At (32, 8) `legend` makes 76 or 77 swaps; `optimal` improves its plan and makes 75 to 77. More.";
        let range = range_of_seeds(page, "32", "8").unwrap();
        assert_eq!(
            [77.0, 76.0, 75.0, 74.0].map(|found| range.undercut(found)),
            [None, Some(77.0), Some(77.0), None]
        );
        assert_eq!(range_of_seeds(page, "16", "8"), None);
        let page = include_str!("../../../../docs/orders.md");
        assert!(range_of_seeds(page, "32", "8").is_some());
    }
}
