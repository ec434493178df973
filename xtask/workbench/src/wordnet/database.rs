//! Reads the database files of WordNet (their format: wndb(5)) and names the synsets.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};

use super::relation::{self, Pos};

/// Relation between two synsets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Triple {
    pub(crate) lhs: Arc<str>,
    pub(crate) rel: &'static str,
    pub(crate) rhs: Arc<str>,
}

impl fmt::Display for Triple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}\t{}", self.lhs, self.rel, self.rhs)
    }
}

/// A synset is identified by its file and its byte offset in that file.
type Key = (Pos, u32);

/// Pointers are kept as offsets until all names are known.
struct Pointer {
    from: Key,
    rel: &'static str,
    to: Key,
}

/// Returns all triples of the database in `dict`, sorted and without repetition.
///
/// Pointers between words count for the synsets of those words. A pointer from a synset to itself is dropped.
pub(crate) fn read(dict: &Path) -> Result<Vec<Triple>> {
    let mut names: HashMap<Key, Arc<str>> = HashMap::new();
    let mut taken: HashMap<Arc<str>, Key> = HashMap::new();
    let mut pointers = Vec::new();
    for pos in Pos::ALL {
        let senses = read_index(&dict.join(format!("index.{}", pos.suffix())))?;
        let path = dict.join(format!("data.{}", pos.suffix()));
        for (number, line) in entries(&read_text(&path)?) {
            let at = || format!("{}, line {number}", path.display());
            let synset = Synset::parse(line, pos).with_context(at)?;
            let name: Arc<str> = synset.name(&senses).with_context(at)?.into();
            if let Some(other) = taken.insert(Arc::clone(&name), synset.key) {
                bail!("{}: the name {name} is already used by {other:?}", at());
            }
            names.insert(synset.key, name);
            pointers.extend(synset.pointers);
        }
    }
    resolve(&pointers, &names)
}

fn resolve(pointers: &[Pointer], names: &HashMap<Key, Arc<str>>) -> Result<Vec<Triple>> {
    let name = |key: &Key| {
        names
            .get(key)
            .cloned()
            .with_context(|| format!("a pointer leads to {key:?}, where there is no synset"))
    };
    let mut triples = BTreeSet::new();
    for pointer in pointers.iter().filter(|pointer| pointer.from != pointer.to) {
        triples.insert(Triple {
            lhs: name(&pointer.from)?,
            rel: pointer.rel,
            rhs: name(&pointer.to)?,
        });
    }
    Ok(triples.into_iter().collect())
}

/// Offsets of the synsets of each lemma, in the order of its senses.
type Senses = HashMap<String, Vec<u32>>;

fn read_index(path: &Path) -> Result<Senses> {
    let mut senses = Senses::new();
    for (number, line) in entries(&read_text(path)?) {
        let (lemma, offsets) =
            parse_index(line).with_context(|| format!("{}, line {number}", path.display()))?;
        senses.insert(lemma.to_owned(), offsets);
    }
    Ok(senses)
}

/// Parses `lemma pos synset_cnt p_cnt [symbol...] sense_cnt tagsense_cnt offset...`.
fn parse_index(line: &str) -> Result<(&str, Vec<u32>)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let lemma = *fields.first().context("no lemma")?;
    let n_synsets: usize = fields
        .get(2)
        .context("no number of synsets")?
        .parse()
        .context("number of synsets")?;
    ensure!(
        fields.len() >= 6 + n_synsets,
        "{} fields, but {n_synsets} synsets were announced",
        fields.len()
    );
    let offsets = fields[fields.len() - n_synsets..]
        .iter()
        .map(|offset| offset.parse().context("offset"));
    Ok((lemma, offsets.collect::<Result<_>>()?))
}

struct Synset {
    key: Key,
    letter: String,
    first_word: String,
    pointers: Vec<Pointer>,
}

impl Synset {
    /// Parses `offset lex_filenum ss_type w_cnt(hex) [word lex_id]... p_cnt [symbol offset pos source/target]... [frames] | gloss`.
    fn parse(line: &str, pos: Pos) -> Result<Self> {
        let mut fields = line.split_ascii_whitespace();
        let mut next = |what: &'static str| {
            fields
                .next()
                .with_context(|| format!("the line ends before {what}"))
        };
        let key = (pos, next("the offset")?.parse().context("offset")?);
        next("the file number")?;
        let letter = next("the type")?.to_owned();
        ensure!(
            Pos::of_letter(&letter) == Some(pos),
            "type {letter} in the file of {pos:?}s"
        );
        let n_words =
            usize::from_str_radix(next("the number of words")?, 16).context("number of words")?;
        ensure!(n_words > 0, "a synset without words");
        let first_word = without_marker(next("its first word")?).to_lowercase();
        for _ in 1..2 * n_words {
            next("the end of its words")?;
        }
        let n_pointers: usize = next("the number of pointers")?
            .parse()
            .context("number of pointers")?;
        let mut pointers = Vec::new();
        for _ in 0..n_pointers {
            let symbol = next("a pointer's symbol")?;
            let offset = next("a pointer's offset")?
                .parse()
                .context("offset of a pointer")?;
            let target = next("a pointer's type")?;
            next("a pointer's words")?;
            let target = Pos::of_letter(target)
                .with_context(|| format!("unknown part of speech {target}"))?;
            let Ok(rel) = relation::of_symbol(symbol, pos) else {
                bail!("unknown pointer symbol {symbol}")
            };
            pointers.extend(rel.map(|rel| Pointer {
                from: key,
                rel,
                to: (target, offset),
            }));
        }
        Ok(Self {
            key,
            letter,
            first_word,
            pointers,
        })
    }

    /// Returns its name in NLTK: first word, type, and number of the sense of that word.
    fn name(&self, senses: &Senses) -> Result<String> {
        let Self {
            key: (_, offset),
            letter,
            first_word,
            ..
        } = self;
        let offsets = senses
            .get(first_word)
            .with_context(|| format!("{first_word} is not in the index"))?;
        let sense = offsets.iter().position(|other| other == offset);
        let sense = sense
            .with_context(|| format!("the index does not lead from {first_word} to {offset:08}"))?;
        Ok(format!("{first_word}.{letter}.{:02}", sense + 1))
    }
}

/// Removes the syntactic marker of an adjective, as in `galore(ip)`.
fn without_marker(word: &str) -> &str {
    match word.find('(') {
        Some(at) if word.ends_with(')') => &word[..at],
        _ => word,
    }
}

fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| {
        format!(
            "cannot read {} (the Debian package wordnet-base has the database)",
            path.display()
        )
    })
}

/// Returns the lines after the licence, with their numbers. Lines of the licence begin with a blank.
fn entries(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line))
        .filter(|(_, line)| !line.starts_with(' '))
}
