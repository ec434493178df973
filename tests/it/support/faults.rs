//! Faults of the file system, injected between the program and the system by `faults.c`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Fault at an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process is killed, half-way through a write.
    Kill,
    /// The disk is full from here on.
    Full,
    /// This operation fails.
    Broken,
    /// Ctrl-C is pressed.
    CtrlC,
}

impl Fault {
    /// Faults that the program cannot foresee.
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

/// Feature that a file system may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Exchange of two names in one step.
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

/// Builds `faults.c` once; returns the program. The compiler is the one that builds the program under test.
fn layer() -> &'static Path {
    static LAYER: OnceLock<PathBuf> = OnceLock::new();
    LAYER.get_or_init(|| {
        let source = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/it/support/faults.c"
        );
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
        let layer = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults");
        // Another process may be building it at the same time.
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

/// Wraps a command so that the layer is between it and the system, below `folder`.
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

/// Injects `fault` at operation `at` of those that change something below `folder`; with 0, only counts them. The file
/// `log` gets a line per operation.
pub(crate) fn inject(command: &mut Command, folder: &Path, log: &Path, fault: Fault, at: usize) {
    *command = layered(command, folder);
    command
        .env("PBG_FAULT_LOG", log)
        .env("PBG_FAULT_KIND", fault.name())
        .env("PBG_FAULT_AT", at.to_string());
}

/// Removes features of the file system below `folder`.
pub(crate) fn without(command: &mut Command, folder: &Path, lacks: &[Lack]) {
    let names: Vec<&str> = lacks.iter().map(|lack| lack.name()).collect();
    // A command that already has the layer needs no second one.
    if command.get_program() != layer() {
        *command = layered(command, folder);
    }
    command.env("PBG_FAULT_WITHOUT", names.join(","));
}
