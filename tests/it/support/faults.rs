//! Faults of the file system, put between the program and the C library by `faults.c`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
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

/// The layer, built once. The compiler is the one that the program is built with.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/it/support/faults.c"
        );
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults.so");
        // Another process may be at the same.
        let partial = library.with_extension(std::process::id().to_string());
        let mut command = Command::new(compiler);
        command.args(["-x", "c", source, "-shared", "-fPIC", "-O1", "-o"]);
        let built = command.arg(&partial).args(["-ldl", "-pthread"]).output();
        let built = built.expect("a C++ compiler, which building the program needs, too");
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{said}");
        fs::rename(partial, &library).unwrap();
        library
    })
}

/// Lets `fault` happen at operation `at` of those that change something below `folder`; 0: counts
/// them. The file `log` gets a line per operation.
pub(crate) fn inject(command: &mut Command, folder: &Path, log: &Path, fault: Fault, at: usize) {
    command
        .env("LD_PRELOAD", library())
        .env("PBG_FAULT_FOLDER", folder)
        .env("PBG_FAULT_LOG", log)
        .env("PBG_FAULT_KIND", fault.name())
        .env("PBG_FAULT_AT", at.to_string());
}
