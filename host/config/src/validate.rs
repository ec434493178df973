//! Rules that involve several keys, beyond the types and ranges of single keys.

use std::collections::{BTreeMap, BTreeSet};

use super::key_path::KeyPath;
use super::node::excerpt;
use super::suggest::did_you_mean;
use super::{Config, RelationConfig, StrategyNames};
use pbg_core::graph::Side;
use pbg_core::model::Operator;
use pbg_core::nearest::nearest;

mod comparators;
mod distributed;
mod execution;
mod lr_schedule;
mod negatives;
mod operators;
mod relation_prediction;
mod strategies;
mod validation;

/// Maximum length in bytes of names that become parts of file names, which most systems limit to 255 bytes.
const LONGEST_NAME: usize = 200;

/// Broken rule.
#[derive(Debug)]
pub(super) struct BrokenRule {
    /// The keys involved; the problem is reported at the first.
    pub(super) concerns: Vec<KeyPath>,
    pub(super) message: String,
}

/// Returns all rules that `config` breaks. Names of strategies are checked only if `installed` is given.
pub(super) fn complaints(config: &Config, installed: Option<&StrategyNames>) -> Vec<BrokenRule> {
    let mut rules = Validator {
        config,
        broken: Vec::new(),
    };
    rules.names();
    rules.relation_names();
    rules.sides();
    rules.dynamic_relations();
    rules.partitions();
    rules.featurized();
    rules.own_vectors();
    rules.dimensions();
    rules.operators();
    rules.comparator(installed);
    rules.regularizer();
    rules.optimizer();
    rules.relation_prediction();
    rules.enumerable();
    rules.negatives();
    rules.evaluation_negatives();
    rules.batches();
    rules.pins();
    if let Some(installed) = installed {
        rules.strategies(installed);
        rules.lr_decay(installed);
    }
    rules.validation();
    rules.lr_schedule();
    rules.execution();
    rules.distributed();
    rules.broken
}

impl Config {
    /// Returns warnings about settings that are valid but probably unintended.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for name in self.entities.keys() {
            let mut relations = self.relations.iter();
            if !relations.any(|r| r.lhs == *name || r.rhs == *name) {
                warnings.push(format!(
                    "{}: no relation has this type on either side; its embeddings keep their initial values",
                    KeyPath::from(["entities", name])
                ));
            }
        }
        let mut sets = BTreeSet::new();
        for name in self.edge_sets.iter().filter(|name| !sets.insert(*name)) {
            warnings.push(format!(
                "edge_sets: {name:?} occurs twice, so it is trained twice per epoch"
            ));
        }
        let drawn = |relation: &RelationConfig| {
            let operator = Operator::built_in(&relation.operator);
            operator.is_some_and(|operator| operator != Operator::None)
        };
        if self.operator_init_scale.is_some() && !self.relations.iter().any(drawn) {
            warnings.push(
                "operator_init_scale: no relation has an operator that it applies to: `none` has no \
                 parameters, and operators of plugins define their own initial values"
                    .to_owned(),
            );
        }
        warnings.extend(lr_schedule::warnings(self));
        warnings
    }
}

/// Returns the path of `key` in entry `index` of `relations`.
fn of_relation(index: usize, key: &str) -> KeyPath {
    KeyPath::from(["relations", &index.to_string(), key])
}

fn of_entity(name: &str, key: &str) -> KeyPath {
    KeyPath::from(["entities", name, key])
}

fn top(key: &str) -> KeyPath {
    KeyPath::from([key])
}

fn side_key(side: Side) -> &'static str {
    match side {
        Side::Lhs => "lhs",
        Side::Rhs => "rhs",
    }
}

fn side_of(relation: &RelationConfig, side: Side) -> &str {
    match side {
        Side::Lhs => &relation.lhs,
        Side::Rhs => &relation.rhs,
    }
}

struct Validator<'a> {
    config: &'a Config,
    broken: Vec<BrokenRule>,
}

impl<'a> Validator<'a> {
    fn report(&mut self, concerns: impl Into<Vec<KeyPath>>, message: impl Into<String>) {
        self.broken.push(BrokenRule {
            concerns: concerns.into(),
            message: message.into(),
        });
    }

    fn relations(&self) -> impl Iterator<Item = (usize, &'a RelationConfig)> + use<'a> {
        self.config.relations.iter().enumerate()
    }

    /// Checks the names of entity types and edge sets, which become file names.
    fn names(&mut self) {
        for name in self.config.entities.keys() {
            if let Some(reason) = unfit_for_a_file(name) {
                self.report(
                    [KeyPath::from(["entities", name])],
                    format!("the name {reason}"),
                );
            }
        }
        for (i, name) in self.config.edge_sets.iter().enumerate() {
            if let Some(reason) = unfit_for_a_file(name) {
                self.report([KeyPath::from(["edge_sets", &i.to_string()])], reason);
            }
        }
    }

    /// Checks the names of relations. They are not used as file names, so they may contain path separators, as
    /// Freebase's do.
    fn relation_names(&mut self) {
        let mut first = BTreeMap::new();
        for (i, relation) in self.relations() {
            let path = of_relation(i, "name");
            if relation.name.chars().any(char::is_control) {
                self.report([path.clone()], "must not contain control characters");
            }
            if let Some(earlier) = first.insert(&relation.name, i) {
                let name = excerpt(&relation.name);
                self.report(
                    [path.clone(), of_relation(earlier, "name")],
                    format!("{name} is also the name of relations.{earlier}; names must be unique"),
                );
            }
            if relation.name == "*" && self.config.dynamic_relations {
                self.report(
                    [path, top("dynamic_relations")],
                    "`*` stands for the relations without an entry, but with `dynamic_relations` the \
                     one entry is the template of all relations; give it any other name",
                );
            }
        }
    }

    fn sides(&mut self) {
        for (i, relation) in self.relations() {
            for side in Side::BOTH {
                let name = side_of(relation, side);
                if self.config.entities.contains_key(name) {
                    continue;
                }
                let known = || self.config.entities.keys().map(String::as_str);
                let advice = match nearest(name, known()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!(
                        "known types are {}",
                        known().take(20).collect::<Vec<_>>().join(", ")
                    ),
                };
                self.report(
                    [of_relation(i, side_key(side)), top("entities")],
                    format!(
                        "{} is not an entity type of `entities`; {advice}",
                        excerpt(name)
                    ),
                );
            }
        }
    }

    fn dynamic_relations(&mut self) {
        if !self.config.dynamic_relations {
            return;
        }
        let count = self.config.relations.len();
        if count > 1 {
            self.report(
                [top("dynamic_relations"), top("relations")],
                format!(
                    "needs exactly one entry in `relations`, the template of all relations; there are {count}"
                ),
            );
        }
        if self.config.global_emb == Some(true) {
            self.report(
                [top("global_emb"), top("dynamic_relations")],
                "must not be true with `dynamic_relations`; remove it or set it to false",
            );
        }
    }

    /// Checks that all partitioned types of a side have equally many partitions, since a bucket is one partition per
    /// side.
    fn partitions(&mut self) {
        for side in Side::BOTH {
            let mut partitioned = self
                .config
                .relations
                .iter()
                .map(|r| side_of(r, side))
                .filter_map(|name| Some((name, self.config.entities.get(name)?.num_partitions)))
                .filter(|&(_, count)| count > 1)
                .collect::<BTreeSet<_>>()
                .into_iter();
            let Some((first, expected)) = partitioned.next() else {
                continue;
            };
            let (key, first_path) = (side_key(side), of_entity(first, "num_partitions"));
            for (name, count) in partitioned.filter(|&(_, count)| count != expected) {
                self.report(
                    [
                        of_entity(name, "num_partitions"),
                        first_path.clone(),
                        top("relations"),
                    ],
                    format!(
                        "is {count}, but `{first}`, which is also on the {key} of relations, has \
                         {expected}: entity types of a side must have equally many partitions (or 1)"
                    ),
                );
            }
        }
    }

    fn featurized(&mut self) {
        for (name, entity) in &self.config.entities {
            if entity.featurized && entity.num_partitions > 1 {
                self.report(
                    [of_entity(name, "num_partitions"), of_entity(name, "featurized")],
                    "must be 1 for featurized types, since every partition would need the whole table of features",
                );
            }
        }
    }

    fn own_vectors(&mut self) {
        for (name, entity) in &self.config.entities {
            if entity.init_names.is_some() && entity.init.is_none() {
                self.report(
                    [of_entity(name, "init_names"), of_entity(name, "init")],
                    "names the vectors of `init`, which is not set; set it to their file, or remove this key",
                );
            }
        }
    }

    fn dimension(&self, entity: &str) -> Option<u32> {
        let exists = self.config.entities.contains_key(entity);
        exists.then(|| self.config.entity_dimension(entity))
    }

    fn dimensions(&mut self) {
        for (i, relation) in self.relations() {
            let (lhs, rhs) = (&relation.lhs, &relation.rhs);
            if let (Some(l), Some(r)) = (self.dimension(lhs), self.dimension(rhs))
                && l != r
            {
                self.report(
                    [
                        KeyPath::from(["relations", &i.to_string()]),
                        of_entity(lhs, "dimension"),
                        of_entity(rhs, "dimension"),
                        top("dimension"),
                    ],
                    format!(
                        "both sides must have the same dimension; `{lhs}` has {l}, `{rhs}` has {r}"
                    ),
                );
            }
        }
        for name in self.config.entities.keys().filter(|_| self.config.bias) {
            if self.dimension(name) == Some(1) {
                self.report(
                    [top("bias"), of_entity(name, "dimension"), top("dimension")],
                    format!("uses the first coordinate, and `{name}` has only one; set `dimension` to at least 2"),
                );
            }
        }
    }

    fn pins(&mut self) {
        for (index, pin) in self.config.plugins.pins.iter().enumerate() {
            let digits = pin.sha256.chars().all(|c| c.is_ascii_hexdigit());
            if pin.sha256.len() != 64 || !digits {
                let path = KeyPath::from(["plugins", "pins"])
                    .join(index)
                    .join("sha256");
                self.report([path], "must be 64 hexadecimal digits");
            }
        }
    }
}

fn unfit_for_a_file(name: &str) -> Option<String> {
    let reason = if name.is_empty() {
        "must not be empty"
    } else if name.len() > LONGEST_NAME {
        let len = name.len();
        return Some(format!("must have at most {LONGEST_NAME} bytes, has {len}"));
    } else if name.contains(['/', '\\']) || name.chars().any(char::is_control) {
        "becomes a file name, so it must not contain path separators or control characters"
    } else if matches!(name, "." | "..") {
        "becomes a file name, so it must not be `.` or `..`"
    } else {
        return None;
    };
    Some(reason.to_owned())
}
