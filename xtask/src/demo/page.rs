//! Page at the end of the demo: a map of some topics, answers of the model, and the course of training.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::example::{ASKED, EXAMPLE, FOLDER, WELL_KNOWN, pbg_host};
use crate::repo::Repo;
use crate::step;

/// Topics of the map, each with the synsets whose hyponyms belong to it.
const TOPICS: [(&str, &[&str]); 8] = [
    ("animals", &["animal.n.01"]),
    ("plants", &["plant.n.02"]),
    ("food", &["food.n.01", "food.n.02"]),
    ("musical instruments", &["musical_instrument.n.01"]),
    ("vehicles", &["vehicle.n.01"]),
    ("places", &["city.n.01", "country.n.02"]),
    ("feelings", &["feeling.n.01"]),
    ("the body", &["body_part.n.01"]),
];

/// Maximum number of synsets per topic; those with the most edges, which are well-known, are chosen.
const OF_TOPIC: usize = 45;

/// Writes the page and prints its path.
pub(super) fn write(repo: &Repo, config: &str) -> Result<()> {
    step::announce("writing the page of the run: a map of eight topics, neighbours, predictions");
    let (topics, questions) = (
        format!("{FOLDER}/topics.tsv"),
        format!("{FOLDER}/questions.tsv"),
    );
    let edges = Edges::read(&repo.root.join(EXAMPLE).join("train.tsv.gz"))?;
    save(repo, &topics, &edges.topics())?;
    let asked = ASKED.iter().map(|options| line(options));
    save(repo, &questions, &asked.collect::<String>())?;
    let page = format!("{FOLDER}/demo.html");
    let map = format!("--map={topics}");
    let mut command = vec!["report", config, "--html", &page, &map];
    for name in WELL_KNOWN {
        command.extend(["--neighbors", name]);
    }
    command.extend(["--questions", &questions]);
    command.extend(["--filter", "train,valid", "--no-loops"]);
    pbg_host(repo, &command)?;
    println!("\nThe page: {}", repo.root.join(page).display());
    Ok(())
}

fn save(repo: &Repo, path: &str, text: &str) -> Result<()> {
    fs::write(repo.root.join(path), text).with_context(|| format!("cannot write {path}"))
}

/// Formats a question as a line of three columns.
fn line(options: &[&str]) -> String {
    let value = |name: &str| {
        let at = options.iter().position(|option| *option == name);
        at.and_then(|at| options.get(at + 1)).map_or("?", |v| *v)
    };
    let columns = ["--head", "--relation", "--tail"].map(value);
    format!("{}\n", columns.join("\t"))
}

/// Hyponyms and number of edges of each synset.
#[derive(Default)]
struct Edges {
    below: HashMap<String, Vec<String>>,
    degrees: HashMap<String, usize>,
}

impl Edges {
    fn read(path: &Path) -> Result<Self> {
        let mut gzip = Command::new("gzip");
        gzip.args(["--decompress", "--stdout"]).arg(path);
        let text = step::output(&mut gzip, "install gzip, and see the message above")?;
        let mut edges = Self::default();
        for line in text.lines() {
            edges.add(line);
        }
        Ok(edges)
    }

    fn add(&mut self, line: &str) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [head, relation, tail] = columns[..] else {
            return;
        };
        for name in [head, tail] {
            *self.degrees.entry(name.to_owned()).or_default() += 1;
        }
        if ["hypernym", "instance_hypernym"].contains(&relation) {
            let below = self.below.entry(tail.to_owned()).or_default();
            below.push(head.to_owned());
        }
    }

    /// Returns a line for each synset of the map: its name and its topic.
    fn topics(&self) -> String {
        let mut text = String::new();
        let mut shown = HashSet::new();
        for (topic, roots) in TOPICS {
            let degree = |name: &str| self.degrees.get(name).copied().unwrap_or(0);
            let mut names = Vec::from_iter(self.all_below(roots));
            names.sort_by(|a, b| degree(b).cmp(&degree(a)).then(a.cmp(b)));
            names.retain(|name| !shown.contains(name));
            names.truncate(OF_TOPIC);
            for name in names {
                let _ = writeln!(text, "{name}\t{topic}");
                shown.insert(name);
            }
        }
        text
    }

    fn all_below<'e>(&'e self, roots: &[&str]) -> HashSet<&'e str> {
        let mut found = HashSet::new();
        let mut left: Vec<&str> = roots.to_vec();
        while let Some(name) = left.pop() {
            for below in self.below.get(name).into_iter().flatten() {
                if found.insert(below.as_str()) {
                    left.push(below);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_have_the_best_known_that_is_below_them() {
        let mut edges = Edges::default();
        for line in [
            "dog.n.01\thypernym\tanimal.n.01",
            "puppy.n.01\thypernym\tdog.n.01",
            "puppy.n.01\tsimilar_to\tdog.n.01",
            "laika.n.01\tinstance_hypernym\tdog.n.01",
            "tree.n.01\thypernym\tplant.n.02",
        ] {
            edges.add(line);
        }
        assert_eq!(
            edges.topics(),
            "dog.n.01\tanimals\npuppy.n.01\tanimals\nlaika.n.01\tanimals\ntree.n.01\tplants\n"
        );
    }

    #[test]
    fn questions_are_lines_of_three_columns() {
        let question = line(&["--relation", "part_meronym", "--tail", "leg.n.01"]);
        assert_eq!(question, "?\tpart_meronym\tleg.n.01\n");
    }
}
