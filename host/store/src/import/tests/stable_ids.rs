//! A second import keeps the ids of the first.

use super::*;

#[test]
fn new_entities_come_behind_the_old() {
    let workshop = Workshop::new(3);
    workshop
        .import_text("a.tsv", "a\tr\tb\nc\tr\td\ne\tr\tf\ng\tz\ta\n")
        .unwrap();
    let old = workshop.dataset().dictionary("e").unwrap();
    let more = workshop.file("b.tsv", "a\tq\tnew1\nnew2\tr\tb\nnew3\tr\tnew4\n");
    let report = workshop.import(&[("more", &[&more])]).unwrap();
    let after = workshop.dataset();
    let new = after.dictionary("e").unwrap();
    for (global, name) in old.names().enumerate() {
        assert_eq!(new.find(name), Some(old.id(global as u64)), "{name}");
    }
    assert_eq!(new.len(), 11);
    assert_eq!(after.relation_names(), ["r", "z", "q"]);
    assert_eq!(report.kept_sets, ["train"]);
    assert_eq!((report.types[0].known, report.types[0].absent), (7, 5));
    assert_eq!(named_edges(&after, "train").len(), 4);
    assert_eq!(named_edges(&after, "more").len(), 3);
    let counts = &after.manifest().entities["e"].counts;
    assert_eq!(
        counts.iter().max().unwrap() - counts.iter().min().unwrap(),
        1,
        "{counts:?}"
    );
    assert!(workshop.is_tidy());
}

#[test]
fn a_dictionary_from_elsewhere() {
    let mut workshop = Workshop::new(2);
    workshop.import_text("a.tsv", "a\tr\tb\nc\tr\td\n").unwrap();
    workshop.options.dictionary = Some(workshop.target());
    workshop.options.target = workshop.path("elsewhere");
    let report = workshop
        .import(&[("test", &[&workshop.file("b.tsv", "d\tr\tx\n")])])
        .unwrap();
    assert!(
        report.kept_sets.is_empty(),
        "only ids are taken from another dataset"
    );
    let (old, new) = (
        Dataset::open(&workshop.path("data")).unwrap(),
        workshop.dataset(),
    );
    for name in ["a", "b", "c", "d"] {
        assert_eq!(old.find("e", name).unwrap(), new.find("e", name).unwrap());
    }
}

#[test]
fn features_keep_their_ids() {
    let mut workshop = Workshop::with_config(
        "entities.doc = { num_partitions = 1, featurized = true }\n\
         relations = [{ name = 'cites', lhs = 'doc', rhs = 'doc' }]",
    );
    let words = workshop.file("words.tsv", "a\tx y\nb\ty z\n");
    workshop.options.features = vec![("doc".to_owned(), words)];
    let before = workshop
        .import_text("a.tsv", "a\tcites\tb\n")
        .unwrap()
        .features("doc")
        .unwrap();
    workshop.file("words.tsv", "a\tx y\nb\ty z\nc\tw z v\n");
    let after = workshop
        .import_text("a.tsv", "a\tcites\tc\n")
        .unwrap()
        .features("doc")
        .unwrap();
    assert_eq!(after.names()[..3], *before.names());
    assert_eq!((after.of(0), after.of(1)), (before.of(0), before.of(1)));
    assert_eq!((after.names().len(), after.of(2).len()), (5, 3));
}

#[test]
fn another_partitioning_needs_a_fresh_start() {
    let mut workshop = Workshop::new(2);
    workshop.import_text("a.tsv", "a\tr\tb\nc\tr\td\n").unwrap();
    let before = workshop.dataset().identity().to_owned();
    workshop
        .config
        .entities
        .get_mut("e")
        .unwrap()
        .num_partitions = 3;
    let error = workshop
        .import_text("a.tsv", "a\tr\tb\n")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("2 partitions of `e`") && error.contains("--fresh"),
        "{error}"
    );
    assert_eq!(
        workshop.dataset().identity(),
        before,
        "the old dataset is untouched"
    );
    workshop.options.fresh = true;
    let dataset = workshop.import_text("a.tsv", "a\tr\tb\n").unwrap();
    assert_eq!(dataset.manifest().entities["e"].counts, [1, 1, 0]);
}
