//! Hard candidates from a file: for each relation and side, the entities from which a fraction of the negatives is drawn.
//!
//! A line has a relation, the side that is replaced (`lhs` or `rhs`), an entity and, if wanted, a weight, separated by
//! tabs:
//!
//! ```text
//! capital_of\tlhs\tParis\t3
//! capital_of\tlhs\tLyon\t1
//! ```
//!
//! Without weights, the entities of a relation and side are equally likely. Relations that the file lacks have uniform
//! negatives. The file must be in a folder that the configuration grants:
//!
//! ```toml
//! negative_sampler = "hard_candidates"
//! plugins.params.hard_candidates.path = "hard.tsv"
//! [[plugins.grants]]
//! plugin = "hard_candidates"
//! read = ["candidates"]
//! ```

use std::collections::{BTreeMap, BTreeSet};

use pbg_plugin_sdk::{
    CandidateWeights, DistributionPart, Metadata, NegativeCandidates, NegativeSampler, Parameter,
    Parameters, RequiredData, Result, Side, export_negatives, files, log,
};

/// The sampler with its parameters.
#[derive(Clone, Debug, Default, serde::Deserialize)]
pub struct HardCandidates {
    path: String,
    fraction: f64,
    /// Lists of the file, by relation and side; `None` before it was read.
    #[serde(skip)]
    lists: Option<BTreeMap<(String, Side), Candidates>>,
    /// Relations that the host has asked about in the pass of the first question.
    #[serde(skip)]
    asked: AskedRelations,
}

/// Relations of a pass, and whether those of the file were compared with them.
#[derive(Clone, Debug, Default)]
struct AskedRelations {
    names: BTreeSet<String>,
    pass: Option<(u32, u32, u32)>,
    is_compared: bool,
}

/// Candidates of a relation and side.
#[derive(Clone, Debug, Default)]
struct Candidates {
    names: Vec<String>,
    weights: Vec<f32>,
    known: BTreeSet<String>,
}

impl NegativeSampler for HardCandidates {
    fn metadata() -> Metadata {
        Metadata::new(
            "hard_candidates",
            env!("CARGO_PKG_VERSION"),
            "Entities that a file lists for the relation and the replaced side.",
        )
        .parameter(Parameter::text(
            "path",
            "hard.tsv",
            "Path of the file, with `relation, lhs or rhs, entity, weight` per line, separated by tabs, in a folder of \
             [[plugins.grants]]. Weights may be left out.",
        ))
        .parameter(Parameter::number(
            "fraction",
            0.5,
            0.0..=1.0,
            "Fraction of the negatives that are drawn from the file. The others are drawn uniformly.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn required(&self) -> RequiredData {
        RequiredData {
            names: self.fraction > 0.0,
            ..RequiredData::default()
        }
    }

    fn distribution(&mut self, candidates: &NegativeCandidates) -> Result<Vec<DistributionPart>> {
        let lists = match &mut self.lists {
            Some(lists) => lists,
            None => self.lists.insert(read(&self.path)?),
        };
        self.asked.add(candidates, lists);
        let key = (candidates.relation_name.clone(), candidates.side);
        Ok(match lists.get(&key) {
            None => vec![DistributionPart::new(1.0, CandidateWeights::Uniform)],
            Some(list) => {
                let listed = CandidateWeights::Listed {
                    names: list.names.clone(),
                    weights: list.weights.clone(),
                };
                DistributionPart::mixed(self.fraction, listed)
            }
        })
    }
}

impl AskedRelations {
    /// Adds the relation of `candidates`. With the first one of the next pass all relations are known, and those of `lists`
    /// that are not among them are named: a name that is spelt wrongly has no other effect.
    fn add(
        &mut self,
        candidates: &NegativeCandidates,
        lists: &BTreeMap<(String, Side), Candidates>,
    ) {
        let pass = (candidates.epoch, candidates.edge_set, candidates.edge_chunk);
        if *self.pass.get_or_insert(pass) == pass {
            self.names.insert(candidates.relation_name.clone());
        } else if !self.is_compared {
            self.is_compared = true;
            let unknown = lists.keys().map(|(name, _)| name);
            let unknown: BTreeSet<&String> =
                unknown.filter(|name| !self.names.contains(*name)).collect();
            if let Some(first) = unknown.first() {
                log::warn(format!(
                    "the file lists candidates of {first:?}, but no relation of that name was trained in the first pass \
                     (such names in the file: {}); their lines have no effect",
                    unknown.len()
                ));
            }
        }
    }
}

/// Reads the file.
fn read(path: &str) -> Result<BTreeMap<(String, Side), Candidates>> {
    let text = files::read_text(path)?;
    let mut lists: BTreeMap<(String, Side), Candidates> = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.is_empty() {
            continue;
        }
        let at = |what: &str| format!("{path}, line {number}: {what}");
        let mut columns = line.split('\t');
        let (Some(relation), Some(side), Some(entity)) =
            (columns.next(), columns.next(), columns.next())
        else {
            return Err(at(
                "must be a relation, lhs or rhs, and an entity, separated by tabs",
            ));
        };
        let side = match side {
            "lhs" => Side::Lhs,
            "rhs" => Side::Rhs,
            other => return Err(at(&format!("{other:?} is not a side; must be lhs or rhs"))),
        };
        let weight = match columns.next() {
            None => 1.0,
            Some(text) => {
                let weight = text.trim().parse().ok();
                let weight = weight.filter(|weight: &f32| weight.is_finite() && *weight >= 0.0);
                weight
                    .ok_or_else(|| at(&format!("{text:?} is not a weight; must be at least 0")))?
            }
        };
        let list = lists.entry((relation.to_owned(), side)).or_default();
        if !list.known.insert(entity.to_owned()) {
            return Err(at(&format!(
                "{entity} is listed twice for this relation and side"
            )));
        }
        list.names.push(entity.to_owned());
        list.weights.push(weight);
    }
    Ok(lists)
}

export_negatives!(HardCandidates);

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str, relation: &str, side: Side) -> Result<Vec<DistributionPart>> {
        files::provide("hard.tsv", text);
        let mut sampler = HardCandidates {
            path: "hard.tsv".to_owned(),
            fraction: 0.25,
            ..HardCandidates::default()
        };
        sampler.distribution(&NegativeCandidates {
            relation_name: relation.to_owned(),
            side,
            ..NegativeCandidates::example()
        })
    }

    #[test]
    fn candidates_are_those_of_the_relation_and_side() {
        let text = "likes\trhs\tTom\t3\nlikes\trhs\tTim\nlikes\tlhs\tAnn\n\nhates\trhs\tTom\n";
        let found = parts(text, "likes", Side::Rhs).unwrap();
        let listed = CandidateWeights::Listed {
            names: vec!["Tom".to_owned(), "Tim".to_owned()],
            weights: vec![3.0, 1.0],
        };
        assert_eq!(found, DistributionPart::mixed(0.25, listed));
        let other = parts(text, "knows", Side::Rhs).unwrap();
        assert_eq!(
            other,
            [DistributionPart::new(1.0, CandidateWeights::Uniform)]
        );
    }

    /// A relation that is spelt wrongly is named with the first question of the second pass, once.
    #[test]
    fn relations_that_were_never_asked_about_are_named() {
        files::provide(
            "hard.tsv",
            "likes\trhs\tTom\n_likes\trhs\tTim\n_likes\tlhs\tAnn\n",
        );
        let mut sampler = HardCandidates {
            path: "hard.tsv".to_owned(),
            fraction: 0.25,
            ..HardCandidates::default()
        };
        let mut warnings = Vec::new();
        for epoch in [0, 0, 1, 1, 2] {
            let candidates = NegativeCandidates {
                epoch,
                ..NegativeCandidates::example()
            };
            sampler.distribution(&candidates).unwrap();
            warnings.push(log::take());
        }
        let told: Vec<usize> = warnings.iter().map(Vec::len).collect();
        assert_eq!(told, [0, 0, 1, 0, 0]);
        let (level, text) = &warnings[2][0];
        assert_eq!(*level, log::Level::Warn);
        assert!(
            text.contains("\"_likes\"") && text.contains("(such names in the file: 1)"),
            "{text}"
        );
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, reason) in [
            ("likes\trhs\n", "hard.tsv, line 1: must be a relation"),
            ("a\trhs\tb\na\ttail\tb\n", "line 2: \"tail\" is not a side"),
            ("a\trhs\tb\t-1\n", "line 1: \"-1\" is not a weight"),
            ("a\trhs\tb\na\trhs\tb\n", "line 2: b is listed twice"),
        ] {
            let error = parts(text, "a", Side::Rhs).expect_err(text);
            assert!(error.contains(reason), "{error}");
        }
    }
}
