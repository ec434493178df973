//! An imported graph is read back unchanged, whatever the number of partitions and threads.

use std::fmt::Write;

use proptest::prelude::*;

use super::super::LEAST_MEMORY;
use super::*;
use pbg_dataset::write::BATCH_ROWS;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_graph(
        edges in prop::collection::vec((0_u32..60, 0_u32..5, 0_u32..60, prop::option::of(0_f32..9.0)), 1..300),
        partitions in 1_u32..6,
        seed in 0_u64..4,
        weighted: bool,
    ) {
        let mut text = String::new();
        let mut expected = Vec::new();
        for (lhs, rel, rhs, weight) in edges {
            let weight = weight.filter(|_| weighted).unwrap_or(1.0);
            write!(text, "entity {lhs}\tr{rel}\tentity {rhs}").unwrap();
            if weighted {
                write!(text, "\t{weight}").unwrap();
            }
            text.push('\n');
            let bits = weighted.then(|| weight.to_bits());
            expected.push((format!("entity {lhs}"), format!("r{rel}"), format!("entity {rhs}"), bits));
        }
        expected.sort();
        let mut workshop = Workshop::new(partitions);
        workshop.options.seed = seed;
        if weighted {
            workshop.options.columns = Some("lhs,rel,rhs,weight".parse().unwrap());
        }
        let dataset = workshop.import_text("edges.tsv", text).unwrap();
        prop_assert_eq!(named_edges(&dataset, "train"), expected);
        let info = &dataset.manifest().entities["e"];
        let (least, most) = (info.counts.iter().min().unwrap(), info.counts.iter().max().unwrap());
        prop_assert!(most - least <= 1);
        prop_assert!(workshop.is_tidy());
    }
}

/// Returns a text of many blocks, so that workers overtake each other.
fn long_text(edges: u32) -> String {
    let mut text = String::new();
    let mut state = 1_u32;
    for _ in 0..edges {
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16
        };
        let (lhs, rel, rhs) = (next() % 5000, next() % 40, next() % 5000);
        writeln!(
            text,
            "/a/long/prefix/of/entity/{lhs}\t/relation/{rel}\t/a/long/prefix/of/entity/{rhs}"
        )
        .unwrap();
    }
    text
}

#[test]
fn threads_and_memory_leave_no_trace() {
    let text = long_text(60_000);
    let mut bytes = Vec::new();
    // With more threads, each sorts smaller chunks.
    let least = Some(LEAST_MEMORY);
    for (threads, memory) in [(1, None), (64, least), (3, None), (16, least)] {
        let mut workshop = Workshop::new(3);
        workshop.options.threads = Some(threads);
        workshop.options.memory = memory;
        let dataset = workshop.import_text("edges.tsv", &text).unwrap();
        let mut names: Vec<_> = dataset.manifest().files.keys().cloned().collect();
        names.push("manifest.json".to_owned());
        bytes.push(
            names
                .iter()
                .map(|n| fs::read(dataset.path().join(n)).unwrap())
                .collect::<Vec<_>>(),
        );
    }
    assert!(bytes.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn the_seed_decides_the_places() {
    let text = long_text(2000);
    let mut workshop = Workshop::new(2);
    let first = workshop
        .import_text("edges.tsv", &text)
        .unwrap()
        .entity_names("e")
        .unwrap();
    workshop.options.seed = 1;
    workshop.options.fresh = true;
    let second = workshop
        .import_text("edges.tsv", &text)
        .unwrap()
        .entity_names("e")
        .unwrap();
    assert_ne!(first, second);
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(sorted(first), sorted(second));
}

#[test]
fn ranges_cross_record_batches() {
    let rows = BATCH_ROWS as u32 + 1000;
    let mut text = String::new();
    for row in 0..rows {
        writeln!(text, "a\t{}\tb", row % 7).unwrap();
    }
    let dataset = Workshop::new(1);
    let dataset = dataset.import_text("edges.tsv", text).unwrap();
    assert_eq!(dataset.manifest().edge_sets["train"].batches.len(), 2);
    let edges = dataset.edge_set("train").unwrap();
    let bucket = Bucket::new(0, 0);
    let from = BATCH_ROWS as u64 - 3;
    let read = edges.read(bucket, from..from + 8).unwrap();
    let expected: Vec<u32> = (from..from + 8).map(|row| (row % 7) as u32).collect();
    assert_eq!(
        read.rel, expected,
        "edges of a bucket stay in the order of the file"
    );
    assert!(edges.read(bucket, 0..u64::from(rows) + 1).is_err());
    assert!(edges.read(bucket, 5..5).unwrap().is_empty());
    assert_eq!(edges.bucket_len(Bucket::new(0, 1)), 0);
}

#[test]
fn several_types_and_an_unpartitioned_one() {
    let workshop = Workshop::with_config(
        "entities.user.num_partitions = 4\nentities.item.num_partitions = 4\n\
         entities.country.num_partitions = 1\n\
         relations = [{ name = 'buys', lhs = 'user', rhs = 'item' },\n\
                      { name = 'lives_in', lhs = 'user', rhs = 'country' }]",
    );
    let mut text = String::new();
    let mut expected = Vec::new();
    for user in 0..20 {
        writeln!(text, "u{user}\tbuys\ti{}", user % 6).unwrap();
        expected.push(edge(&format!("u{user}"), "buys", &format!("i{}", user % 6)));
        writeln!(text, "u{user}\tlives_in\tc{}", user % 3).unwrap();
        expected.push(edge(
            &format!("u{user}"),
            "lives_in",
            &format!("c{}", user % 3),
        ));
    }
    expected.sort();
    let dataset = workshop.import_text("edges.tsv", text).unwrap();
    assert_eq!(named_edges(&dataset, "train"), expected);
    assert_eq!(dataset.relation_names(), ["buys", "lives_in"]);
    assert_eq!(dataset.manifest().entities["country"].counts, [3]);
    assert_eq!(dataset.manifest().entities["user"].counts, [5, 5, 5, 5]);
    assert!(dataset.find("user", "u7").unwrap().is_some());
    for entity_type in dataset.manifest().entities.keys() {
        let found = |name| dataset.find(entity_type, name).unwrap().is_some();
        assert_eq!(found("c1"), entity_type == "country");
        assert!(!found("nobody"));
    }
    assert!(
        dataset
            .dictionary("thing")
            .unwrap_err()
            .to_string()
            .contains("`item`")
    );
}

#[test]
fn dictionary_lookups_agree() {
    let workshop = Workshop::new(3);
    let dataset = workshop.import_text("edges.tsv", long_text(500)).unwrap();
    let dictionary = dataset.dictionary("e").unwrap();
    for (global, name) in dictionary.names().enumerate() {
        let id = dictionary.id(global as u64);
        assert_eq!(dictionary.find(name), Some(id));
        assert_eq!(dictionary.name_of(id), Some(name));
        assert_eq!(dictionary.name(global as u64), Some(name));
        assert_eq!(dictionary.global(id), Some(global as u64));
    }
    assert_eq!(dictionary.find("nobody"), None);
    let outside = pbg_dataset::EntityId {
        partition: 3,
        offset: 0,
    };
    assert_eq!(dictionary.name_of(outside), None);
}
