//! Names that are sorted on disk give byte for byte the same dataset as names in memory.

use std::collections::BTreeSet;
use std::fmt::Write;

use proptest::prelude::*;

use super::super::{ImportProgress, LEAST_MEMORY, NameStorage};
use super::*;

/// Creates a workshop with two entity types that may have names in common.
fn workshop(partitions: u32, name_storage: NameStorage) -> Workshop {
    let mut workshop = Workshop::with_config(&format!(
        "entities.user.num_partitions = {partitions}\nentities.item.num_partitions = {partitions}\n\
         relations = [{{ name = 'knows', lhs = 'user', rhs = 'user' }},\n\
                      {{ name = 'buys', lhs = 'user', rhs = 'item' }}]"
    ));
    workshop.options.name_storage = Some(name_storage);
    workshop
}

/// Returns all files of the dataset's folder, by name.
fn bytes(dataset: &Dataset) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(dataset.path()).unwrap();
    let read = |file: std::io::Result<fs::DirEntry>| {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, fs::read(path).unwrap())
    };
    files.map(read).collect()
}

/// Returns lines of edges between few names, so that most names occur often.
fn text(edges: &[(u32, bool, u32)], weighted: bool) -> String {
    let mut text = String::new();
    for (row, (lhs, buys, rhs)) in edges.iter().enumerate() {
        let relation = if *buys { "buys" } else { "knows" };
        write!(text, "n{lhs}\t{relation}\tn{rhs}").unwrap();
        if weighted {
            write!(text, "\t{row}").unwrap();
        }
        text.push('\n');
    }
    text
}

fn any_edges() -> impl Strategy<Value = Vec<(u32, bool, u32)>> {
    prop::collection::vec((0_u32..200, any::<bool>(), 0_u32..200), 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Imports two sets, then another one on top; some of its names are known, and some known names no longer occur.
    #[test]
    fn files_are_equal(
        (train, valid, more) in (any_edges(), any_edges(), any_edges()),
        partitions in 1_u32..5,
        entity_min_count in 0_u32..4,
        weighted: bool,
    ) {
        let made = [NameStorage::Memory, NameStorage::Files].map(|name_storage| {
            let mut workshop = workshop(partitions, name_storage);
            workshop.options.entity_min_count = entity_min_count;
            if weighted {
                workshop.options.columns = Some("lhs,rel,rhs,weight".parse().unwrap());
            }
            let train = workshop.file("train.tsv", text(&train, weighted));
            let valid = workshop.file("valid.tsv", text(&valid, weighted));
            let more = workshop.file("more.tsv", text(&more, weighted));
            let first = workshop.import(&[("train", &[&train]), ("valid", &[&valid])]).unwrap();
            let before = bytes(&workshop.dataset());
            let second = workshop.import(&[("train", &[&train, &more])]).unwrap();
            assert!(workshop.is_tidy());
            (first.types, first.sets, before, second.types, second.sets, bytes(&workshop.dataset()))
        });
        prop_assert!(made[0] == made[1]);
    }
}

#[test]
fn names_that_do_not_fit_go_to_the_disk() {
    let mut text = String::new();
    for row in 0..300_000_u32 {
        writeln!(text, "left{row}\tr{}\tright{}", row % 5, row % 250_000).unwrap();
    }
    let mut made = Vec::new();
    for memory in [None, Some(LEAST_MEMORY)] {
        let mut workshop = Workshop::new(4);
        workshop.options.memory = memory;
        let file = workshop.file("edges.tsv", &text);
        let options = ImportOptions {
            target: workshop.target(),
            ..workshop.options.clone()
        };
        let mut phases = BTreeSet::new();
        let sets = [("train".to_owned(), vec![file])];
        let schema = workshop.config.graph_schema();
        let report = run(&schema, &sets, &options, &mut |progress| {
            phases.insert(match progress {
                ImportProgress::NamesToDisk { why } => why,
                ImportProgress::Numbering { .. } => "numbering".to_owned(),
                _ => String::new(),
            });
            ControlFlow::Continue(())
        });
        let Ok(report) = report else {
            panic!("{report:?}")
        };
        assert_eq!(report.types[0].entities, 550_000);
        assert_eq!(phases.contains("numbering"), memory.is_some());
        assert_eq!(
            phases.iter().any(|p| p.contains("MiB of memory for them")),
            memory.is_some()
        );
        assert!(workshop.is_tidy());
        made.push(bytes(&workshop.dataset()));
    }
    assert!(made[0] == made[1]);
}

#[test]
fn names_of_any_length_are_read_back() {
    let name = |n: usize| format!("{n}{}", "x".repeat(n * 997 % (32 << 10)));
    let line = |n: usize| format!("{}\tr\t{}\n", name(n), name(n / 2));
    let text: String = (0..200).map(line).collect();
    let made = [NameStorage::Memory, NameStorage::Files].map(|name_storage| {
        let mut workshop = Workshop::new(3);
        workshop.options.name_storage = Some(name_storage);
        let first = bytes(&workshop.import_text("edges.tsv", &text).unwrap());
        (
            first,
            bytes(&workshop.import_text("edges.tsv", &text).unwrap()),
        )
    });
    assert!(made[0] == made[1]);
}

#[test]
fn a_stop_leaves_nothing() {
    let workshop = workshop(2, NameStorage::Files);
    let file = workshop.file("edges.tsv", text(&[(1, true, 2), (2, false, 1)], false));
    let options = ImportOptions {
        target: workshop.target(),
        ..workshop.options.clone()
    };
    let sets = [("train".to_owned(), vec![file])];
    let stopped = run(
        &workshop.config.graph_schema(),
        &sets,
        &options,
        &mut |now| match now {
            ImportProgress::Numbering { .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        },
    );
    assert!(
        matches!(stopped, Err(ImportError::Cancelled)),
        "{stopped:?}"
    );
    assert!(workshop.is_tidy() && !workshop.target().exists());
}

#[test]
fn names_of_entities_with_features_stay_in_memory() {
    let mut workshop = Workshop::with_config(
        "entities.e = { num_partitions = 1, featurized = true }\n\
         relations = [{ name = '*', lhs = 'e', rhs = 'e' }]",
    );
    workshop.options.name_storage = Some(NameStorage::Files);
    let features = workshop.file("features.tsv", "a\tx\nb\ty\n");
    workshop.options.features = vec![("e".to_owned(), features)];
    let refused = workshop.import_text("edges.tsv", "a\tr\tb\n").unwrap_err();
    assert!(matches!(refused, ImportError::Usage { .. }), "{refused}");
}
