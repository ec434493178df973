//! Tests that the documentation of keys agrees with the keys that are accepted.

use std::collections::BTreeSet;

use pbg_config::{Config, StrategyNames};
use serde_json::Value as Json;

fn parse(text: &str) -> Config {
    Config::parse(text, "default", &[]).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Returns all keys of the configuration and of its tables, from the schema.
fn all_keys() -> BTreeSet<String> {
    fn collect(schema: &Json, keys: &mut BTreeSet<String>) {
        if let Some(properties) = schema["properties"].as_object() {
            keys.extend(properties.keys().cloned());
        }
        if let Some(definitions) = schema["$defs"].as_object() {
            definitions.values().for_each(|d| collect(d, keys));
        }
    }
    let mut keys = BTreeSet::new();
    collect(&pbg_config::schema(&StrategyNames::default()), &mut keys);
    assert!(keys.len() > 40, "{keys:?}");
    keys
}

#[test]
fn the_commented_file_is_the_defaults() {
    let least = r#"
        dataset = "data"
        checkpoint_path = "model"
        dimension = 100
        entities.entity = { num_partitions = 1 }
        relations = [{ name = "*", lhs = "entity", rhs = "entity" }]
    "#;
    assert_eq!(
        parse(&pbg_config::default_toml(&StrategyNames::default())),
        parse(least)
    );
    assert_eq!(
        parse(&pbg_config::default_toml(&StrategyNames::default())).warnings(),
        Vec::<String>::new()
    );
}

#[test]
fn the_commented_file_has_every_key_and_its_samples_are_valid() {
    let text = pbg_config::default_toml(&StrategyNames::default());
    let is_key = |line: &str| {
        let name = line.split(" = ").next().unwrap_or_default();
        line.contains(" = ")
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let uncommented: String = text
        .lines()
        .map(|line| {
            line.strip_prefix("# ")
                .filter(|l| is_key(l) || l.starts_with("[["))
                .unwrap_or(line)
        })
        .map(|line| format!("{line}\n"))
        .collect();
    let samples = parse(&uncommented);
    assert_eq!((samples.workers, samples.max_norm), (Some(4), Some(1.0)));
    let written: BTreeSet<_> = uncommented
        .lines()
        .filter(|line| is_key(line))
        .filter_map(|line| line.split(" = ").next())
        .map(str::to_owned)
        .collect();
    let tables = [
        "entities",
        "relations",
        "formulas",
        "execution",
        "distributed",
        "lr_schedule",
        "validation",
        "plugins",
        "params",
        "limits",
        "grants",
        "pins",
    ]
    .map(str::to_owned);
    let expected = all_keys()
        .difference(&BTreeSet::from(tables))
        .cloned()
        .collect();
    assert_eq!(written, expected);
}

#[test]
fn the_schema_bounds_every_number() {
    let schema = pbg_config::schema(&StrategyNames::default());
    let mut unbounded = Vec::new();
    let definitions = schema["$defs"].as_object().unwrap().values();
    for record in definitions.chain([&schema]) {
        for (key, property) in record["properties"].as_object().into_iter().flatten() {
            assert!(
                property["description"].is_string() || property["$ref"].is_string(),
                "{key}"
            );
            let bounded = |ends: [&str; 2]| ends.iter().any(|e| property[*e].is_number());
            match property["type"].as_str() {
                Some("integer") if !(bounded(["minimum"; 2]) && bounded(["maximum"; 2])) => {
                    unbounded.push(key.clone());
                }
                Some("number") if !bounded(["minimum", "exclusiveMinimum"]) => {
                    unbounded.push(key.clone());
                }
                _ => {}
            }
        }
    }
    assert_eq!(unbounded, ["margin"]);
    assert_eq!(schema["properties"]["lr"]["default"], 0.01);
    assert_eq!(schema["properties"]["max_norm"]["type"], "number");
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["entities"]["minProperties"], 1);
}

#[test]
fn every_key_is_in_the_reference() {
    let reference = pbg_config::reference(&StrategyNames::default());
    for key in all_keys() {
        assert!(reference.contains(&key), "{key}");
    }
}

#[test]
fn every_key_is_compared_with_pbg() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/pbg-keys.md");
    let text = std::fs::read_to_string(path).unwrap();
    for key in all_keys() {
        assert!(
            text.contains(&format!("`{key}`")),
            "docs/pbg-keys.md lacks `{key}`"
        );
    }
}
