//! The counts equal those of a direct inspection of every edge.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;

use pbg_config::Config;
use proptest::prelude::*;
use tempfile::TempDir;

use pbg_dataset::Dataset;
use pbg_dataset::describe::*;
use pbg_import::{self as import, ImportOptions};

/// Edge by names: left side, relation, right side.
type Named = (String, &'static str, String);

/// Creates a dataset of `sets`. The relation `same` leads from `a` to `a`, `across` from `a` to `b`, `back` from `b` to
/// `a`.
fn dataset(sets: &[(&str, Vec<Named>)], partitions: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "dataset = 'd'\ncheckpoint_path = 'c'\ndimension = 2\n\
         entities = {{ a = {{ num_partitions = {partitions} }}, b = {{ num_partitions = {partitions} }} }}\n\
         relations = [{{ name = 'same', lhs = 'a', rhs = 'a' }}, {{ name = 'across', lhs = 'a', rhs = 'b' }}, \
         {{ name = 'back', lhs = 'b', rhs = 'a' }}]"
    );
    let config = Config::parse(&text, "pbg.toml", &[]).unwrap();
    let file = |(name, edges): &(&str, Vec<Named>)| {
        let path = folder.path().join(format!("{name}.tsv"));
        let line = |(lhs, rel, rhs): &Named| format!("{lhs}\t{rel}\t{rhs}\n");
        fs::write(&path, edges.iter().map(line).collect::<String>()).unwrap();
        ((*name).to_owned(), vec![path])
    };
    let sets: Vec<_> = sets.iter().map(file).collect();
    let options = ImportOptions {
        target: folder.path().join("data"),
        trained: vec!["train".to_owned()],
        ..ImportOptions::default()
    };
    let go_on = &mut |_| ControlFlow::Continue(());
    import::run(&config.graph_schema(), &sets, &options, go_on).unwrap();
    folder
}

fn opened(folder: &TempDir) -> Dataset {
    Dataset::open(&folder.path().join("data")).unwrap()
}

fn described(dataset: &Dataset, memory: Option<u64>) -> Result<Description, DescribeError> {
    let options = DescribeOptions {
        trained: vec!["train".to_owned(), "absent".to_owned()],
        threads: Some(1),
        memory,
    };
    dataset.describe(&options, &mut |_| ControlFlow::Continue(()))
}

fn edges() -> impl Strategy<Value = Vec<Named>> {
    let edge = (0..6, 0_usize..3, 0..6).prop_map(|(lhs, rel, rhs)| {
        let rel = ["same", "across", "back"][rel];
        (format!("n{lhs}"), rel, format!("n{rhs}"))
    });
    prop::collection::vec(edge, 1..25)
}

/// Returns the two entities of an edge, each with its type.
fn ends((lhs, rel, rhs): &Named) -> [(&'static str, &str); 2] {
    let (left, right) = match *rel {
        "same" => ("a", "a"),
        "across" => ("a", "b"),
        _ => ("b", "a"),
    };
    [(left, lhs), (right, rhs)]
}

/// Computes the connected components by merging sets of entities.
fn parts(edges: &[Named]) -> Vec<BTreeSet<(&'static str, &str)>> {
    let mut parts: Vec<BTreeSet<_>> = Vec::new();
    for edge in edges {
        let ends = ends(edge);
        let (mut joined, others) = parts
            .into_iter()
            .partition::<Vec<_>, _>(|part| ends.iter().any(|end| part.contains(end)));
        parts = others;
        joined.push(ends.into_iter().collect());
        parts.push(joined.into_iter().flatten().collect());
    }
    parts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn counts_are_those_of_a_look_at_every_edge(
        train in edges(),
        test in edges(),
        partitions in 1_u32..4,
    ) {
        let folder = dataset(&[("train", train.clone()), ("test", test.clone())], partitions);
        let found = described(&opened(&folder), None).unwrap();
        prop_assert_eq!(&found.trained, &["train".to_owned()]);
        prop_assert!(found.not_counted.is_empty());
        for (set, (own, other)) in found.edge_sets.iter().zip([(&train, &test), (&test, &train)]) {
            let distinct: BTreeSet<_> = own.iter().collect();
            let entities: BTreeSet<_> = own.iter().flat_map(ends).collect();
            let relations: BTreeSet<_> = own.iter().map(|edge| edge.1).collect();
            let is_loop = |edge: &&Named| edge.1 == "same" && edge.0 == edge.2;
            let also = own.iter().filter(|edge| other.contains(edge)).count();
            let reversed = own.iter().filter(|edge| {
                let [lhs, rhs] = ends(edge);
                lhs != rhs && other.iter().any(|other| ends(other) == [rhs, lhs])
            });
            prop_assert_eq!(set.edges, own.len() as u64);
            prop_assert_eq!(set.duplicates, (own.len() - distinct.len()) as u64);
            prop_assert_eq!(set.entities, entities.len() as u64);
            prop_assert_eq!(set.relations, relations.len() as u64);
            prop_assert_eq!(set.loops, own.iter().filter(is_loop).count() as u64);
            let name = if set.name == "train" { "test" } else { "train" };
            let count = |counts: &BTreeMap<String, u64>| counts.get(name).copied().unwrap_or(0);
            prop_assert_eq!(count(&set.also_in), also as u64);
            prop_assert_eq!(count(&set.reversed_in), reversed.count() as u64);
        }
        let seen: BTreeSet<_> = train.iter().flat_map(ends).collect();
        let trained: BTreeSet<_> = train.iter().map(|edge| edge.1).collect();
        let is_new = |edge: &&Named| {
            !trained.contains(edge.1) || ends(edge).iter().any(|end| !seen.contains(end))
        };
        let tested: BTreeSet<_> = test.iter().flat_map(ends).collect();
        let relations: BTreeSet<_> = test.iter().map(|edge| edge.1).collect();
        let unseen = UnseenCounts {
            edges: test.iter().filter(is_new).count() as u64,
            entities: tested.difference(&seen).count() as u64,
            relations: relations.difference(&trained).count() as u64,
        };
        prop_assert_eq!(found.edge_sets[0].unseen, None);
        prop_assert_eq!(found.edge_sets[1].unseen, Some(unseen));

        for of_type in &found.entity_types {
            let all: BTreeSet<_> = seen.union(&tested).filter(|end| end.0 == of_type.name).collect();
            let degree = |end: &(&str, &str)| {
                train.iter().flat_map(ends).filter(|other| other == end).count() as u32
            };
            let mut degrees: Vec<u32> = all.iter().map(|end| degree(end)).collect();
            degrees.sort_unstable();
            prop_assert_eq!(of_type.entities, degrees.len() as u64);
            let counted = of_type.degrees.unwrap();
            if degrees.is_empty() {
                continue;
            }
            prop_assert_eq!(counted.max, *degrees.last().unwrap());
            prop_assert_eq!(counted.median, degrees[degrees.len().div_ceil(2) - 1]);
            prop_assert_eq!(counted.none, degrees.iter().filter(|&&n| n == 0).count() as u64);
            let mean = f64::from(degrees.iter().sum::<u32>()) / degrees.len() as f64;
            prop_assert!((counted.mean - mean).abs() < 1e-12);
        }
        let parts = parts(&train);
        let components = Components {
            count: parts.len() as u64,
            largest: parts.iter().map(BTreeSet::len).max().unwrap_or(0) as u64,
            entities: seen.len() as u64,
        };
        prop_assert_eq!(found.components, Some(components));

        let names = |of: &str| -> BTreeSet<String> {
            let ends = seen.union(&tested).filter(|end| end.0 == of);
            ends.map(|end| end.1.to_owned()).collect()
        };
        let shared = names("a").intersection(&names("b")).count() as u64;
        prop_assert_eq!(found.shared_names.count, shared);
        prop_assert_eq!(found.shared_names.examples.len() as u64, shared.min(3));
    }
}

/// A path with `entities` entities: enough that a number per entity takes more memory than a bit per entity.
fn path(entities: usize) -> Vec<Named> {
    let edge = |n: usize| (format!("n{n}"), "same", format!("n{}", n + 1));
    (1..entities).map(edge).collect()
}

#[test]
fn what_memory_does_not_suffice_for_is_named_or_refused() {
    let folder = dataset(&[("train", path(100_000)), ("test", path(10))], 1);
    let dataset = opened(&folder);
    let all = described(&dataset, None).unwrap();
    assert!(all.components.is_some_and(|parts| parts.largest == 100_000));

    let reading = BYTES_PER_THREAD;
    let few = described(&dataset, Some(reading + 100_000)).unwrap();
    assert_eq!(few.components, None);
    assert_eq!(few.entity_types[0].degrees, None);
    assert_eq!(few.edge_sets, all.edge_sets);
    let why = few.not_counted.join("\n");
    assert!(
        why.contains("degrees: ") && why.contains("components: "),
        "{why}"
    );

    let error = described(&dataset, Some(reading + 1000))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("takes at least 33 MiB") && error.contains("32 MiB"),
        "{error}"
    );
}

#[test]
fn edges_are_sorted_in_as_many_rounds_as_memory_asks_for() {
    // Every edge twice, once reversed, and a test set of all of them: more than fits in one round.
    let mut train = path(60_000);
    let reversed: Vec<Named> = train
        .iter()
        .map(|(l, r, t)| (t.clone(), *r, l.clone()))
        .collect();
    train.extend(reversed);
    let sets = [("train", train.clone()), ("test", train.clone())];
    let folder = dataset(&sets, 1);
    let dataset = opened(&folder);
    // Returns the description with a limit of memory, and the number of edges that were read for it.
    let describe = |memory| {
        let options = DescribeOptions {
            trained: vec!["train".to_owned()],
            threads: Some(1),
            memory,
        };
        let mut read = 0;
        let all = dataset.describe(&options, &mut |edges| {
            read += edges;
            ControlFlow::Continue(())
        });
        (all.unwrap(), read)
    };
    let (at_once, read_once) = describe(None);
    let (in_rounds, read) = describe(Some(BYTES_PER_THREAD + (1 << 20)));
    assert_eq!(in_rounds.edge_sets, at_once.edge_sets);
    assert!(
        read > read_once,
        "{read} edges were read, {read_once} at once"
    );
    let edges = Some(train.len() as u64);
    let [train, test] = &in_rounds.edge_sets[..] else {
        panic!("two edge sets: {:?}", in_rounds.edge_sets);
    };
    assert_eq!(train.reversed_in.get("train").copied(), edges);
    assert_eq!(test.also_in.get("train").copied(), edges);
}

#[test]
fn names_are_compared_in_as_many_rounds_as_memory_asks_for() {
    let name = |n: u32| format!("n{n}");
    let edges = (0..80_000).map(|n| (name(n), "across", name(n + 40_000)));
    let folder = dataset(&[("train", edges.collect())], 1);
    let dataset = opened(&folder);
    assert!(SharedNames::rounds(&dataset, 1 << 20) > 1);
    for memory in [1 << 20, u64::MAX] {
        let shared = SharedNames::of(&dataset, memory, &mut || true).unwrap();
        assert_eq!((shared.count, shared.examples.len()), (40_000, 3));
        let both = |example: &SharedName| example.types == ["a", "b"];
        assert!(shared.examples.iter().all(both));
    }
}

#[test]
fn the_caller_may_end_it() {
    let folder = dataset(&[("train", path(10))], 1);
    let dataset = opened(&folder);
    let options = DescribeOptions::default();
    let ended = dataset.describe(&options, &mut |_| ControlFlow::Break(()));
    assert!(matches!(ended, Err(DescribeError::Cancelled)));
}
