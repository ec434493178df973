//! Suggestions for unknown names of keys and options.

use pbg_core::nearest::{nearest, snake_case};

use super::spec::{KeySpec, Spec, ValueType, root};

const TRANSFERS: &str =
    "a transfer to a partition server has up to four parts of 8 MiB in flight; remove the key";

/// Keys of PBG that have another name here, or none, with advice.
pub(super) const PBG_KEYS: &[(&str, &str)] = &[
    (
        "entity_path",
        "use `dataset`, the folder that `pbg-host import` makes",
    ),
    (
        "edge_paths",
        "use `edge_sets`, the names of edge sets of the dataset instead of folders",
    ),
    ("background_io", "it has no effect in PBG either; remove it"),
    ("verbose", "remove it and use the option `--verbose`"),
    ("hogwild_delay", "workers start together; remove it"),
    ("num_groups_for_partition_server", TRANSFERS),
    ("num_groups_per_sharded_partition_server", TRANSFERS),
    ("partition_shard_size", TRANSFERS),
    (
        "num_gpus",
        "use `execution.device`, `cuda:0` for the first GPU",
    ),
    ("half_precision", "use `execution.precision`, `bf16`"),
];

/// Returns the question whether `near` was meant, to append to a message; empty without it.
pub(super) fn did_you_mean(near: Option<impl std::fmt::Display>) -> String {
    near.map_or(String::new(), |near| format!("; did you mean `{near}`?"))
}

/// Returns advice on the unknown key `key` of a table with the keys `fields`, to append to a message.
pub(super) fn for_key(key: &str, fields: &[KeySpec]) -> String {
    let snake = snake_case(key);
    if let Some((_, advice)) = PBG_KEYS.iter().find(|(name, _)| *name == snake) {
        return format!(": it is a key of PBG; {advice}");
    }
    // A missing or surplus `s` is more likely than a key of another table.
    let plural = |f: &&KeySpec| {
        f.key.strip_suffix('s') == Some(&snake) || snake.strip_suffix('s') == Some(&f.key)
    };
    if let Some(near) = fields.iter().find(plural) {
        return did_you_mean(Some(&near.key));
    }
    if let Some(home) = table_with_key(&snake, root(), "the top level", fields) {
        return format!("; `{snake}` is a key of {home}");
    }
    if let Some(near) = nearest(key, fields.iter().map(|f| f.key.as_str())) {
        return did_you_mean(Some(near));
    }
    let mut everywhere = Vec::new();
    keys(root(), &mut everywhere);
    let near = nearest(key, everywhere.into_iter());
    match near.and_then(|near| Some((near, table_with_key(near, root(), "the top level", fields)?)))
    {
        Some((near, home)) => format!("; did you mean `{near}`, a key of {home}?"),
        None => String::new(),
    }
}

/// Returns the path of the key, as for `--set`, that an unknown option `--name` probably means: the key of that name,
/// the only key that ends with it, or the most similar key.
#[must_use]
pub fn key_named(name: &str) -> Option<String> {
    let snake = snake_case(name);
    let mut paths = Vec::new();
    settable(root(), "", &mut paths);
    let last = |path: &str| path.rsplit('.').next().unwrap_or(path).to_owned();
    if let Some(path) = paths.iter().find(|path| last(path) == snake) {
        return Some(path.clone());
    }
    let end = format!("_{snake}");
    let mut ends = paths.iter().filter(|path| path.ends_with(&end));
    if let (Some(path), None) = (ends.next(), ends.next()) {
        return Some(path.clone());
    }
    let names: Vec<String> = paths.iter().map(|path| last(path)).collect();
    let near = nearest(&snake, names.iter().map(String::as_str))?;
    let at = names.iter().position(|name| name == near)?;
    paths.into_iter().nth(at)
}

/// Collects the paths of all keys that are not within maps or lists.
fn settable(spec: &Spec, above: &str, into: &mut Vec<String>) {
    let ValueType::Record(fields) = &spec.kind else {
        return;
    };
    for field in fields {
        let path = format!("{above}{}", field.key);
        match field.spec.kind {
            ValueType::Record(_) => settable(&field.spec, &format!("{path}."), into),
            _ => into.push(path),
        }
    }
}

/// Returns the description of the table that has the key `key`, other than the table with the keys `not`.
fn table_with_key(key: &str, spec: &Spec, name: &str, not: &[KeySpec]) -> Option<String> {
    match &spec.kind {
        ValueType::Record(fields) => {
            if fields != not && fields.iter().any(|f| f.key == key) {
                return Some(name.to_owned());
            }
            fields
                .iter()
                .find_map(|f| table_with_key(key, &f.spec, &format!("`{}`", f.key), not))
        }
        ValueType::List { item, .. } | ValueType::Map { item, .. } => {
            table_with_key(key, item, &format!("the entries of {name}"), not)
        }
        _ => None,
    }
}

/// Collects the keys of a table and of all tables within it.
fn keys<'a>(spec: &'a Spec, into: &mut Vec<&'a str>) {
    match &spec.kind {
        ValueType::Record(fields) => {
            for field in fields {
                into.push(&field.key);
                keys(&field.spec, into);
            }
        }
        ValueType::List { item, .. } | ValueType::Map { item, .. } => keys(item, into),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_elsewhere_is_sent_home() {
        assert_eq!(
            for_key("operator", root().fields()),
            "; `operator` is a key of the entries of `relations`"
        );
        assert_eq!(
            for_key("precison", root().fields()),
            "; did you mean `precision`, a key of `execution`?"
        );
        assert_eq!(for_key("colour", root().fields()), "");
    }

    #[test]
    fn an_option_that_is_a_key_is_known() {
        for (name, key) in [
            ("lr", "lr"),
            ("num-epochs", "num_epochs"),
            ("machines", "num_machines"),
            ("epochs", "num_epochs"),
            ("device", "execution.device"),
            ("dimenson", "dimension"),
        ] {
            assert_eq!(key_named(name).as_deref(), Some(key));
        }
        assert_eq!(key_named("colour"), None);
        assert_eq!(key_named(""), None);
    }

    #[test]
    fn keys_of_pbg_are_explained() {
        assert!(for_key("entityPath", root().fields()).contains("use `dataset`"));
        assert!(for_key("num_gpus", root().fields()).contains("execution.device"));
    }

    #[test]
    fn keys_of_pbg_are_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/pbg-keys.md");
        let text = std::fs::read_to_string(path).unwrap();
        for (key, _) in PBG_KEYS {
            assert!(
                text.contains(&format!("| `{key}` |")),
                "docs/pbg-keys.md lacks `{key}`"
            );
        }
    }
}
