//! A working folder per test, a small graph, and the program.

pub(crate) mod faults;
pub(crate) mod graph;
pub(crate) mod loss;
pub(crate) mod plugin;
pub(crate) mod tensors;
pub(crate) mod world;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Longest wait of a test, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

/// Cache of compiled plugins: separate from the user's, and shared by all tests.
pub(crate) const COMPILED: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/compiled");

/// Folder that is removed after the test, in which the program runs.
pub(crate) struct Workplace {
    folder: TempDir,
}

/// Exit status and output of a finished program.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Workplace {
    /// Creates an empty folder.
    pub(crate) fn empty() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Creates a folder with `pbg.toml`, and edge lists `train.tsv` and `test.tsv` that are not imported yet.
    pub(crate) fn with_edges(config: &str) -> Self {
        let place = Self::empty();
        place.write("pbg.toml", config);
        let (train, test) = graph::tsv();
        place.write("train.tsv", train);
        place.write("test.tsv", test);
        place
    }

    /// Creates a folder with `pbg.toml`, and imports the small graph.
    pub(crate) fn with_dataset(config: &str) -> Self {
        let place = Self::with_edges(config);
        place.import().succeeds();
        place
    }

    /// Imports the edge lists `train.tsv` and `test.tsv`.
    pub(crate) fn import(&self) -> Finished {
        let edges = ["--edges", "train=train.tsv", "--edges", "test=test.tsv"];
        self.run(["import"].iter().chain(&edges))
    }

    /// Creates another folder with the same files.
    pub(crate) fn copied(&self) -> Self {
        let copy = Self::empty();
        let mut open = vec![self.folder.path().to_owned()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(self.folder.path()).unwrap();
                let to = copy.folder.path().join(name);
                if path.is_dir() {
                    fs::create_dir_all(to).unwrap();
                    open.push(path);
                } else {
                    fs::copy(&path, to).unwrap();
                }
            }
        }
        copy
    }

    /// Returns the path of a file in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Reads a text file.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Returns the command that starts the program in this folder.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pbg-host"));
        command
            .args(args)
            .current_dir(self.folder.path())
            .env("PBG_HOST_CACHE", COMPILED)
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Finished {
        finish(&mut self.command(args))
    }

    /// Starts the program; its outputs go to the files `stdout.txt` and `stderr.txt`.
    pub(crate) fn start<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Running {
        let log = self.path("stderr.txt");
        let child = self
            .command(args)
            .stdout(fs::File::create(self.path("stdout.txt")).unwrap())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Running { child, log }
    }

    /// Returns the tensors of the committed version of the checkpoint `folder`: each file's name without its version,
    /// and its bytes.
    pub(crate) fn committed(&self, folder: &str) -> Vec<(String, Vec<u8>)> {
        let manifest = self.read(&format!("{folder}/manifest.json"));
        let manifest: Value = serde_json::from_str(&manifest).unwrap();
        let names = manifest["files"].as_object().unwrap().keys();
        names
            .map(|name| {
                let (what, _version) = name.rsplit_once(".v").unwrap();
                (
                    what.to_owned(),
                    fs::read(self.path(folder).join(name)).unwrap(),
                )
            })
            .collect()
    }
}

/// Returns the duration of open-ended tests, which `cargo xtask crash --minutes` and similar commands set.
pub(crate) fn minutes() -> Option<u64> {
    let minutes = std::env::var("PBG_TEST_MINUTES").ok()?;
    Some(minutes.parse().expect("PBG_TEST_MINUTES is a number"))
}

/// Returns whether `cargo xtask test --long` runs the tests.
pub(crate) fn is_long() -> bool {
    std::env::var_os("PBG_TEST_LONG").is_some()
}

/// Returns the number of random cases of a test: `few` in the test command, `many` with `cargo xtask test --long`.
pub(crate) fn cases(few: u64, many: u64) -> u64 {
    if is_long() { many } else { few }
}

/// Appends keys of the configuration, each `KEY=VALUE`, to a command.
pub(crate) fn with<'a>(command: &[&'a str], keys: &[&'a str]) -> Vec<&'a str> {
    let set = keys.iter().flat_map(|key| ["--set", key]);
    command.iter().copied().chain(set).collect()
}

/// Runs a command to its end.
pub(crate) fn finish(command: &mut Command) -> Finished {
    let output = command.output().unwrap();
    Finished {
        status: output.status,
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Finished {
    /// Asserts that the program succeeded.
    #[track_caller]
    pub(crate) fn succeeds(self) -> Self {
        assert!(
            self.status.success(),
            "{}\n{}\n{}",
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }

    /// Returns the signal that ended the program.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Returns the exit code.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Asserts that the program failed with `code`, and that its messages contain all of `words`.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(
            self.status.code(),
            Some(code),
            "{}\n{}",
            self.stdout,
            self.stderr
        );
        assert!(
            self.stderr.contains("error: "),
            "no error line:\n{}",
            self.stderr
        );
        for word in words {
            assert!(
                self.stderr.contains(word),
                "`{word}` is not in\n{}",
                self.stderr
            );
        }
        self
    }
}

/// Running program.
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Waits until `ready` holds or the program ended; returns whether it still runs.
    #[must_use]
    pub(crate) fn wait_until(&mut self, mut ready: impl FnMut() -> bool) -> bool {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            if ready() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("nothing happened:\n{}", self.stderr());
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name: `INT`, `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Kills the program, and asserts that it was still running.
    #[track_caller]
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.signal(), Some(9), "{status}:\n{}", self.stderr());
    }

    /// Returns the messages so far.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until the program ends.
    pub(crate) fn finish(mut self) -> Finished {
        let status = self.child.wait().unwrap();
        Finished {
            status,
            stdout: String::new(),
            stderr: self.stderr(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A failed assertion must not leave a training program behind.
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _gone = self.child.kill();
            let _gone = self.child.wait();
        }
    }
}
