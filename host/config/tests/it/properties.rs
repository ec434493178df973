//! Properties of configurations: valid ones survive conversion to text, and problems name their key.

use std::collections::BTreeMap;

use pbg_config::{Config, EntityConfig, RelationConfig, StrategyNames};
use pbg_core::model::{Comparator, Operator};
use proptest::prelude::*;

fn base() -> Config {
    Config::parse(
        &pbg_config::default_toml(&StrategyNames::default()),
        "default",
        &[],
    )
    .unwrap()
}

fn positive() -> impl Strategy<Value = f32> {
    prop::num::f32::POSITIVE | prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL
}

fn entity() -> impl Strategy<Value = EntityConfig> {
    (
        prop_oneof![Just(1), Just(4)],
        any::<bool>(),
        prop_oneof![9 => Just(None), 1 => Just(Some(6))],
        (prop::option::of(".{1,9}"), any::<bool>()),
    )
        .prop_map(
            |(num_partitions, featurized, dimension, (init, frozen))| EntityConfig {
                init_names: init.clone().filter(|_| frozen),
                init,
                frozen,
                num_partitions,
                featurized: featurized && num_partitions == 1,
                dimension,
            },
        )
}

prop_compose! {
    fn relation(types: Vec<String>)(
        name in "[a-zA-Z*./\\\\ \"'\u{e9}]{1,6}",
        lhs in prop::sample::select(types.clone()),
        rhs in prop::sample::select(types),
        weight in positive(),
        operator in prop::sample::select(&Operator::BUILT_IN).prop_map(|op| op.name().to_owned()),
        all_negs in any::<bool>(),
    ) -> RelationConfig {
        RelationConfig { name, lhs, rhs, weight, operator, all_negs }
    }
}

fn graph() -> impl Strategy<Value = (BTreeMap<String, EntityConfig>, Vec<RelationConfig>)> {
    prop::collection::btree_map("[^/\\\\\\p{C}]{1,8}", entity(), 1..3).prop_flat_map(|entities| {
        let types = entities.keys().cloned().collect();
        (Just(entities), prop::collection::vec(relation(types), 1..3))
    })
}

prop_compose! {
    fn parameters()(
        number in prop::num::f64::NORMAL,
        text in any::<String>(),
        integer in any::<i64>(),
        name in any::<String>(),
    ) -> BTreeMap<String, BTreeMap<String, serde_json::Value>> {
        let value = serde_json::json!({ "n": number, "t": [text, integer, true] });
        BTreeMap::from([(name.clone(), BTreeMap::from([(name, value)]))])
    }
}

prop_compose! {
    /// Generates configurations of all kinds, many of them valid.
    fn configuration()(
        (entities, relations) in graph(),
        params in parameters(),
        (dataset, checkpoint_path) in (".{1,9}", ".{1,9}"),
        init_path in prop::option::of(".{1,9}"),
        (lr, margin, init_scale) in (positive(), prop::option::of(prop::num::f32::NORMAL), positive()),
        (max_norm, relation_lr) in (prop::option::of(positive()), prop::option::of(positive())),
        (seed, workers, epochs) in (0..=i64::MAX as u64, prop::option::of(1..9_u32), 0..9_u32),
        (chunk, uniform, batch) in (0..9_u32, 0..9_u32, 1..9_u32),
        (dynamic, bias, global_emb) in any::<(bool, bool, Option<bool>)>(),
        comparator in prop::sample::select(&Comparator::BUILT_IN),
        eval_fraction in 0.0..1.0_f64,
    ) -> Config {
        let dynamic = dynamic && relations.len() == 1;
        let global_emb = global_emb.map(|on| on && !dynamic);
        Config {
            dataset, checkpoint_path, init_path, entities, relations, lr, margin, init_scale,
            max_norm, relation_lr, seed, workers, bias, global_emb, eval_fraction,
            comparator: comparator.name().to_owned(),
            dimension: 8,
            num_epochs: epochs,
            num_batch_negs: chunk,
            num_uniform_negs: uniform,
            batch_size: batch * chunk.max(1),
            dynamic_relations: dynamic,
            plugins: pbg_config::PluginsConfig { params, ..base().plugins },
            ..base()
        }
    }
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

/// Returns the paths of all keys with a value, and of some unset keys.
fn paths() -> Vec<String> {
    fn collect(value: &toml::Value, path: &str, paths: &mut Vec<String>) {
        let below = |key: &str| match path {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        match value {
            toml::Value::Table(entries) => {
                entries
                    .iter()
                    .for_each(|(key, value)| collect(value, &below(key), paths));
            }
            toml::Value::Array(items) => items
                .iter()
                .enumerate()
                .for_each(|(i, value)| collect(value, &below(&i.to_string()), paths)),
            _ => {}
        }
        paths.extend(Some(path.to_owned()).filter(|p| !p.is_empty()));
    }
    let text = base().to_toml().unwrap();
    let mut paths = Vec::new();
    collect(&toml::Value::Table(text.parse().unwrap()), "", &mut paths);
    for unset in [
        "max_norm",
        "init_path",
        "workers",
        "entities.entity.dimension",
    ] {
        paths.push(unset.to_owned());
    }
    paths
}

fn mutant() -> impl Strategy<Value = String> {
    const ODD: [&str; 18] = [
        "nan",
        "-inf",
        "-1",
        "0",
        "1",
        "7",
        "1e400",
        "99999999999999999999",
        "[]",
        "[[1]]",
        "{}",
        "{ a = 1 }",
        "true",
        "'x'",
        "''",
        "1979-05-27",
        "none",
        "[1, 'a', {}]",
    ];
    prop_oneof![
        prop::sample::select(&ODD).prop_map(str::to_owned),
        any::<String>()
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_valid_survives_text(config in configuration()) {
        prop_assume!(config.check().is_ok());
        let text = config.to_toml().unwrap();
        let again = Config::parse(&text, "again", &[]);
        prop_assert_eq!(again.as_ref(), Ok(&config), "{}", text);
        prop_assert_eq!(again.unwrap().training_hash(), config.training_hash());
    }

    #[test]
    fn equal_hashes_are_no_differences(a in configuration(), b in configuration()) {
        let same = a.training_hash() == b.training_hash();
        prop_assert_eq!(a.training_differences(&b).is_empty(), same);
        prop_assert!(a.training_differences(&a).is_empty());
    }

    #[test]
    fn a_wrong_value_is_named(path in prop::sample::select(paths()), value in mutant()) {
        if let Err(errors) = Config::parse(&pbg_config::default_toml(&StrategyNames::default()), "x", &[pair(&path, &value)]) {
            let key = path.rsplit('.').next().unwrap();
            let named = errors.problems().iter().any(|problem| {
                let at = problem.path();
                let related = path.starts_with(at) || at.starts_with(&path);
                (related && !at.is_empty()) || problem.message().contains(&format!("`{key}`"))
            });
            prop_assert!(named, "{path}={value}: {errors}");
        }
    }

    #[test]
    fn an_unknown_key_is_named(
        path in prop::sample::select(paths()),
        letter in prop::sample::select(&['x', 'q', '_']),
        at in any::<prop::sample::Index>(),
    ) {
        let start = path.rfind('.').map_or(0, |dot| dot + 1);
        let mut changed = path.clone();
        changed.insert(start + at.index(path.len() - start + 1), letter);
        let outcome = Config::parse(&pbg_config::default_toml(&StrategyNames::default()), "x", &[pair(&changed, "1")]);
        let names_are_free = path == "entities.entity" || path.starts_with("edge_sets.");
        if !names_are_free {
            let key = changed.rsplit('.').next().unwrap();
            prop_assert!(outcome.unwrap_err().to_string().contains(key), "{changed}");
        }
    }

    #[test]
    fn any_change_of_the_text_is_read_or_refused(
        at in any::<prop::sample::Index>(),
        length in 0..20_usize,
        insert in ".{0,8}",
    ) {
        let text = base().to_toml().unwrap();
        let start = at.index(text.len());
        let end = (start + length).min(text.len());
        let changed = format!("{}{insert}{}", &text[..start], &text[end..]);
        if let Err(errors) = Config::parse(&changed, "x", &[]) {
            prop_assert!(!errors.problems().is_empty());
        }
    }

    #[test]
    fn any_override_is_read_or_refused(key in any::<String>(), value in any::<String>()) {
        let _ = Config::parse(&pbg_config::default_toml(&StrategyNames::default()), "x", &[pair(&key, &value)]);
    }
}
