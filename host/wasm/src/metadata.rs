//! Metadata of a plugin, checked before it is used.

use pbg_core::text::escaped;
use serde::Serialize;

use crate::bindings::metadata as wit;
use crate::parameters::{PluginParameter, PluginParameterKind};

/// Name, version, summary and parameters of a plugin: bounded in length, and escaped for a terminal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PluginMetadata {
    /// Short name: letters, digits, `_`, `-` and `.`, at most 64 characters.
    pub name: String,
    /// Version: letters, digits, `_`, `-`, `+` and `.`, at most 64 characters.
    pub version: String,
    /// Description in one sentence.
    pub summary: String,
    /// Parameters that a configuration may set.
    pub parameters: Vec<PluginParameter>,
    /// Name of the plugin that replaces this one when it fails, if it names one.
    pub fallback: Option<String>,
}

const NAME_BYTES: usize = 64;
const TEXT_BYTES: usize = 1000;
const PARAMETERS: usize = 64;
const OPTIONS: usize = 64;

/// Checks the answer to `describe`.
///
/// # Errors
/// What is wrong with it, as a text.
pub(crate) fn check(answer: wit::Description) -> Result<PluginMetadata, String> {
    word("name", &answer.name, "_-.")?;
    word("version", &answer.version, "_-+.")?;
    if let Some(fallback) = &answer.fallback {
        word("fallback", fallback, "_-.")?;
    }
    if answer.parameters.len() > PARAMETERS {
        return Err(format!(
            "{} parameters, more than {PARAMETERS}",
            answer.parameters.len()
        ));
    }
    let mut parameters: Vec<PluginParameter> = Vec::with_capacity(answer.parameters.len());
    for declared in answer.parameters {
        word("parameter name", &declared.name, "_")?;
        if parameters.iter().any(|known| known.name == declared.name) {
            return Err(format!("parameter {} is declared twice", declared.name));
        }
        let kind =
            kind(declared.kind).map_err(|why| format!("parameter {}: {why}", declared.name))?;
        let doc = escaped(&declared.doc, TEXT_BYTES);
        parameters.push(PluginParameter {
            name: declared.name,
            doc,
            kind,
        });
    }
    let summary = escaped(&answer.summary, TEXT_BYTES);
    Ok(PluginMetadata {
        name: answer.name,
        version: answer.version,
        summary,
        parameters,
        fallback: answer.fallback,
    })
}

/// Checks a name, since names are used in messages, files and configurations.
fn word(what: &str, text: &str, also: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || also.contains(c);
    if text.is_empty() || text.len() > NAME_BYTES || !text.chars().all(allowed) {
        let shown = escaped(text, NAME_BYTES);
        return Err(format!(
            "{what} \"{shown}\" must have 1 to {NAME_BYTES} letters, digits or any of \"{also}\""
        ));
    }
    Ok(())
}

fn kind(declared: wit::ParameterKind) -> Result<PluginParameterKind, String> {
    let kind = match declared {
        wit::ParameterKind::Boolean(default) => PluginParameterKind::Boolean { default },
        wit::ParameterKind::Integer(wit::IntegerParameter {
            default,
            minimum,
            maximum,
        }) => PluginParameterKind::Integer {
            default,
            minimum,
            maximum,
        },
        wit::ParameterKind::Number(wit::NumberParameter {
            default,
            minimum,
            maximum,
        }) => PluginParameterKind::Number {
            default,
            minimum,
            maximum,
        },
        wit::ParameterKind::Text(default) => PluginParameterKind::Text {
            default: escaped(&default, TEXT_BYTES),
        },
        wit::ParameterKind::Choice(wit::ChoiceParameter { options, default }) => {
            if options.len() > OPTIONS {
                return Err(format!("{} options, more than {OPTIONS}", options.len()));
            }
            let options: Vec<String> = options.iter().map(|o| escaped(o, NAME_BYTES)).collect();
            let default = options.get(default as usize).cloned();
            PluginParameterKind::Choice {
                default: default.ok_or("its default is not one of its options")?,
                options,
            }
        }
    };
    match kind.check(&kind.default_value()) {
        Ok(_) => Ok(kind),
        Err(why) => Err(format!("its own default {why}")),
    }
}
