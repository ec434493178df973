//! Parameters of plugins: declarations, and the check of configured values against them.

use pbg_core::nearest::nearest;
use pbg_core::text::escaped;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Value of a parameter, checked against its declaration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ParameterValue {
    Boolean(bool),
    Integer(i64),
    Number(f64),
    /// A text, or the chosen word of a choice.
    Text(String),
}

/// A parameter that a plugin declares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PluginParameter {
    /// Key in the configuration.
    pub name: String,
    /// Description.
    pub doc: String,
    /// Type, default and range.
    #[serde(flatten)]
    pub kind: PluginParameterKind,
}

/// Type, default and range (bounds included) of a [`PluginParameter`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields say the same for every type")]
pub enum PluginParameterKind {
    /// True or false.
    Boolean { default: bool },
    /// A whole number.
    Integer {
        default: i64,
        minimum: Option<i64>,
        maximum: Option<i64>,
    },
    /// A finite number.
    Number {
        default: f64,
        minimum: Option<f64>,
        maximum: Option<f64>,
    },
    /// Any text.
    Text { default: String },
    /// One of several words.
    Choice {
        default: String,
        options: Vec<String>,
    },
}

impl PluginParameterKind {
    /// Returns the default as JSON.
    #[must_use]
    pub fn default_value(&self) -> Value {
        match self {
            Self::Boolean { default } => (*default).into(),
            Self::Integer { default, .. } => (*default).into(),
            Self::Number { default, .. } => (*default).into(),
            Self::Text { default } | Self::Choice { default, .. } => default.clone().into(),
        }
    }

    /// Converts `value` to this type and checks its range. The error is a phrase for a message ("must be ...").
    pub(crate) fn check(&self, value: &Value) -> Result<ParameterValue, String> {
        let fitting = match self {
            Self::Boolean { .. } => value.as_bool().map(ParameterValue::Boolean),
            Self::Integer {
                minimum, maximum, ..
            } => value
                .as_i64()
                .filter(|v| {
                    minimum.is_none_or(|least| *v >= least) && maximum.is_none_or(|most| *v <= most)
                })
                .map(ParameterValue::Integer),
            Self::Number {
                minimum, maximum, ..
            } => value
                .as_f64()
                .filter(|v| {
                    v.is_finite()
                        && minimum.is_none_or(|least| *v >= least)
                        && maximum.is_none_or(|most| *v <= most)
                })
                .map(ParameterValue::Number),
            Self::Text { .. } => value.as_str().map(|v| ParameterValue::Text(v.to_owned())),
            Self::Choice { options, .. } => value
                .as_str()
                .filter(|v| options.iter().any(|option| option == v))
                .map(|v| ParameterValue::Text(v.to_owned())),
        };
        fitting.ok_or_else(|| format!("must be {self}"))
    }
}

/// Writes the type with its range, as in "a whole number from 1 to 9".
impl std::fmt::Display for PluginParameterKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Boolean { .. } => f.write_str("true or false"),
            Self::Integer {
                minimum, maximum, ..
            } => range(f, "a whole number", minimum, maximum),
            Self::Number {
                minimum, maximum, ..
            } => range(f, "a number", minimum, maximum),
            Self::Text { .. } => f.write_str("a text"),
            Self::Choice { options, .. } => write!(f, "one of {}", options.join(", ")),
        }
    }
}

fn range<T: std::fmt::Display>(
    f: &mut std::fmt::Formatter<'_>,
    what: &str,
    minimum: &Option<T>,
    maximum: &Option<T>,
) -> std::fmt::Result {
    match (minimum, maximum) {
        (Some(least), Some(most)) => write!(f, "{what} from {least} to {most}"),
        (Some(least), None) => write!(f, "{what} of at least {least}"),
        (None, Some(most)) => write!(f, "{what} of at most {most}"),
        (None, None) => f.write_str(what),
    }
}

/// Returns every declared parameter, in the declared order, with its value from `given` or its default. `given` is a
/// JSON object, or null for none.
///
/// # Errors
/// One text per parameter that is unknown or out of its range.
pub(crate) fn resolve_parameters(
    declared: &[PluginParameter],
    given: &Value,
) -> Result<Vec<(String, ParameterValue)>, Vec<String>> {
    let nothing = Map::new();
    let given = match given {
        Value::Object(given) => given,
        Value::Null => &nothing,
        _ => {
            return Err(vec![
                "its parameters must be a table of keys and values".to_owned(),
            ]);
        }
    };
    let known = || declared.iter().map(|parameter| parameter.name.as_str());
    let mut problems = Vec::new();
    for name in given
        .keys()
        .filter(|name| known().all(|known| known != name.as_str()))
    {
        problems.push(unknown(name, known()));
    }
    let mut complete = Vec::with_capacity(declared.len());
    for PluginParameter { name, kind, .. } in declared {
        let value = given
            .get(name)
            .cloned()
            .unwrap_or_else(|| kind.default_value());
        match kind.check(&value) {
            Ok(value) => complete.push((name.clone(), value)),
            Err(must) => problems.push(format!("parameter {name} is {value}, {must}")),
        }
    }
    if problems.is_empty() {
        Ok(complete)
    } else {
        Err(problems)
    }
}

/// Returns every declared parameter with its value from `given` or its default, for a strategy that is not a component.
///
/// # Errors
/// One text per parameter that is unknown or out of its range.
pub fn resolve_parameters_json(
    declared: &[PluginParameter],
    given: &Value,
) -> Result<Map<String, Value>, Vec<String>> {
    let values = resolve_parameters(declared, given)?.into_iter();
    let value = |value| match value {
        ParameterValue::Boolean(value) => value.into(),
        ParameterValue::Integer(value) => value.into(),
        ParameterValue::Number(value) => value.into(),
        ParameterValue::Text(value) => value.into(),
    };
    Ok(values.map(|(name, of)| (name, value(of))).collect())
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let shown = escaped(name, 100);
    if let Some(meant) = nearest(name, known.clone()) {
        return format!("has no parameter {shown} (did you mean {meant}?)");
    }
    let known: Vec<&str> = known.collect();
    if known.is_empty() {
        return format!("has no parameter {shown}; it takes none");
    }
    format!("has no parameter {shown}; it takes {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn declared() -> Vec<PluginParameter> {
        let parameter = |name: &str, kind| PluginParameter {
            name: name.to_owned(),
            doc: String::new(),
            kind,
        };
        vec![
            parameter(
                "turns",
                PluginParameterKind::Integer {
                    default: 3,
                    minimum: Some(1),
                    maximum: Some(9),
                },
            ),
            parameter(
                "margin",
                PluginParameterKind::Number {
                    default: 0.5,
                    minimum: Some(0.0),
                    maximum: None,
                },
            ),
            parameter("mirror", PluginParameterKind::Boolean { default: true }),
            parameter(
                "by",
                PluginParameterKind::Choice {
                    default: "edges".into(),
                    options: vec!["edges".into(), "bytes".into()],
                },
            ),
        ]
    }

    #[test]
    fn defaults_fill_what_is_not_set() {
        let complete =
            resolve_parameters(&declared(), &json!({"turns": 7, "margin": 1})).expect("all fit");
        let expected = [
            ("turns", ParameterValue::Integer(7)),
            ("margin", ParameterValue::Number(1.0)),
            ("mirror", ParameterValue::Boolean(true)),
            ("by", ParameterValue::Text("edges".into())),
        ];
        assert_eq!(
            complete,
            expected.map(|(name, value)| (name.to_owned(), value))
        );
        assert!(
            super::resolve_parameters(&[], &Value::Null)
                .expect("nothing to set")
                .is_empty()
        );
    }

    #[test]
    fn all_problems_are_named_at_once() {
        let given = json!({"turn": 1, "turns": 10, "margin": "x", "by": "age", "zzz": 0});
        let problems = resolve_parameters(&declared(), &given)
            .expect_err("five problems")
            .join("\n");
        for part in [
            "has no parameter turn (did you mean turns?)",
            "has no parameter zzz; it takes turns, margin, mirror, by",
            "parameter turns is 10, must be a whole number from 1 to 9",
            "parameter margin is \"x\", must be a number of at least 0",
            "parameter by is \"age\", must be one of edges, bytes",
        ] {
            assert!(problems.contains(part), "{part} is not in\n{problems}");
        }
    }
}
