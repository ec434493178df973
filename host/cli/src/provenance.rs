//! Collects where results come from.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use pbg_core::strategy::StrategyId;
use pbg_dataset::Dataset;
use pbg_model::ResolvedConfig;
use pbg_report::provenance::{BuildIdentity, NamedPlugin, Provenance};
use sha2::{Digest, Sha256};

use crate::failure::{Failure, Result};
use crate::processor;

/// The checksum of what cannot be read, or was not recorded.
const UNKNOWN: &str = "unknown";

/// Returns the provenance of results of this process with the given seeds, without plugins.
pub(crate) fn of_command(seeds: Vec<u64>) -> Provenance {
    let arguments: Vec<String> = std::env::args_os()
        .enumerate()
        .map(|(number, argument)| match number {
            // The path of the program says nothing about it; its checksum does.
            0 => "pbg-host".to_owned(),
            _ => quoted(&argument.to_string_lossy()),
        })
        .collect();
    Provenance {
        command: arguments.join(" "),
        program: program(),
        seeds,
        processor: processor::description(),
        date: date(pbg_clock::unix_time().as_secs()),
        ..Provenance::default()
    }
}

/// Returns the identity of this program.
pub(crate) fn program() -> BuildIdentity {
    BuildIdentity {
        name: "pbg-host".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sha256: program_checksum().unwrap_or_else(|_| UNKNOWN.to_owned()),
    }
}

/// Adds the configuration and the dataset.
pub(crate) fn add_configuration(provenance: &mut Provenance, resolved: &ResolvedConfig) {
    provenance.configuration = serde_json::to_value(resolved.config()).ok();
    // The text that a report offers as configuration.json.
    let text = provenance.configuration.as_ref();
    let text = text.and_then(|value| serde_json::to_string_pretty(value).ok());
    provenance.configuration_sha256 = text.map(|text| hex(&Sha256::digest(text.as_bytes())));
    provenance.dataset = Some(resolved.dataset().identity().to_owned());
}

/// Adds the checksum of the dataset's files, which reads all of them: the SHA-256 of what `sha256sum` prints for the files
/// of its manifest, in the order of their names.
///
/// # Errors
/// When a file cannot be read.
pub(crate) fn add_dataset_files(provenance: &mut Provenance, dataset: &Dataset) -> Result<()> {
    let mut list = Sha256::new();
    for name in dataset.manifest().files.keys() {
        let path = dataset.path().join(name);
        let sum = checksum(&path).map_err(|error| Failure::io("cannot read", &path, error))?;
        list.update(format!("{sum}  {name}\n"));
    }
    provenance.dataset_sha256 = Some(hex(&list.finalize()));
    Ok(())
}

/// Returns a plugin as it was named on the command line.
pub(crate) fn plugin(label: &str, id: &StrategyId) -> NamedPlugin {
    NamedPlugin {
        label: label.to_owned(),
        plugin: identity(id),
    }
}

/// Returns the identity of a plugin.
pub(crate) fn identity(id: &StrategyId) -> BuildIdentity {
    let sha256 = match id.sha256.as_str() {
        "" => UNKNOWN,
        sha256 => sha256,
    };
    BuildIdentity {
        name: id.name.clone(),
        version: id.version.clone(),
        sha256: sha256.to_owned(),
    }
}

fn program_checksum() -> io::Result<String> {
    checksum(&std::env::current_exe()?)
}

/// Returns the SHA-256 of a file.
fn checksum(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    let mut part = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut part)?;
        if read == 0 {
            break;
        }
        digest.update(&part[..read]);
    }
    Ok(hex(&digest.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Quotes an argument for a POSIX shell if it needs it.
fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-=.,:/@%+".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

/// Formats seconds since 1970 as `2026-03-01T12:30:00Z`, by the algorithm of Howard Hinnant, "chrono-compatible low-level date
/// algorithms".
fn date(seconds: u64) -> String {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(date(4_102_444_800), "2100-01-01T00:00:00Z");
    }

    #[test]
    fn arguments_are_quoted_if_a_shell_needs_it() {
        assert_eq!(quoted("beta:assignment=random"), "beta:assignment=random");
        assert_eq!(quoted("my file's"), r"'my file'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
