//! Fuzzing of imports: edge lists of every format, and features.

use std::fs;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use pbg_core::graph::{EntityDecl, RelationDecl, Schema};
use pbg_fuzz::{Dice, bytes};
use pbg_import::{self as import, ColumnSpec, ImportOptions, LEAST_MEMORY};

use crate::{fuzz, turn};

/// Returns a schema with people and bags of words.
pub(crate) fn schema() -> Schema {
    let decl = |num_partitions, featurized| EntityDecl {
        num_partitions,
        featurized,
    };
    let relation = |name: &str, rhs: &str| RelationDecl {
        name: name.to_owned(),
        lhs: "person".to_owned(),
        rhs: rhs.to_owned(),
    };
    Schema {
        entities: [
            ("person".to_owned(), decl(3, false)),
            ("text".to_owned(), decl(1, true)),
        ]
        .into(),
        relations: vec![relation("reads", "text"), relation("*", "person")],
        dynamic_relations: false,
    }
}

pub(crate) const EDGES: &str =
    "ann\treads\tbook\nbob\treads\tpoem\nann\tknows\tbob\nbob\tknows\tcy\nd e\tknows\tann\n";
pub(crate) const FEATURES: &str = "book\tlong\told\npoem\tshort\told\n";

/// Imports the files; returns whether the import succeeded.
pub(crate) fn run(
    target: &Path,
    edges: PathBuf,
    features: PathBuf,
    columns: Option<ColumnSpec>,
) -> bool {
    let options = ImportOptions {
        target: target.to_owned(),
        features: vec![("text".to_owned(), features)],
        columns,
        threads: Some(1),
        memory: Some(LEAST_MEMORY),
        ..ImportOptions::default()
    };
    let sets = [("train".to_owned(), vec![edges])];
    let imported = import::run(&schema(), &sets, &options, &mut |_| {
        ControlFlow::Continue(())
    });
    if let Err(error) = &imported {
        assert!(!error.to_string().is_empty());
        assert!(
            !target.join("manifest.json").exists(),
            "a refused import left a dataset"
        );
    }
    imported.is_ok()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(text.as_bytes()).unwrap();
    out.finish().unwrap()
}

fn disturbed(
    turn: MutexGuard<'static, ()>,
    name: &'static str,
    file: &'static str,
    valid: &[u8],
    columns: Option<&str>,
) {
    let columns: Option<ColumnSpec> = columns.map(|c| c.parse().expect("columns"));
    let target = |dice: &mut Dice, place: &Path| {
        let features = place.join("features.tsv");
        let edges = place.join(file);
        let (mut list, mut bags) = (valid.to_vec(), FEATURES.as_bytes().to_vec());
        if dice.below(4) == 0 {
            bags = bytes(dice, &bags, &list);
        } else {
            list = bytes(dice, &list, &bags);
        }
        fs::write(&edges, list).unwrap();
        fs::write(&features, bags).unwrap();
        run(&place.join("data"), edges, features, columns.clone())
    };
    fuzz(
        turn,
        name,
        150,
        2 * LEAST_MEMORY as usize + (64 << 20),
        target,
    );
}

#[test]
fn tab_separated_edges() {
    let turn = turn();
    disturbed(
        turn,
        "tab_separated_edges",
        "edges.tsv",
        EDGES.as_bytes(),
        None,
    );
}

#[test]
fn compressed_edges() {
    let turn = turn();
    disturbed(turn, "compressed_edges", "edges.tsv.gz", &gzip(EDGES), None);
}

#[test]
fn weighted_edges() {
    let turn = turn();
    let weighted = EDGES.replace('\n', "\t0.5\n");
    let columns = Some("lhs,rel,rhs,weight");
    disturbed(
        turn,
        "weighted_edges",
        "edges.tsv",
        weighted.as_bytes(),
        columns,
    );
}

#[test]
fn comma_separated_edges() {
    let turn = turn();
    let table = format!(
        "head,relation,tail\n{}",
        EDGES.replace('\t', ",").replace("d e", "\"d, e\"")
    );
    disturbed(
        turn,
        "comma_separated_edges",
        "edges.csv",
        table.as_bytes(),
        None,
    );
}

#[test]
fn edges_with_other_separators() {
    let marked = |separator: &str| {
        let text = EDGES.replace("d e", "d_e").replace('\t', separator);
        format!("# edges\n5\n{text}")
    };
    for (name, separator) in [
        ("edges_with_semicolons", "; "),
        ("edges_with_pipes", "|"),
        ("edges_with_blanks", "  "),
    ] {
        disturbed(
            turn(),
            name,
            "edges.csv",
            marked(separator).as_bytes(),
            None,
        );
    }
}

#[test]
fn edges_as_n_triples() {
    let turn = turn();
    let term = |cell: &str| format!("<{cell}>");
    let line = |line: &str| {
        let terms: Vec<String> = line.split('\t').map(term).collect();
        format!("{} .\n", terms.join(" "))
    };
    let text: String = EDGES.lines().map(line).collect();
    disturbed(
        turn,
        "edges_as_n_triples",
        "edges.nt",
        text.as_bytes(),
        None,
    );
}

#[test]
fn edges_as_turtle() {
    let turn = turn();
    let text = "@prefix : <http://a/> .\n:ann :reads :book, \"a poem\"@en ; :knows [ :knows :cy ] .\n\
                _:b :knows ( :ann '''d\ne''' 5 ) .\n:bob a :person .\n";
    disturbed(turn, "edges_as_turtle", "edges.ttl", text.as_bytes(), None);
}

#[test]
fn parquet_edges() {
    let turn = turn();
    let column = |at: usize| -> ArrayRef {
        let cells = EDGES.lines().map(|line| line.split('\t').nth(at));
        Arc::new(StringArray::from_iter(cells))
    };
    let columns = [
        ("head", column(0)),
        ("relation", column(1)),
        ("tail", column(2)),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("three columns");
    let mut table = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut table, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("room");
    writer.close().expect("room");
    disturbed(turn, "parquet_edges", "edges.parquet", &table, None);
}
