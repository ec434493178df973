//! Documentation of the keys: the JSON schema for editors, and a commented default file.

use pbg_core::lr_schedule::LrDecay;
use pbg_core::model::Comparator;
use serde_json::Value as Json;

use super::StrategyNames;
use super::installed::LR_DECAY;
use super::sections::{SECTIONS, Section};
use super::spec::{self, KeySpec, Spec, ValueType};

/// Sample values in the commented file for keys without a default. Optional keys are commented out.
const SAMPLES: &[(&str, &str)] = &[
    ("dataset", "\"data\""),
    ("checkpoint_path", "\"model\""),
    ("checkpoint_interval", "600.0"),
    ("checkpoint_preservation_interval", "10"),
    ("init_path", "\"earlier_model\""),
    ("dimension", "100"),
    ("global_emb", "true"),
    ("margin", "0.1"),
    ("max_norm", "1.0"),
    ("relation_lr", "0.01"),
    ("num_edge_chunks", "1"),
    ("workers", "4"),
    ("plugins.grants.*.plugin", "\"from_file\""),
    ("plugins.grants.*.read", "[\"orders\"]"),
    ("plugins.pins.*.plugin", "\"from_file\""),
    (
        "plugins.pins.*.sha256",
        "\"0000000000000000000000000000000000000000000000000000000000000000\"",
    ),
    ("chunk_size", "50"),
    ("operator_init_scale", "0.001"),
    ("distributed_init_method", "\"file:///shared/rendezvous\""),
    ("distributed.ahead", "true"),
    ("distributed.nats_server", "\"/usr/bin/nats-server\""),
    ("distributed.credentials", "\"run.creds\""),
    ("distributed.authority", "\"keys/authority.pem\""),
    ("distributed.certificate", "\"keys/trainer.pem\""),
    ("distributed.key", "\"keys/trainer-key.pem\""),
    ("execution.partitions_ahead", "1"),
    ("execution.buckets_ahead", "2"),
    ("execution.batches_ahead", "2"),
    ("execution.slice_bytes", "524288"),
    ("execution.read_mbps", "400.0"),
    ("execution.write_mbps", "400.0"),
    ("lr_schedule.decay_epochs", "10"),
    ("validation.edges", "\"valid\""),
    ("validation.filter", "[\"train\", \"valid\"]"),
    ("validation.limit", "10000"),
    ("validation.candidates", "10000"),
    ("validation.early_stop", "5"),
    ("validation.lr_decay", "0.5"),
    ("entities.*.num_partitions", "1"),
    ("entities.*.dimension", "100"),
    ("entities.*.init", "\"texts.npy\""),
    ("entities.*.init_names", "\"texts.names.txt\""),
    ("relations.*.name", "\"*\""),
    ("relations.*.lhs", "\"entity\""),
    ("relations.*.rhs", "\"entity\""),
];

/// Returns the JSON schema of the configuration, for editors that complete and check TOML.
///
/// It has three annotations beyond the standard: `x-unset` is the meaning of leaving a key unset that has no default,
/// `x-rule` describes rules that involve other keys, and `x-standard` lists the strategies that come with the program.
#[must_use]
pub fn schema(installed: &StrategyNames) -> Json {
    let mut schema = spec::raw_schema();
    let keys = schema["properties"].as_object_mut();
    for (key, property) in keys.into_iter().flatten() {
        let names = installed.standard(key);
        if !names.is_empty() {
            let description = property["description"].as_str().unwrap_or_default();
            property["description"] = installed.describe(key, description).into();
            property["x-standard"] = names.into();
        }
    }
    let operators = installed.standard("operator");
    if !operators.is_empty() {
        let property = &mut schema["$defs"]["RelationConfig"]["properties"]["operator"];
        let description = property["description"].as_str().unwrap_or_default();
        property["description"] = installed.describe("operator", description).into();
        property["x-standard"] = operators.into();
    }
    let comparators = Comparator::BUILT_IN.iter().map(Comparator::name);
    let plugins = installed.standard("comparator").iter().map(String::as_str);
    schema["properties"]["comparator"]["x-standard"] = comparators.chain(plugins).collect();
    let courses = LrDecay::BUILT_IN.iter().map(|decay| decay.name());
    let plugins = installed.standard(LR_DECAY).iter().map(String::as_str);
    let property = &mut schema["$defs"]["LrScheduleConfig"]["properties"]["decay"];
    let description = property["description"].as_str().unwrap_or_default();
    property["description"] = installed.describe(LR_DECAY, description).into();
    property["x-standard"] = courses.chain(plugins).collect();
    schema["title"] = Json::from("pbg-host configuration");
    without_null(&mut schema);
    schema
}

/// Removes null from types and defaults: TOML has no null, and unset keys are left out instead.
fn without_null(schema: &mut Json) {
    match schema {
        Json::Object(entries) => {
            if entries.get("default").is_some_and(Json::is_null) {
                entries.remove("default");
            }
            if let Some(Json::Array(types)) = entries.get_mut("type") {
                types.retain(|t| t != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    entries.insert("type".to_owned(), only);
                }
            }
            entries.iter_mut().for_each(|(_, v)| without_null(v));
        }
        Json::Array(items) => items.iter_mut().for_each(without_null),
        _ => {}
    }
}

/// Returns a TOML configuration with every key at its default and a comment for each key. Keys without a default have a
/// sample value, which is commented out if the key is optional.
#[must_use]
pub fn default_toml(installed: &StrategyNames) -> String {
    let mut out = String::from(
        "# Configuration of pbg-host: all keys, with their defaults where they have one.\n\
         # Only `dataset`, `checkpoint_path`, `dimension`, `entities` and `relations` are required.\n\
         # Relative paths are relative to the folder of this file.\n",
    );
    for section in SECTIONS {
        out.push_str(&format!("\n# ---- {} ----\n", section.heading));
        if let Some(table) = section.table {
            table_header(table, section.path, &mut out);
        }
        for key in section.keys {
            if let Some(field) = find(section.path).fields().iter().find(|f| f.key == *key) {
                key_with_comment(section, field, installed, &mut out);
            }
        }
    }
    out
}

fn table_header(table: &str, path: &[&str], out: &mut String) {
    let (comment, header) = match path {
        ["entities", ..] => (
            "One table per entity type. A graph whose nodes are all alike needs only one type.",
            "[entities.entity]".to_owned(),
        ),
        ["relations", ..] => (
            "One entry per relation type; `*` stands for all relation types without an entry.",
            table.to_owned(),
        ),
        ["formulas"] => (
            "Formulas of operators and of the comparator, if they are plugins, which runs write into checkpoints, and formulas of your own.",
            format!("# {table}"),
        ),
        ["plugins", "params", ..] => (
            "One table per plugin; `pbg-host plugin inspect NAME` lists its parameters.",
            format!("# {table}\n# KEY = 1"),
        ),
        ["plugins", "grants" | "pins", ..] => ("", format!("# {table}")),
        _ => ("", table.to_owned()),
    };
    wrap_comment(comment, out);
    out.push_str(&header);
    out.push('\n');
}

fn key_with_comment(
    section: &Section,
    field: &KeySpec,
    installed: &StrategyNames,
    out: &mut String,
) {
    out.push('\n');
    let mut comment = installed.describe(&field.key, &field.doc());
    if let Some(unset) = &field.unset {
        comment.push_str(&format!(" Unset: {unset}."));
    }
    let rule = rule(field);
    if !rule.is_empty() && rule != NOT_EMPTY {
        comment.push_str(&format!(" ({rule})"));
    }
    wrap_comment(&comment, out);
    if let ValueType::Choice(choices) = &field.spec.kind {
        for choice in choices {
            wrap_comment(&format!("- {}: {}", choice.name, choice.doc()), out);
        }
    }
    let path = [section.path, &[field.key.as_str()]].concat().join(".");
    let sample = SAMPLES.iter().find(|(of, _)| *of == path);
    let value = field.default.as_ref().map(Json::to_string);
    // Most plugins need neither a grant nor a pin, so both are commented out.
    let absent = matches!(section.path, ["plugins", "grants" | "pins", ..]);
    let comment = if !absent && (field.required || value.is_some()) {
        ""
    } else {
        "# "
    };
    let value = value
        .or_else(|| sample.map(|(_, sample)| (*sample).to_owned()))
        .unwrap_or_default();
    out.push_str(&format!("{comment}{} = {value}\n", field.key));
}

fn wrap_comment(text: &str, out: &mut String) {
    const WIDTH: usize = 98;
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + 1 + word.len() > WIDTH {
            out.push_str(&format!("#{line}\n"));
            line.clear();
        }
        line.push(' ');
        line.push_str(word);
    }
    if !line.is_empty() {
        out.push_str(&format!("#{line}\n"));
    }
}

/// Returns the specification of the record at a section's path.
pub(super) fn find(path: &[&str]) -> &'static Spec {
    path.iter().fold(spec::root(), |spec, segment| {
        spec.child(segment).unwrap_or(spec)
    })
}

const NOT_EMPTY: &str = "not empty";

/// Describes the values that a key allows.
pub(super) fn rule(field: &KeySpec) -> String {
    let own = match &field.spec.kind {
        ValueType::Integer { min, max } => format!("{min} to {max}"),
        ValueType::Number { range, .. } => range.descriptions().collect::<Vec<_>>().join(", "),
        ValueType::Text { non_empty: true }
        | ValueType::List {
            non_empty: true, ..
        } => NOT_EMPTY.to_owned(),
        _ => String::new(),
    };
    let mut parts = vec![own, field.rule.clone().unwrap_or_default()];
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}
