//! The records of `docs/orders.md`: each certificate is followed pair by pair, and each row is compared with the plan
//! of `optimal`.

use std::collections::BTreeSet;

use optimal::Optimal;

use crate::{beta_formula, complete, lower_bound, swaps};

const PAGE: &str = include_str!("../../docs/orders.md");
const CERTIFICATES: &str = include_str!("../../plugins/search/src/certificates.txt");

/// Partitions, buffer, and the partitions that leave and enter in each step.
struct Certificate {
    p: u32,
    c: u32,
    steps: Vec<(u32, u32)>,
}

fn certificates() -> Vec<Certificate> {
    let number = |text: &str| text.parse::<u32>().expect("a number");
    let pair = |text: &str| {
        let (a, b) = text.split_once(' ').expect("two numbers");
        (number(a), number(b))
    };
    let certificate = |line: &str| {
        let (sizes, steps) = line.split_once(": ").expect("sizes and steps");
        let (p, c) = pair(sizes);
        let steps = steps.split(", ").map(pair).collect();
        Certificate { p, c, steps }
    };
    CERTIFICATES.lines().map(certificate).collect()
}

#[test]
fn every_two_partitions_of_a_certificate_meet() {
    for Certificate { p, c, steps } in certificates() {
        let mut held: BTreeSet<u32> = (0..c).collect();
        let mut met = BTreeSet::new();
        let mut meet = |held: &BTreeSet<u32>| {
            for &a in held {
                met.extend(held.range(a + 1..).map(|&b| (a, b)));
            }
        };
        meet(&held);
        for (out, enters) in steps {
            assert!(held.remove(&out), "p={p} c={c}: {out} is not in the buffer");
            assert!(
                held.insert(enters),
                "p={p} c={c}: {enters} is already in the buffer"
            );
            meet(&held);
        }
        assert_eq!(met.len() as u32, p * (p - 1) / 2, "p={p} c={c}");
    }
}

/// Row of the table: p, c, lower bound, BETA, the best known before, the value here, and a remark.
struct Record {
    p: u32,
    c: u32,
    bound: u64,
    beta: u64,
    before: Option<u64>,
    ours: u64,
    remark: &'static str,
}

fn records() -> Vec<Record> {
    let head = "| p | c | lower bound | beta | before | `optimal` | |";
    let (_, table) = PAGE.split_once(head).expect("the page has the table");
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let record = |row: &'static str| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let number = |at: usize| {
            let word = cells[at].split(' ').next().expect("a word");
            word.parse::<u64>().ok()
        };
        let must = |at| number(at).expect("a number");
        Record {
            p: must(1) as u32,
            c: must(2) as u32,
            bound: must(3),
            beta: must(4),
            before: number(5),
            ours: must(6),
            remark: cells[7],
        }
    };
    rows.map(record).collect()
}

#[test]
fn the_table_of_records_is_what_optimal_plans() {
    let records = records();
    assert!(records.len() > 30);
    for record in records {
        let (p, c) = (record.p, record.c);
        assert_eq!(record.bound, lower_bound(p, c), "p={p} c={c}");
        assert_eq!(record.beta, beta_formula(p, c), "p={p} c={c}");
        let found = swaps::<Optimal>(&complete(p, c, 3));
        assert!(found <= record.ours, "p={p} c={c}: {found}");
        assert!(record.before.is_none_or(|before| record.ours <= before));
        let is_new = record.before.is_none_or(|before| record.ours < before);
        assert_eq!(record.remark.contains("**new**"), is_new, "p={p} c={c}");
        let is_least = record.remark.contains("least possible");
        assert_eq!(is_least, record.ours == record.bound, "p={p} c={c}");
    }
}

#[test]
fn the_page_has_every_certificate_and_its_record() {
    assert!(PAGE.contains(CERTIFICATES.trim_end()));
    let records = records();
    for Certificate { p, c, steps } in certificates() {
        let record = records.iter().find(|r| (r.p, r.c) == (p, c));
        let ours = record.map(|record| record.ours);
        assert_eq!(ours, Some(steps.len() as u64), "p={p} c={c}");
    }
}
