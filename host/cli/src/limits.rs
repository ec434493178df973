//! Limits of plugins, for commands that run plugins without a configuration.

use pbg_core::limits::PluginLimits;
use pbg_wasm::Limits;

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;

/// Options that change limits.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct LimitArgs {
    /// Set a limit of plugins, by its key in [plugins.limits] of a configuration: `deadline_ms=10000`,
    /// `memory_mib=256`; can be repeated.
    #[arg(long = "limit", value_name = "KEY=NUMBER", value_parser = limit)]
    limits: Vec<(String, u64)>,
}

/// Prefix of the keys of limits, as in messages about plugins that reached a limit.
pub(crate) const KEYS: &str = "plugins.limits.";

impl LimitArgs {
    /// Returns the default limits with the given changes.
    ///
    /// # Errors
    /// When a limit does not exist or its value is out of range.
    pub(crate) fn limits(&self) -> Result<Limits> {
        let mut limits = PluginLimits::default();
        self.apply(&mut limits)?;
        Ok(Limits::from(&limits))
    }

    /// Applies the given changes to `limits`.
    ///
    /// # Errors
    /// As for [`LimitArgs::limits`].
    pub(crate) fn apply(&self, limits: &mut PluginLimits) -> Result<()> {
        for (key, value) in &self.limits {
            let set = limits.set(key, *value);
            set.map_err(|wrong| Failure::message(FailureKind::Usage, format!("--limit {wrong}")))?;
        }
        Ok(())
    }
}

/// Returns advice on raising the limit that the message `said` names, if it names one.
pub(crate) fn advice(said: &str) -> Option<String> {
    let (_, rest) = said.split_once(KEYS)?;
    let key: String = rest
        .chars()
        .take_while(|c| c.is_ascii_lowercase() || *c == '_')
        .collect();
    Some(format!(
        "use `--limit {key}=NUMBER` to raise it for this command"
    ))
}

fn limit(text: &str) -> Result<(String, u64), String> {
    let (key, value) = text.split_once('=').ok_or("must be KEY=NUMBER")?;
    let key = key.strip_prefix(KEYS).unwrap_or(key).trim();
    let value = value.trim().parse();
    let value = value.map_err(|_| "must be KEY=NUMBER, a whole number".to_owned())?;
    Ok((key.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reached_a_limit_is_told_how_to_raise_it() {
        let said = "took too long, or raise plugins.limits.deadline_ms\n  in plan";
        assert!(
            advice(said)
                .unwrap()
                .contains("`--limit deadline_ms=NUMBER`")
        );
        assert_eq!(advice("trapped"), None);
        assert_eq!(
            limit("plugins.limits.deadline_ms = 9"),
            Ok(("deadline_ms".to_owned(), 9))
        );
        assert!(limit("deadline_ms=fast").is_err() && limit("deadline_ms").is_err());
    }
}
