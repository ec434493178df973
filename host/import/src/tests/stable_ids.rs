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

/// Returns the ids of type `e` of the dataset of a workshop.
fn ids(workshop: &Workshop) -> pbg_dataset::IdSpace {
    workshop.dataset().ids(&["e".to_owned()]).unwrap()
}

#[test]
fn growth_is_told_from_change() {
    use pbg_dataset::IdChange;

    let mut workshop = Workshop::new(3);
    workshop
        .import_text("a.tsv", "a\tr\tb\nc\tr\td\ne\tr\tf\ng\tz\ta\n")
        .unwrap();
    let old = ids(&workshop);
    let succession = |workshop: &Workshop, old| {
        let now = ids(workshop);
        workshop.dataset().compare_ids(old, &now).unwrap()
    };
    assert_eq!(succession(&workshop, &old), IdChange::Same);
    // Neither other edges nor another order of edges changes the ids.
    workshop
        .import_text("b.tsv", "g\tz\ta\nc\tr\td\na\tr\tb\n")
        .unwrap();
    assert_eq!(succession(&workshop, &old), IdChange::Same);
    workshop
        .import_text("c.tsv", "a\tr\tnew\nc\tq\td\n")
        .unwrap();
    assert_eq!(succession(&workshop, &old), IdChange::Grown);
    let grown = ids(&workshop);
    assert_eq!(grown.relations.total(), old.relations.total() + 1);
    assert_eq!(grown.rows["e"].total(), old.rows["e"].total() + 1);

    (workshop.options.fresh, workshop.options.seed) = (true, 9);
    workshop
        .import_text("d.tsv", "a\tr\tb\nc\tr\td\ne\tr\tf\ng\tz\ta\nh\tq\th\n")
        .unwrap();
    assert!(matches!(succession(&workshop, &old), IdChange::Changed(_)));
    assert!(matches!(
        succession(&workshop, &grown),
        IdChange::Changed(_)
    ));
}

#[test]
fn an_older_manifest_without_checksums_gives_the_same_ids() {
    let workshop = Workshop::new(2);
    let dataset = workshop
        .import_text("a.tsv", "a\tr\tb\nc\tr\td\ne\tr\tf\n")
        .unwrap();
    let mut manifest = dataset.manifest().clone();
    let entities = manifest.entities.get_mut("e").unwrap();
    assert_eq!(std::mem::take(&mut entities.names_crc32).len(), 2);
    let sealed = pbg_files::sealed_json::seal(pbg_dataset::manifest::FORMAT, &manifest).unwrap();
    let expected = ids(&workshop);
    fs::write(workshop.target().join(pbg_dataset::MANIFEST), sealed).unwrap();
    assert_eq!(ids(&workshop), expected);
}

#[test]
fn partitions_that_cannot_be_levelled_are_reported() {
    let report = |counts: &[u32]| crate::TypeReport {
        entities: counts.iter().map(|&n| u64::from(n)).sum(),
        counts: counts.to_vec(),
        ..Default::default()
    };
    assert_eq!(report(&[10, 10, 11]).imbalance(), None);
    assert_eq!(report(&[1, 0, 1, 0]).imbalance(), None);
    assert_eq!(report(&[12, 10, 10]).imbalance(), None);
    assert_eq!(report(&[30, 10, 20]).imbalance(), Some(1.5));

    // A dictionary of another dataset with nearly all entities in one partition.
    let workshop = Workshop::new(2);
    let dataset = workshop
        .import_text("a.tsv", "a\tr\tb\nc\tr\td\ne\tr\tf\ng\tr\th\n")
        .unwrap();
    let mut manifest = dataset.manifest().clone();
    let (folder, entities) = (workshop.target(), manifest.entities.get_mut("e").unwrap());
    entities.counts = vec![7, 1];
    let names = dataset.entity_names("e").unwrap();
    let written = pbg_dataset::write::dictionary(
        &folder.join(&entities.file),
        names.iter().map(String::as_str),
        &entities.counts,
    );
    let (summary, sums) = written.unwrap();
    entities.names_crc32 = sums;
    manifest.files.insert(entities.file.clone(), summary);
    manifest.edge_sets.clear();
    let sealed = pbg_files::sealed_json::seal(pbg_dataset::manifest::FORMAT, &manifest).unwrap();
    fs::write(folder.join(pbg_dataset::MANIFEST), sealed).unwrap();

    let two_more = workshop.file("b.tsv", "a\tr\tx\nb\tr\ty\n");
    let report = workshop.import(&[("train", &[&two_more])]).unwrap();
    assert_eq!(report.types[0].counts, [7, 3]);
    assert_eq!(report.types[0].imbalance(), Some(1.4));
}
