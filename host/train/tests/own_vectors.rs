//! Runs whose embeddings start from vectors of the user, and whose embeddings stay as they are.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use pbg_checkpoint::{PartitionData, ReadCheckpoint};
use pbg_config::Config;
use pbg_core::event::Event;
use pbg_dataset::Dataset;
use pbg_import::ImportOptions;
use pbg_kernels::losses::handwritten::HandwrittenLoss;
use pbg_model::compatibility::AllowedChanges;
use pbg_model::error::{ErrorKind, RunError};
use pbg_model::resolved::ResolvedConfig;
use pbg_reference::strategies::{first_relation, row_by_row};
use pbg_train::{Fallbacks, GuardedLoss, Strategies};
use proptest::prelude::*;
use tempfile::TempDir;

const DIMENSION: usize = 4;
const FILMS: usize = 60;
const PEOPLE: usize = 25;

/// Folder with a dataset of films in four partitions and people in one.
struct Studio {
    folder: TempDir,
    keys: Vec<(String, String)>,
}

impl Studio {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut edges = String::new();
        for at in 0..300 {
            let film = at * 7 % FILMS;
            let _ = writeln!(edges, "film{film}\tcast\tperson{}", at % PEOPLE);
            let _ = writeln!(edges, "film{film}\tsequel\tfilm{}", (film + 1) % FILMS);
        }
        let file = folder.path().join("edges.tsv");
        fs::write(&file, edges).unwrap();
        let studio = Self {
            folder,
            keys: Vec::new(),
        };
        let options = ImportOptions {
            target: studio.path("data"),
            ..ImportOptions::default()
        };
        let sets = [("train".to_owned(), vec![file])];
        let mut go_on = |_| ControlFlow::Continue(());
        let schema = studio.config().graph_schema();
        pbg_import::run(&schema, &sets, &options, &mut go_on).unwrap();
        studio
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn set(&mut self, key: &str, value: impl Into<String>) {
        self.keys.push((key.to_owned(), value.into()));
    }

    fn config(&self) -> Config {
        let text = format!(
            "dataset = '{}'\ncheckpoint_path = '{}'\ndimension = {DIMENSION}\nnum_epochs = 2\nworkers = 1\nseed = 5\n\
             batch_size = 20\nnum_batch_negs = 5\nnum_uniform_negs = 5\nlr = 0.1\ncomparator = 'dot'\n\
             loss_fn = 'softmax'\n\
             relations = [{{ name = 'cast', lhs = 'film', rhs = 'person', operator = 'translation' }},\n\
             {{ name = 'sequel', lhs = 'film', rhs = 'film', operator = 'diagonal' }}]\n\
             entities.film.num_partitions = 4\nentities.person.num_partitions = 1\n",
            self.path("data").display(),
            self.path("model").display(),
        );
        Config::parse(&text, "test", &self.keys).unwrap()
    }

    fn train(&self) -> Result<Vec<Event>, RunError> {
        let strategies = Strategies {
            order: row_by_row(),
            sampler: first_relation(),
            negatives: None,
            schedule: None,
            loss: GuardedLoss::new(Box::new(HandwrittenLoss::softmax()), None),
            fallbacks: Fallbacks::default(),
        };
        let mut events = Vec::new();
        pbg_train::train(
            &ResolvedConfig::new(self.config())?,
            strategies,
            AllowedChanges::default(),
            &AtomicBool::new(false),
            &mut |event| events.push(event),
        )?;
        Ok(events)
    }

    /// Returns the trained embedding of every entity of a type, by name.
    fn trained(&self, entity_type: &str) -> BTreeMap<String, Vec<f32>> {
        let checkpoint = ReadCheckpoint::open(&self.path("model")).unwrap();
        let dataset = Dataset::open(&self.path("data")).unwrap();
        let mut tables: BTreeMap<u32, PartitionData> = BTreeMap::new();
        let mut found = BTreeMap::new();
        let mut visit = |partition: u32, offset: u32, name: &str| {
            let data = tables.entry(partition).or_insert_with(|| {
                let read = checkpoint.read_partition(entity_type, partition);
                read.unwrap().unwrap()
            });
            let row = &data.embeddings[offset as usize * DIMENSION..][..DIMENSION];
            found.insert(name.to_owned(), row.to_vec());
        };
        dataset.visit_rows(entity_type, &mut visit).unwrap();
        found
    }

    /// Returns the global embedding of a type.
    fn global(&self, entity_type: &str) -> Vec<f32> {
        let checkpoint = ReadCheckpoint::open(&self.path("model")).unwrap();
        let name = format!("entities/{entity_type}/global_embedding");
        let mut tensors = checkpoint.model().unwrap().into_iter();
        tensors.find(|tensor| tensor.name == name).unwrap().values
    }

    /// Writes vectors as npy, with their names beside them, and configures them for films.
    fn give(&mut self, vectors: &[(String, Vec<f32>)]) {
        let names: String = vectors
            .iter()
            .map(|(name, _)| format!("{name}\n"))
            .collect();
        let (file, beside) = (self.path("films.npy"), self.path("films.txt"));
        let numbers: Vec<f32> = vectors.iter().flat_map(|(_, row)| row.clone()).collect();
        let width = vectors.first().map_or(DIMENSION, |(_, row)| row.len());
        fs::write(&file, npy(vectors.len(), width, &numbers)).unwrap();
        fs::write(&beside, names).unwrap();
        self.set("entities.film.init", file.to_str().unwrap());
        self.set("entities.film.init_names", beside.to_str().unwrap());
    }

    fn forget_names(&mut self) {
        self.keys
            .retain(|(key, _)| key != "entities.film.init_names");
    }

    #[track_caller]
    fn refuses(&self, expected: &[&str]) {
        let error = self.train().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Data, "{error}");
        for part in expected {
            assert!(
                error.to_string().contains(part),
                "`{part}` is not in: {error}"
            );
        }
        assert!(!self.path("model/manifest.json").exists());
    }
}

fn npy(rows: usize, width: usize, numbers: &[f32]) -> Vec<u8> {
    let mut header =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}");
    header.push_str(&" ".repeat(117 - header.len()));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    numbers
        .iter()
        .for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    bytes
}

/// Returns a vector that tells which film it belongs to.
fn vector(film: usize) -> Vec<f32> {
    (0..DIMENSION)
        .map(|at| film as f32 + at as f32 / 8.0)
        .collect()
}

fn films(films: impl IntoIterator<Item = usize>) -> Vec<(String, Vec<f32>)> {
    let named = |film| (format!("film{film}"), vector(film));
    films.into_iter().map(named).collect()
}

fn bits(row: &[f32]) -> Vec<u32> {
    row.iter().map(|number| number.to_bits()).collect()
}

fn about_vectors(events: &[Event]) -> Vec<&Event> {
    let is_about = |event: &&Event| {
        matches!(
            event,
            Event::VectorsRead { .. } | Event::VectorsIgnored { .. }
        )
    };
    events.iter().filter(is_about).collect()
}

#[test]
fn frozen_embeddings_keep_their_bytes_while_others_are_trained() {
    let mut studio = Studio::new();
    studio.set("num_epochs", "0");
    studio.train().unwrap();
    let people = studio.trained("person");
    fs::remove_dir_all(studio.path("model")).unwrap();

    // Vectors of all films but the last ten, and of one that no edge has. `max_norm` does not change them either.
    studio.give(&films((0..FILMS - 10).chain([999])));
    studio.set("entities.film.frozen", "true");
    studio.set("max_norm", "0.5");
    studio.set("num_epochs", "2");
    let events = studio.train().unwrap();
    let told = Event::VectorsRead {
        entity_type: "film".to_owned(),
        file: studio.path("films.npy").display().to_string(),
        vectors: 51,
        taken: 50,
        rows: 60,
        by_name: true,
        frozen: true,
    };
    assert_eq!(about_vectors(&events), [&told]);
    let trained = studio.trained("film");
    for (name, expected) in films(0..FILMS - 10) {
        assert_eq!(bits(&trained[&name]), bits(&expected), "{name}");
    }
    // Nothing is added to them either, as to the embeddings of other types.
    let checkpoint = ReadCheckpoint::open(&studio.path("model")).unwrap();
    let parameters = checkpoint.model().unwrap();
    let moved = |entity_type: &str| {
        let name = format!("entities/{entity_type}/global_embedding");
        let global = parameters.iter().find(|tensor| tensor.name == name);
        global.unwrap().values.iter().any(|&number| number != 0.0)
    };
    assert!(moved("person") && !moved("film"));
    let after = studio.trained("person");
    assert!(people.iter().all(|(name, before)| after[name] != *before));

    // A resumed run reads no vectors, and says so if they are others.
    fs::remove_file(studio.path("films.npy")).unwrap();
    studio.set("num_epochs", "3");
    assert_eq!(about_vectors(&studio.train().unwrap()), [&told; 0]);
    assert_eq!(studio.trained("film"), trained);
    studio.set("num_epochs", "4");
    studio.set("entities.film.init", "other.npy");
    let ignored = Event::VectorsIgnored {
        entity_type: "film".to_owned(),
        file: "other.npy".to_owned(),
    };
    assert_eq!(about_vectors(&studio.train().unwrap()), [&ignored]);
    assert_eq!(studio.trained("film"), trained);
    assert_ne!(studio.trained("person"), after);
    // Whether they are frozen decides what training does.
    studio.set("entities.film.frozen", "false");
    let error = studio.train().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Checkpoint);
    assert!(
        error.to_string().contains("entities.film.frozen"),
        "{error}"
    );
}

#[test]
fn embeddings_that_are_not_frozen_only_start_from_their_vectors() {
    let mut studio = Studio::new();
    studio.give(&films(0..FILMS));
    studio.set("num_epochs", "0");
    studio.train().unwrap();
    let expected: BTreeMap<String, Vec<f32>> = films(0..FILMS).into_iter().collect();
    assert_eq!(studio.trained("film"), expected);
    studio.set("num_epochs", "1");
    studio.train().unwrap();
    let trained = studio.trained("film");
    assert!(
        expected
            .iter()
            .all(|(name, before)| trained[name] != *before)
    );
}

#[test]
fn vectors_without_names_follow_the_ids() {
    let mut studio = Studio::new();
    studio.give(&films(0..FILMS));
    studio.forget_names();
    studio.set("num_epochs", "0");
    let events = studio.train().unwrap();
    assert!(matches!(
        about_vectors(&events)[..],
        [Event::VectorsRead {
            by_name: false,
            taken: 60,
            ..
        }]
    ));
    let dataset = Dataset::open(&studio.path("data")).unwrap();
    let names = dataset.entity_names("film").unwrap();
    let trained = studio.trained("film");
    for (at, name) in names.iter().enumerate() {
        assert_eq!(trained[name], vector(at), "{name}");
    }
}

#[test]
fn wrong_vectors_are_refused_before_anything_is_written() {
    let mut studio = Studio::new();
    let mut wide = films(0..3);
    wide.iter_mut().for_each(|(_, row)| row.push(0.0));
    studio.give(&wide);
    studio.refuses(&[
        "films.npy",
        "5 numbers",
        "the entity type `film` is 4",
        "set `dimension`",
    ]);
    let mut bad = films(0..30);
    bad[17].1[2] = f32::NAN;
    studio.give(&bad);
    studio.refuses(&["films.npy: row 18: number 3 of its vector is NaN"]);
    // A vector that is not taken does not matter.
    bad[17].0 = "nobody".to_owned();
    bad.push(("film3".to_owned(), vector(3)));
    studio.give(&bad);
    studio.refuses(&["films.npy: vectors 4 and 31 have the same name `film3`"]);
    studio.give(&films(0..20));
    studio.forget_names();
    studio
        .refuses(&["it has 20 vectors without names, but the entity type `film` has 60 entities"]);
    studio.give(&films(100..130));
    studio.refuses(&[
        "films.npy",
        "none of its names is that of an entity of type `film`",
        "such as `film100`, the dataset such as `film",
    ]);
    studio.give(&films(0..20));
    fs::write(studio.path("films.txt"), "film1\nfilm2\n").unwrap();
    studio.refuses(&["films.txt: it has 2 names, but", "films.npy has 20 vectors"]);
    fs::remove_file(studio.path("films.txt")).unwrap();
    studio.refuses(&["films.txt"]);
    fs::remove_file(studio.path("films.npy")).unwrap();
    studio.refuses(&["films.npy"]);
}

/// Vectors are whole embeddings: the global embedding of the earlier model, which is added to all rows of a type, does not
/// move them, and the other rows stay where they were with it.
#[test]
fn vectors_replace_those_of_an_earlier_model() {
    let mut studio = Studio::new();
    studio.train().unwrap();
    let (earlier, global) = (studio.trained("film"), studio.global("film"));
    let people = (studio.trained("person"), studio.global("person"));
    assert!(global.iter().any(|x| *x != 0.0), "{global:?}");
    fs::rename(studio.path("model"), studio.path("earlier")).unwrap();
    let from = studio.path("earlier");
    studio.set("init_path", from.to_str().unwrap());
    studio.set("num_epochs", "0");
    studio.give(&films([5, 6, 7]));
    for frozen in ["false", "true"] {
        studio.set("entities.film.frozen", frozen);
        studio.train().unwrap();
        assert_eq!(studio.global("film"), [0.0; DIMENSION]);
        for (name, row) in studio.trained("film") {
            match name.as_str() {
                "film5" | "film6" | "film7" => assert_eq!(row, vector(name[4..].parse().unwrap())),
                _ => {
                    let placed = earlier[&name].iter().zip(&global).map(|(x, g)| x + g);
                    assert_eq!(row, placed.collect::<Vec<_>>(), "{name}");
                }
            }
        }
        // A type without vectors is as it was.
        assert_eq!((studio.trained("person"), studio.global("person")), people);
        fs::remove_dir_all(studio.path("model")).unwrap();
    }
    // Trained on, a frozen type stays where its vectors are, whatever happens to others.
    studio.set("num_epochs", "2");
    studio.train().unwrap();
    assert_eq!(studio.trained("film")["film5"], vector(5));
    assert_eq!(studio.global("film"), [0.0; DIMENSION]);
    assert_ne!(studio.trained("person"), people.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// A vector reaches its entity whatever the order of the names, and however many of them are known.
    #[test]
    fn the_order_of_names_does_not_matter(
        order in Just((0..FILMS + 20).collect::<Vec<usize>>()).prop_shuffle(),
        kept in 1..FILMS + 20,
        bf16 in any::<bool>(),
    ) {
        let mut studio = Studio::new();
        studio.set("num_epochs", "0");
        if bf16 {
            studio.set("storage", "bf16");
        }
        studio.give(&films(order[..kept].iter().copied()));
        studio.train().unwrap();
        let trained = studio.trained("film");
        for &film in order[..kept].iter().filter(|&&film| film < FILMS) {
            let row = &trained[&format!("film{film}")];
            let near = row.iter().zip(vector(film)).all(|(a, b)| (a - b).abs() <= b.abs() / 128.0);
            prop_assert!(if bf16 { near } else { *row == vector(film) }, "{film}: {row:?}");
        }
    }
}
