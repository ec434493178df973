//! Loads libtorch for commands that need it.
//!
//! Most commands do not need libtorch, which costs half a second and a hundred MiB, so it is loaded only then.

use crate::failure::Result;

/// Loads libtorch, which `what` needs; `without` is the advice on doing without it. Returns at once if it is loaded.
///
/// # Errors
/// When libtorch is not found, or cannot be loaded.
pub(crate) fn load(what: &str, without: &str) -> Result<()> {
    match pbg_model::model_bytes::has_libtorch() {
        true => Ok(()),
        false => found::load(what, without),
    }
}

/// libtorch where this program can use it.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod found {
    use std::env;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use pbg_torch::{BRIDGES, FOLDER, LibtorchPlace, named};
    use serde::Deserialize;

    use crate::failure::{Failure, Result};
    use crate::kind::FailureKind;

    /// Script that pip installs next to this program. It prints where the libtorch of the installed PyTorch is.
    const SCRIPT: &str = "pbg-host-libtorch";

    /// Answer of the script: the folder of the package's bridges, and the libtorch of the installed PyTorch.
    #[derive(Deserialize)]
    struct Answer {
        bridges: PathBuf,
        #[serde(flatten)]
        libtorch: Libtorch,
    }

    /// Folder of libtorch, or why the installed PyTorch has none that can be used.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Libtorch {
        Found { libraries: PathBuf },
        Refused { error: String, help: String },
    }

    pub(super) fn load(what: &str, without: &str) -> Result<()> {
        let script = env::current_exe().map(|program| program.with_file_name(SCRIPT));
        let place = match script.ok().filter(|script| script.is_file()) {
            Some(script) => of_python(&script, what, without)?,
            None => LibtorchPlace::find().ok_or_else(|| not_found(what, without))?,
        };
        pbg_torch::load(&place).map_err(|error| {
            let help = format!(
                "install a PyTorch that this program can use, or set {FOLDER} to the folder torch/lib of one, and {BRIDGES} \
                 to that of the bridges if this program came without them; {without}"
            );
            Failure::new(FailureKind::Io, error)
                .context(format!("{what} needs libtorch"))
                .help(help)
        })
    }

    fn not_found(what: &str, without: &str) -> Failure {
        let text = format!("{what} needs libtorch, which is not installed for this program");
        let help = format!(
            "set {FOLDER} to the folder torch/lib of an installed PyTorch; `cargo xtask build` installs libtorch for \
             programs in the folder `target` of a clone; {without}"
        );
        Failure::message(FailureKind::Io, text).help(help)
    }

    /// Asks the Python that this program was installed for. Environment variables name other folders.
    fn of_python(script: &Path, what: &str, without: &str) -> Result<LibtorchPlace> {
        let failed = |why: String| {
            let text = format!("{what} needs libtorch, and {} fails", script.display());
            Failure::message(FailureKind::Io, why).context(text)
        };
        let output = Command::new(script).output();
        let output = output.map_err(|error| failed(error.to_string()))?;
        let said = || failed(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        let answer: Answer = serde_json::from_slice(&output.stdout).map_err(|_| said())?;
        let bridges = named(BRIDGES).unwrap_or(answer.bridges);
        match (named(FOLDER), answer.libtorch) {
            (Some(libraries), _) | (None, Libtorch::Found { libraries }) => {
                Ok(LibtorchPlace { libraries, bridges })
            }
            (None, Libtorch::Refused { error, help }) => {
                let text = format!("{what} needs libtorch: {error}");
                Err(Failure::message(FailureKind::Io, text).help(format!("{help}; {without}")))
            }
        }
    }
}

/// Other systems, where libtorch is not used.
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
mod found {
    use crate::failure::{Failure, Result};
    use crate::kind::FailureKind;

    pub(super) fn load(what: &str, without: &str) -> Result<()> {
        let text = format!(
            "{what} needs libtorch, which pbg-host uses only on Linux, on x86-64 and 64-bit Arm"
        );
        Err(Failure::message(FailureKind::Io, text).help(without))
    }
}
