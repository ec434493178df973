//! Faults of the file system, put between the program and the system by `faults.c`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// What happens at an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process is killed, half-way through a write.
    Kill,
    /// There is no room from here on.
    Full,
    /// This operation fails.
    Broken,
    /// Someone presses Ctrl-C.
    CtrlC,
}

impl Fault {
    /// What the program cannot foresee.
    pub(crate) const CRASHES: [Self; 3] = [Self::Kill, Self::Full, Self::Broken];

    fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Full => "full",
            Self::Broken => "broken",
            Self::CtrlC => "ctrl-c",
        }
    }
}

/// What a file system may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// An exchange of two names in one step.
    Exchange,
    /// Files without a name.
    Unnamed,
    /// Locks.
    Locks,
}

impl Lack {
    fn name(self) -> &'static str {
        match self {
            Self::Exchange => "exchange",
            Self::Unnamed => "unnamed",
            Self::Locks => "locks",
        }
    }
}

/// The program of `faults.c`, built once. The compiler is the one that the program under test is built with.
fn layer() -> &'static Path {
    static LAYER: OnceLock<PathBuf> = OnceLock::new();
    LAYER.get_or_init(|| {
        let source = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/it/support/faults.c"
        );
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
        let layer = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults");
        // Another process may be building it as well.
        let partial = layer.with_extension(std::process::id().to_string());
        let mut command = Command::new(compiler);
        command.args(["-x", "c", source, "-O1", "-o"]).arg(&partial);
        let built = command
            .output()
            .expect("a C++ compiler, which building the program needs, too");
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{said}");
        fs::rename(partial, &layer).unwrap();
        layer
    })
}

/// The command with the layer between it and the system, below `folder`.
fn layered(command: &Command, folder: &Path) -> Command {
    let mut layered = Command::new(layer());
    layered
        .arg(command.get_program())
        .args(command.get_args())
        .env("PBG_FAULT_FOLDER", folder)
        .stdin(Stdio::null());
    if let Some(folder) = command.get_current_dir() {
        layered.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => layered.env(name, value),
            None => layered.env_remove(name),
        };
    }
    layered
}

/// Lets `fault` happen at operation `at` of those that change something below `folder`; 0: counts
/// them. The file `log` gets a line per operation.
pub(crate) fn inject(command: &mut Command, folder: &Path, log: &Path, fault: Fault, at: usize) {
    *command = layered(command, folder);
    command
        .env("PBG_FAULT_LOG", log)
        .env("PBG_FAULT_KIND", fault.name())
        .env("PBG_FAULT_AT", at.to_string());
}

/// Takes away what the file system below `folder` has.
pub(crate) fn without(command: &mut Command, folder: &Path, lacks: &[Lack]) {
    let names: Vec<&str> = lacks.iter().map(|lack| lack.name()).collect();
    // A command that has the layer already needs no second one.
    if command.get_program() != layer() {
        *command = layered(command, folder);
    }
    command.env("PBG_FAULT_WITHOUT", names.join(","));
}
