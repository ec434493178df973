//! Names that Bash completes: of strategies, of keys of the configuration, and what may follow a key.

use serde_json::Value;

/// What completes names and leaves everything else to the generated function.
const SCRIPT: &str = include_str!("names.bash");

/// The part of the completion script that knows the names in the configuration's `schema`.
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
    SCRIPT
        .replace("@KEYS@", &keys.join(" "))
        .replace("@LIMITS@", &limits.join(" "))
        .replace("@ORDERS@", &standard("bucket_order"))
        .replace("@SAMPLERS@", &standard("relation_sampler"))
        .replace("@LOSSES@", &standard("loss_fn"))
        .replace("@VALUES@", values.trim_end())
}

/// Tells `found` every key below `part` with the words that it may have; what has names of the user's is none.
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

/// What a reference refers to; one that may be left out is one of two.
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
