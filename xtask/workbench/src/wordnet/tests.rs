use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::GzDecoder;

use super::edge_sets::EdgeSets;
use super::write::{TripleCounts, table};
use super::{Triple, database, split};

/// A licence line, two senses of one noun, an adjective with its satellite, a verb and an adverb.
const DATABASE: [(&str, &str); 8] = [
    (
        "index.noun",
        "  1 licence\ndog n 2 1 @ 2 0 00000200 00000100  \nanimal n 1 1 ~ 1 0 00000300  \n",
    ),
    (
        "data.noun",
        "  1 licence\n\
         00000100 05 n 02 Dog 0 hound 0 003 @ 00000300 n 0000 + 00000100 v 0101 #m 00000300 n 0000 | second sense\n\
         00000200 05 n 01 Dog 1 002 @i 00000300 n 0000 + 00000200 n 0101 | first sense, points to itself\n\
         00000300 05 n 01 animal 0 001 ~ 00000100 n 0000 | the inverse of a hypernym\n",
    ),
    ("index.verb", "dog v 1 1 + 1 0 00000100  \n"),
    (
        "data.verb",
        "00000100 38 v 01 dog 0 001 + 00000100 n 0101 01 + 08 00 | with a frame\n",
    ),
    ("index.adj", "canine a 2 1 & 2 0 00000100 00000200  \n"),
    (
        "data.adj",
        "00000100 00 a 01 canine(p) 0 002 & 00000200 s 0000 \\ 00000100 n 0101 | head\n\
         00000200 00 s 01 canine 1 001 & 00000100 a 0000 | satellite\n",
    ),
    ("index.adv", "caninely r 1 1 \\ 1 0 00000100  \n"),
    (
        "data.adv",
        "00000100 02 r 01 caninely 0 001 \\ 00000100 a 0101 | manner\n",
    ),
];

fn database_with(changes: &[(&str, &str)]) -> anyhow::Result<Vec<Triple>> {
    let dict = tempfile::tempdir()?;
    for (name, text) in DATABASE.iter().chain(changes) {
        fs::write(dict.path().join(name), text)?;
    }
    database::read(dict.path())
}

#[test]
fn names_senses_and_keeps_one_direction_of_inverses() {
    let triples: Vec<String> = database_with(&[])
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        triples,
        [
            "canine.a.01\tpertainym\tdog.n.02",
            "canine.a.01\tsimilar_to\tcanine.s.02",
            "canine.s.02\tsimilar_to\tcanine.a.01",
            "caninely.r.01\tderived_from_adjective\tcanine.a.01",
            "dog.n.01\tinstance_hypernym\tanimal.n.01",
            "dog.n.02\tderivationally_related_form\tdog.v.01",
            "dog.n.02\thypernym\tanimal.n.01",
            "dog.v.01\tderivationally_related_form\tdog.n.02",
        ]
    );
}

#[test]
fn damaged_databases_are_refused_with_the_place() {
    let cases = [
        (
            "data.adv",
            "00000100 02 r 01 caninely 0 001 ? 00000100 a 0101 | x\n",
            "unknown pointer symbol ?",
        ),
        (
            "data.adv",
            "00000100 02 r 01 caninely 0 002 \\ 00000100 a 0101",
            "the line ends before",
        ),
        (
            "data.adv",
            "00000100 02 r 01 caninely 0 001 \\ 00000900 a 0101 | x\n",
            "where there is no synset",
        ),
        (
            "data.adv",
            "00000150 02 r 01 caninely 0 000 | x\n",
            "the index does not lead",
        ),
        (
            "data.adv",
            "00000100 02 n 01 caninely 0 000 | x\n",
            "type n in the file",
        ),
        (
            "index.adv",
            "caninely r 3 1 \\ 1 0 00000100  \n",
            "3 synsets were announced",
        ),
    ];
    for (file, text, reason) in cases {
        let error = format!("{:#}", database_with(&[(file, text)]).unwrap_err());
        assert!(error.contains(reason), "{error}");
    }
}

fn triple(lhs: usize, rel: &'static str, rhs: usize) -> Triple {
    Triple {
        lhs: format!("e{lhs}").into(),
        rel,
        rhs: format!("e{rhs}").into(),
    }
}

#[test]
fn a_split_leaks_nothing_and_leaves_everything_known() {
    let n = 4000;
    let chain = (1..n).map(|i| triple(i - 1, "next", i));
    let symmetric = (0..n)
        .flat_map(|i| [(i, i * 7 % n), (i * 7 % n, i)])
        .filter(|(a, b)| a != b);
    let mut all: Vec<Triple> = chain
        .chain(symmetric.map(|(a, b)| triple(a, "like", b)))
        .collect();
    all.sort();
    all.dedup();

    let sets = split::split(all.clone()).unwrap();
    check_split(&strings(&sets));
    assert!(sets.test.len() > all.len() / 25 && sets.valid.len() > all.len() / 25);
    let mut again: Vec<Triple> = sets
        .named()
        .into_iter()
        .flat_map(|(_, triples)| triples.to_vec())
        .collect();
    again.sort();
    assert_eq!(again, all);
}

type Strings = HashMap<&'static str, Vec<[String; 3]>>;

fn strings(sets: &EdgeSets) -> Strings {
    let fields = |t: &Triple| [t.lhs.to_string(), t.rel.to_owned(), t.rhs.to_string()];
    sets.named()
        .into_iter()
        .map(|(name, triples)| (name, triples.iter().map(fields).collect()))
        .collect()
}

fn check_split(sets: &Strings) {
    let pairs = |name: &str| -> HashSet<[&str; 2]> {
        sets[name]
            .iter()
            .map(|[a, _, b]| {
                if a <= b {
                    [a.as_str(), b]
                } else {
                    [b.as_str(), a]
                }
            })
            .collect()
    };
    for (one, other) in [("train", "valid"), ("train", "test"), ("valid", "test")] {
        assert!(
            pairs(one).is_disjoint(&pairs(other)),
            "{one} and {other} share a pair of synsets"
        );
    }
    let known: HashSet<&String> = sets["train"].iter().flatten().collect();
    for name in ["valid", "test"] {
        assert!(
            sets[name].iter().flatten().all(|word| known.contains(word)),
            "{name} has a word that train lacks"
        );
    }
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/wordnet")
}

fn read_example() -> Strings {
    let read = |name: &'static str| {
        let bytes = fs::read(example().join(format!("{name}.tsv.gz"))).unwrap();
        let mut text = String::new();
        GzDecoder::new(bytes.as_slice())
            .read_to_string(&mut text)
            .unwrap();
        let fields = |line: &str| {
            line.split('\t')
                .map(str::to_owned)
                .collect::<Vec<_>>()
                .try_into()
                .unwrap()
        };
        (name, text.lines().map(fields).collect())
    };
    ["train", "valid", "test"].into_iter().map(read).collect()
}

#[test]
fn the_example_leaks_nothing_and_its_readme_counts_it() {
    let sets = read_example();
    check_split(&sets);

    let mut counts: TripleCounts<'_> = BTreeMap::new();
    for (set_idx, name) in ["train", "valid", "test"].into_iter().enumerate() {
        for [_, rel, _] in &sets[name] {
            counts.entry(rel).or_default()[set_idx] += 1;
        }
    }
    let readme = fs::read_to_string(example().join("README.md")).unwrap();
    assert!(
        readme.contains(&table(&counts)),
        "README.md should have:\n{}",
        table(&counts)
    );
}

#[test]
fn the_example_fits_its_four_megabytes() {
    let files = fs::read_dir(example())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap());
    let bytes: u64 = files
        .filter(std::fs::Metadata::is_file)
        .map(|file| file.len())
        .sum();
    assert!(bytes < 4_000_000, "{bytes} bytes");
}

/// The full comparison needs the Debian package; without it, only the checks above are made.
#[test]
fn the_example_is_what_the_program_makes() {
    let dict = Path::new("/usr/share/wordnet");
    if !dict.join("data.noun").exists() {
        return;
    }
    let made = split::split(database::read(dict).unwrap()).unwrap();
    assert!(
        strings(&made) == read_example(),
        "examples/wordnet is stale: run `cargo xtask wordnet`"
    );
    assert!(
        made.train
            .iter()
            .any(|t| t.lhs == Arc::from("dog.n.01") && &*t.rhs == "canine.n.02")
    );
}
