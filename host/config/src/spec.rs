//! The keys of the configuration as data, derived from the JSON schema of [`Config`].

use std::sync::LazyLock;

use serde_json::Value as Json;

use super::Config;

/// Type and constraints of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spec {
    pub(super) kind: ValueType,
    /// Whether the key may be unset, which differs from every value.
    pub(super) nullable: bool,
}

/// Type of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ValueType {
    Boolean,
    Integer {
        min: i128,
        max: i128,
    },
    Number {
        range: Range,
        single: bool,
    },
    Text {
        non_empty: bool,
    },
    /// One of the given names.
    Choice(Vec<Choice>),
    List {
        item: Box<Spec>,
        non_empty: bool,
    },
    /// A table whose keys the user chooses.
    Map {
        item: Box<Spec>,
        non_empty: bool,
    },
    /// A table with known keys.
    Record(Vec<KeySpec>),
    /// Any TOML value.
    Any,
}

/// Allowed name of a [`ValueType::Choice`], with its description.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    pub(super) name: String,
    /// Description, in lines as the source has them.
    lines: String,
}

impl Choice {
    /// Returns the description on one line.
    pub(super) fn doc(&self) -> String {
        one_line(&self.lines)
    }
}

/// Bounds of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Range {
    pub(super) min: Option<f64>,
    pub(super) above: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) below: Option<f64>,
}

impl Range {
    /// Describes each bound.
    pub(super) fn descriptions(self) -> impl Iterator<Item = String> {
        let bounds = [
            ("at least", self.min),
            ("greater than", self.above),
            ("at most", self.max),
            ("less than", self.below),
        ];
        let bounds = bounds.into_iter();
        bounds.filter_map(|(what, bound)| Some(format!("{what} {}", bound?)))
    }
}

/// Known key of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KeySpec {
    pub(super) key: String,
    /// Description, in lines as the source has them.
    lines: String,
    pub(super) spec: Spec,
    pub(super) required: bool,
    /// Value of the key when it is unset.
    pub(super) default: Option<Json>,
    /// Meaning of leaving the key unset, if it has no default.
    pub(super) unset: Option<String>,
    /// Rules that involve other keys.
    pub(super) rule: Option<String>,
}

impl KeySpec {
    /// Returns the description on one line.
    pub(super) fn doc(&self) -> String {
        one_line(&self.lines)
    }
}

/// Returns the specification of the whole configuration.
pub(super) fn root() -> &'static Spec {
    static ROOT: LazyLock<Spec> = LazyLock::new(|| {
        let schema = raw_schema();
        read(&schema, &schema["$defs"])
    });
    &ROOT
}

/// Returns the JSON schema of [`Config`], with defaults in the fewest digits that give the same `f32`.
pub(super) fn raw_schema() -> Json {
    let mut schema = Json::from(schemars::schema_for!(Config));
    shorten_defaults(&mut schema);
    schema
}

fn shorten_defaults(schema: &mut Json) {
    match schema {
        Json::Object(entries) => {
            if entries.get("format").and_then(Json::as_str) == Some("float")
                && let Some(default) = entries.get_mut("default")
                && let Some(short) = default.as_f64().and_then(|x| shortest(x as f32))
            {
                *default = short;
            }
            entries.iter_mut().for_each(|(_, v)| shorten_defaults(v));
        }
        Json::Array(items) => items.iter_mut().for_each(shorten_defaults),
        _ => {}
    }
}

fn shortest(x: f32) -> Option<Json> {
    x.to_string().parse::<f64>().ok().map(Json::from)
}

impl Spec {
    /// Returns the known keys of a record; empty for other types.
    pub(super) fn fields(&self) -> &[KeySpec] {
        match &self.kind {
            ValueType::Record(fields) => fields,
            _ => &[],
        }
    }

    /// Returns the specification of the value under `segment`, if the key is known.
    pub(super) fn child(&self, segment: &str) -> Option<&Self> {
        match &self.kind {
            ValueType::Record(fields) => fields.iter().find(|f| f.key == segment).map(|f| &f.spec),
            ValueType::List { item, .. } | ValueType::Map { item, .. } => Some(item),
            _ => None,
        }
    }
}

fn read(schema: &Json, definitions: &Json) -> Spec {
    let reference = schema["$ref"].as_str();
    let name = reference.and_then(|r| r.strip_prefix("#/$defs/"));
    let target = name.map_or(schema, |name| &definitions[name]);
    let types: Vec<&str> = match &target["type"] {
        Json::String(one) => vec![one],
        Json::Array(several) => several.iter().filter_map(Json::as_str).collect(),
        _ => vec![],
    };
    let non_empty = ["minLength", "minItems", "minProperties"]
        .iter()
        .any(|key| target[key].as_u64().is_some_and(|n| n > 0));
    let item = |schema: &Json| Box::new(read(schema, definitions));
    let bound = |key: &str| target[key].as_number()?.as_i128();
    let value_type = types.iter().find(|t| **t != "null").copied();
    let kind = match (choices(target), value_type) {
        (Some(choices), _) => ValueType::Choice(choices),
        (None, Some("boolean")) => ValueType::Boolean,
        (None, Some("integer")) => ValueType::Integer {
            min: bound("minimum").unwrap_or(i128::MIN),
            max: bound("maximum").unwrap_or(i128::MAX),
        },
        (None, Some("number")) => ValueType::Number {
            range: range(target),
            single: target["format"] == "float",
        },
        (None, Some("string")) => ValueType::Text { non_empty },
        (None, Some("array")) => ValueType::List {
            item: item(&target["items"]),
            non_empty,
        },
        (None, Some("object")) => match &target["properties"] {
            Json::Object(properties) => {
                ValueType::Record(fields(properties, &target["required"], definitions))
            }
            _ => ValueType::Map {
                item: item(&target["additionalProperties"]),
                non_empty,
            },
        },
        _ => ValueType::Any,
    };
    Spec {
        kind,
        nullable: types.contains(&"null"),
    }
}

fn fields(
    properties: &serde_json::Map<String, Json>,
    required: &Json,
    definitions: &Json,
) -> Vec<KeySpec> {
    let is_required = |key: &str| {
        required
            .as_array()
            .is_some_and(|keys| keys.iter().any(|k| k == key))
    };
    let text = |schema: &Json, key: &str| schema[key].as_str().map(str::to_owned);
    properties
        .iter()
        .map(|(key, schema)| KeySpec {
            key: key.clone(),
            lines: text(schema, "description").unwrap_or_default(),
            spec: read(schema, definitions),
            required: is_required(key),
            default: schema.get("default").filter(|d| !d.is_null()).cloned(),
            unset: text(schema, "x-unset"),
            rule: text(schema, "x-rule"),
        })
        .collect()
}

/// Returns the names of an enumeration, which the schema writes as constant alternatives or as a list of names.
fn choices(schema: &Json) -> Option<Vec<Choice>> {
    let choice = |name: &Json, doc: &Json| {
        Some(Choice {
            name: name.as_str()?.to_owned(),
            lines: doc.as_str().unwrap_or_default().to_owned(),
        })
    };
    if let Some(alternatives) = schema["oneOf"].as_array() {
        let choices = alternatives.iter();
        return choices
            .map(|a| choice(&a["const"], &a["description"]))
            .collect();
    }
    let names = schema["enum"].as_array()?.iter();
    names.map(|name| choice(name, &Json::Null)).collect()
}

fn range(schema: &Json) -> Range {
    Range {
        min: schema["minimum"].as_f64(),
        above: schema["exclusiveMinimum"].as_f64(),
        max: schema["maximum"].as_f64(),
        below: schema["exclusiveMaximum"].as_f64(),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
