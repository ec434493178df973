//! Bash completion of the names of strategies, of configuration keys, and of their values.

use pbg_core::lr_schedule::LrDecay;
use serde_json::Value;

/// Bash functions that complete names and leave everything else to the generated function.
const SCRIPT: &str = include_str!("names.bash");

/// Returns the part of the completion script that completes the names in the configuration's `schema`.
pub(super) fn script(schema: &Value) -> String {
    let (mut keys, mut values) = (Vec::new(), String::new());
    walk(schema, schema, "", &mut |key, words| {
        if !words.is_empty() {
            values.push_str(&format!("        {key}) echo {} ;;\n", words.join(" ")));
        }
        keys.push(format!("{key}="));
    });
    let limits = keys
        .iter()
        .filter_map(|key| key.strip_prefix("plugins.limits."));
    let limits: Vec<&str> = limits.collect();
    let standard = |key: &str| texts(&schema["properties"][key]["x-standard"]).join(" ");
    // Courses that the program computes itself are no plugins.
    let decay = &schema["$defs"]["LrScheduleConfig"]["properties"]["decay"]["x-standard"];
    let built_in = LrDecay::BUILT_IN.map(LrDecay::name);
    let schedules = texts(decay).into_iter();
    let schedules: Vec<&str> = schedules.filter(|name| !built_in.contains(name)).collect();
    SCRIPT
        .replace("@KEYS@", &keys.join(" "))
        .replace("@LIMITS@", &limits.join(" "))
        .replace("@ORDERS@", &standard("bucket_order"))
        .replace("@SAMPLERS@", &standard("relation_sampler"))
        .replace("@NEGATIVES@", &standard("negative_sampler"))
        .replace("@LOSSES@", &standard("loss_fn"))
        .replace("@SCHEDULES@", &schedules.join(" "))
        .replace("@VALUES@", values.trim_end())
}

/// Calls `found` for every key below `part` with the words that are valid values. Tables whose keys the user chooses
/// are skipped.
fn walk(schema: &Value, part: &Value, path: &str, found: &mut impl FnMut(&str, Vec<&str>)) {
    let properties = part["properties"].as_object();
    for (key, property) in properties.into_iter().flatten() {
        let path = format!("{path}{key}");
        let meant = resolved(schema, property);
        if meant["properties"].is_object() {
            walk(schema, meant, &format!("{path}."), found);
        } else if !meant["additionalProperties"].is_object() {
            found(&path, words(property, meant));
        }
    }
}

/// Resolves a schema reference; an optional reference is one of two alternatives.
fn resolved<'a>(schema: &'a Value, property: &'a Value) -> &'a Value {
    let choices = property["anyOf"].as_array().into_iter().flatten();
    let mut named = choices
        .chain([property])
        .filter_map(|choice| choice["$ref"].as_str());
    let name = named.next().and_then(|name| name.strip_prefix("#/"));
    name.and_then(|name| schema.pointer(&format!("/{name}")))
        .unwrap_or(property)
}

fn words<'a>(property: &'a Value, meant: &'a Value) -> Vec<&'a str> {
    if meant["type"] == "boolean" {
        return vec!["true", "false"];
    }
    let constants = meant["oneOf"].as_array().into_iter().flatten();
    let constants = constants.filter_map(|choice| choice["const"].as_str());
    constants
        .chain(texts(&meant["enum"]))
        .chain(texts(&property["x-standard"]))
        .collect()
}

fn texts(list: &Value) -> Vec<&str> {
    let texts = list.as_array().into_iter().flatten();
    texts.filter_map(Value::as_str).collect()
}
