//! Values for unset keys, taken from the configuration of a trained model.

use super::node::{ConfigNode, TomlValue};
use super::resume_keys::{MODEL, MODEL_OF_RELATIONS};

/// Copies the keys that define the meaning of embeddings, and `seed`, from `trained` to `tree`, where `tree` does not
/// set them. An entry of `relations` takes them from the entry of the same name.
pub(super) fn inherit(tree: &mut ConfigNode, trained: &ConfigNode) {
    for key in MODEL.into_iter().chain(["seed"]) {
        fill(tree, trained, key);
    }
    let (Some(own), Some(known)) = (relations(tree), table(trained).get("relations")) else {
        return;
    };
    let known = match &known.value {
        TomlValue::List(known) => known.as_slice(),
        _ => &[],
    };
    for relation in own {
        let name = table(relation).get("name").map(|node| node.value.clone());
        let same =
            |other: &&ConfigNode| table(other).get("name").map(|n| &n.value) == name.as_ref();
        if let Some(known) = known.iter().find(same) {
            for key in MODEL_OF_RELATIONS {
                fill(relation, known, key);
            }
        }
    }
}

/// Copies the value at `key` from `from` to `node` if `node` does not set it; tables are merged entry by entry.
fn fill(node: &mut ConfigNode, from: &ConfigNode, key: &str) {
    let Some(value) = table(from).get(key) else {
        return;
    };
    let TomlValue::Table(entries) = &mut node.value else {
        return;
    };
    match entries.get_mut(key) {
        None => drop(entries.insert(key.to_owned(), value.clone())),
        Some(own) => {
            let keys: Vec<String> = table(value).keys().cloned().collect();
            keys.iter().for_each(|key| fill(own, value, key));
        }
    }
}

fn relations(tree: &mut ConfigNode) -> Option<&mut Vec<ConfigNode>> {
    let TomlValue::Table(entries) = &mut tree.value else {
        return None;
    };
    match &mut entries.get_mut("relations")?.value {
        TomlValue::List(items) => Some(items),
        _ => None,
    }
}

fn table(node: &ConfigNode) -> &std::collections::BTreeMap<String, ConfigNode> {
    static NONE: std::collections::BTreeMap<String, ConfigNode> = std::collections::BTreeMap::new();
    match &node.value {
        TomlValue::Table(entries) => entries,
        _ => &NONE,
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Config, DEFAULT_LOSS, DEFAULT_NEGATIVES, DEFAULT_ORDER, DEFAULT_SAMPLER, StrategyNames,
    };

    /// Returns the strategies that the configuration names by default.
    fn installed() -> StrategyNames {
        let named = |name: &str| vec![name.to_owned()];
        StrategyNames {
            orders: named(DEFAULT_ORDER),
            samplers: named(DEFAULT_SAMPLER),
            negatives: named(DEFAULT_NEGATIVES),
            losses: named(DEFAULT_LOSS),
            operators: Vec::new(),
            comparators: Vec::new(),
            schedules: Vec::new(),
            files: Vec::new(),
        }
    }

    const TEXT: &str = r#"
        dataset = "data"
        checkpoint_path = "model"
        dimension = 8
        entities.user.num_partitions = 1
        relations = [{ name = "follows", lhs = "user", rhs = "user" }]
    "#;

    fn set(changes: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        changes.iter().map(owned).collect()
    }

    #[test]
    fn what_is_left_open_is_as_it_was_trained() {
        let trained = set(&[
            ("comparator", "dot"),
            ("relations.0.operator", "diagonal"),
            ("entities.user.dimension", "6"),
            ("lr", "0.5"),
            ("seed", "3"),
        ]);
        let trained = Config::parse(TEXT, "test", &trained).unwrap();
        let read = Config::parse_for(&trained, TEXT, "test", &[], &installed()).unwrap();
        assert_eq!(read.comparator, "dot");
        assert_eq!(read.relations[0].operator, "diagonal");
        assert_eq!((read.entity_dimension("user"), read.seed), (6, 3));
        assert_eq!(read.model_differences(&trained), [""; 0]);
        assert!(read.lr < 0.1, "how it was trained is not read");
    }

    #[test]
    fn what_is_set_stays() {
        let trained = Config::parse(TEXT, "test", &set(&[("comparator", "dot")])).unwrap();
        let other = set(&[("comparator", "cos")]);
        let read = Config::parse_for(&trained, TEXT, "test", &other, &installed()).unwrap();
        assert_eq!(
            read.model_differences(&trained),
            [r#"comparator: "cos", not "dot""#]
        );
    }
}
