//! Compilation in a process of its own, which is given time and memory and no more.
//!
//! The compiler cannot be interrupted, and what it takes does not follow from a component's size.
//! So the program starts itself once more: the child gets the component over a socket, limits
//! itself, compiles, and answers with the code, and with functions that the next component may
//! have, too. Nothing else of the child is used, and a plugin whose code is in the cache starts
//! none.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::panic;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getrlimit, kill_process, set_parent_process_death_signal,
    setrlimit,
};
use serde::{Deserialize, Serialize};
use wasmtime::Engine;

use crate::engine::{Settings, config};
use crate::functions::{self, Functions};
use crate::limits::Limits;
use crate::program::chain;

/// Bytes that the compiler may hold. CPython and SpiderMonkey, the largest there are, take 600 MiB.
pub(crate) const MEMORY: u64 = 1 << 30;
/// Bytes of an answer that are taken: the code, which has 35 MiB for CPython, and functions.
const ANSWER: u64 = (256 << 20) + functions::CAPACITY as u64;
/// Threads that compile: more of them would share the time of the processor, and each takes
/// memory.
const THREADS: &str = "4";
/// How often a compilation that is under way looks whether it is still wanted.
const GRAIN: Duration = Duration::from_millis(50);
/// Bytes of what comes before a component.
const HEADER: u64 = 4096;

/// First byte of an answer.
const SUCCEEDED: u8 = 0;
const REFUSED: u8 = 1;

/// How to start the child that compiles.
#[derive(Clone, Debug)]
pub struct Compiler {
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// Code that the child answered with. Only this module makes one.
pub(crate) struct Compiled {
    code: Vec<u8>,
    functions: Vec<u8>,
}

impl Compiled {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.code
    }

    /// Functions to give to the next compilation in the place of those that this one was given; empty where these are
    /// still the ones.
    pub(crate) fn functions(&self) -> &[u8] {
        &self.functions
    }
}

/// Why there is no code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is no component, or one that has too much of something.
    Unfit(String),
    /// It takes more than compilation may take.
    Limit(String),
    /// The machine does not give what compilation takes.
    Machine(String),
    /// Ctrl-C.
    Interrupted,
}

/// What the child is told before it gets the component.
#[derive(Serialize, Deserialize)]
struct Request {
    settings: Settings,
    seconds: u64,
    memory: u64,
    /// Bytes of functions that come before the component; none where functions are not kept.
    functions: Option<u64>,
}

impl Compiler {
    /// The argument by which [`Compiler::this_program`] asks the program for [`Compiler::serve`].
    pub const ARGUMENT: &str = "compile-for-parent";

    /// A child that is `program` with `arguments`, with which it has to call
    /// [`Compiler::serve`] before anything else.
    #[must_use]
    pub fn new(program: PathBuf, arguments: Vec<OsString>) -> Self {
        Self { program, arguments }
    }

    /// A child that is this very program, even if its file was replaced since it started.
    #[must_use]
    pub fn this_program() -> Self {
        Self::new("/proc/self/exe".into(), vec![Self::ARGUMENT.into()])
    }

    /// The code of the component `bytes`. Setting `stop` ends the child. `functions` are what the last
    /// compilation answered with; without, nobody keeps them.
    ///
    /// # Errors
    /// When the child refuses the component or is ended, by its limits or by `stop`.
    pub(crate) fn compile(
        &self,
        settings: &Settings,
        limits: &Limits,
        bytes: &[u8],
        functions: Option<&[u8]>,
        stop: Option<&AtomicBool>,
    ) -> Result<Compiled, Refusal> {
        let machine = |error: io::Error| {
            Refusal::Machine(format!(
                "cannot start the process that compiles it ({}): {error}",
                self.program.display()
            ))
        };
        let (stream, theirs) = UnixStream::pair().map_err(machine)?;
        let mut child = self.start(theirs.into()).map_err(machine)?;
        let request = Request {
            settings: settings.clone(),
            seconds: limits.seconds_to_compile(bytes.len()),
            memory: MEMORY,
            functions: functions.map(|functions| functions.len() as u64),
        };
        let input = [functions.unwrap_or_default(), bytes];
        // A child that ends early leaves a broken pipe; how it ended says more.
        let answer = ended_by(stop, &child, || exchange(stream, &request, input));
        if answer.is_err() {
            let _gone = child.kill();
        }
        let status = child.wait().map_err(machine)?;
        match answer.unwrap_or_default().split_first() {
            Some((&SUCCEEDED, answer)) if status.success() => {
                compiled(answer).ok_or_else(|| ended(status, request.seconds))
            }
            Some((&REFUSED, reason)) if status.success() => {
                Err(Refusal::Unfit(String::from_utf8_lossy(reason).into_owned()))
            }
            _ => Err(ended(status, request.seconds)),
        }
    }

    fn start(&self, stream: OwnedFd) -> io::Result<Child> {
        Command::new(&self.program)
            .args(&self.arguments)
            .env("RAYON_NUM_THREADS", THREADS)
            // A backtrace of a compiler without memory would only take longer.
            .env("RUST_BACKTRACE", "0")
            .stdin(stream)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    }

    /// The child's side: compiles the component that comes over standard input, and answers
    /// there, too.
    ///
    /// # Errors
    /// When standard input is not the socket of a parent that asks.
    pub fn serve() -> io::Result<()> {
        let stream = io::stdin().as_fd().try_clone_to_owned()?;
        let stream = UnixStream::from(stream);
        // Nobody waits for the answer where the parent is gone.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let mut input = BufReader::new(&stream);
        let mut header = Vec::new();
        Read::by_ref(&mut input)
            .take(HEADER)
            .read_until(b'\n', &mut header)?;
        let request: Request = serde_json::from_slice(&header)?;
        confine(&request)?;
        let functions = match request.functions {
            Some(length) => {
                let mut bytes = Vec::new();
                Read::by_ref(&mut input)
                    .take(length)
                    .read_to_end(&mut bytes)?;
                Some(Arc::new(Functions::read(bytes)))
            }
            None => None,
        };
        let mut bytes = Vec::new();
        input.read_to_end(&mut bytes)?;
        let compiled =
            panic::catch_unwind(|| precompile(&request.settings, &bytes, functions.clone()));
        let answer = |parts: &[&[u8]]| parts.iter().try_for_each(|p| (&stream).write_all(p));
        match compiled {
            Ok(Ok(code)) => {
                let kept = functions.map(|functions| functions.kept());
                let kept = kept.unwrap_or_default();
                let length = kept.len() as u64;
                answer(&[&[SUCCEEDED], &length.to_le_bytes(), &kept, &code])
            }
            Ok(Err(reason)) => answer(&[&[REFUSED], reason.as_bytes()]),
            Err(_) => answer(&[&[REFUSED], b"makes the compiler fail"]),
        }
    }
}

/// Does `work`, which waits for `child`. The child is terminated if `stop` is set before that.
fn ended_by<T>(stop: Option<&AtomicBool>, child: &Child, work: impl FnOnce() -> T) -> T {
    let Some(stop) = stop else {
        return work();
    };
    let (finished, waiting) = channel::<()>();
    let child = Pid::from_child(child);
    thread::scope(|scope| {
        let watch = move || {
            while waiting.recv_timeout(GRAIN) == Err(RecvTimeoutError::Timeout) {
                if stop.load(Ordering::Relaxed) {
                    // Nobody has waited for the child yet, so the number is still its own.
                    let _gone = kill_process(child, Signal::TERM);
                }
            }
        };
        // Where there is no thread for it, the child's limit of time ends it.
        let _unwatched = thread::Builder::new().spawn_scoped(scope, watch);
        let done = work();
        drop(finished);
        done
    })
}

/// An answer's code and functions.
fn compiled(answer: &[u8]) -> Option<Compiled> {
    let (length, rest) = answer.split_first_chunk()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (functions, code) = rest.split_at_checked(length)?;
    Some(Compiled {
        code: code.to_vec(),
        functions: functions.to_vec(),
    })
}

/// Sends functions and component, and reads the answer.
fn exchange(mut stream: UnixStream, request: &Request, input: [&[u8]; 2]) -> io::Result<Vec<u8>> {
    let mut header = serde_json::to_vec(request)?;
    header.push(b'\n');
    // The child reads all before it answers, so neither side waits for the other.
    let sent = stream
        .write_all(&header)
        .and_then(|()| input.iter().try_for_each(|part| stream.write_all(part)));
    sent.and_then(|()| stream.shutdown(Shutdown::Write))
        .or_else(gone)?;
    let mut answer = Vec::new();
    Read::by_ref(&mut stream)
        .take(ANSWER)
        .read_to_end(&mut answer)
        .map(drop)
        .or_else(gone)?;
    if answer.len() as u64 == ANSWER {
        return Err(io::Error::other("too much code"));
    }
    Ok(answer)
}

/// The other side ended, which its status explains.
fn gone(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Ok(()),
        _ => Err(error),
    }
}

/// What became of a child that did not answer.
fn ended(status: ExitStatus, seconds: u64) -> Refusal {
    let signal = status.signal().and_then(Signal::from_named_raw);
    match signal {
        Some(Signal::XCPU) => Refusal::Limit(format!(
            "takes longer to compile than {seconds} s of processor time, which is for its size; \
             plugins with an interpreter in them, such as Python's, are large: raise \
             plugins.limits.compile_seconds for one that you trust, or build it with \
             optimisation for size"
        )),
        // The allocator aborts; so does a stack that is used up.
        Some(Signal::ABORT | Signal::SEGV | Signal::BUS) => Refusal::Limit(format!(
            "takes more than {} MiB of memory to compile, the most of a plugin: build it with \
             optimisation for size, and split up its largest functions",
            MEMORY >> 20
        )),
        Some(Signal::INT | Signal::TERM | Signal::HUP) => Refusal::Interrupted,
        _ => Refusal::Machine(format!(
            "the process that compiles it was ended by the system ({status}): is there memory left?"
        )),
    }
}

fn precompile(
    settings: &Settings,
    bytes: &[u8],
    functions: Option<Arc<Functions>>,
) -> Result<Vec<u8>, String> {
    let broken = |error: &dyn Display| format!("cannot be compiled here: {error}");
    let mut config = config(settings);
    if let Some(functions) = functions {
        let kept = config.enable_incremental_compilation(functions);
        kept.map_err(|error| broken(&error))?;
    }
    let engine = Engine::new(&config).map_err(|error| broken(&error))?;
    engine
        .precompile_component(bytes)
        .map_err(|error| format!("is no valid component: {}", chain(&error)))
}

/// Limits this process, which has used little of anything so far.
fn confine(request: &Request) -> io::Result<()> {
    let seconds = processor_seconds()?.saturating_add(request.seconds);
    // The signal of the first limit ends the process; the second is for where it is blocked.
    lower(Resource::Cpu, seconds, seconds.saturating_add(1))?;
    let memory = request.memory.saturating_add(data_bytes()?);
    lower(Resource::Data, memory, memory)?;
    lower(Resource::Core, 0, 0)
}

/// Lowers a limit; one that is lower already stays.
fn lower(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let least = |limit: Option<u64>, new: u64| Some(limit.map_or(new, |limit| limit.min(new)));
    setrlimit(
        resource,
        Rlimit {
            current: least(now.current, current),
            maximum: least(now.maximum, maximum),
        },
    )?;
    Ok(())
}

/// Time that this process took so far, rounded up: the program is loaded before it compiles.
fn processor_seconds() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // The second field, in parentheses, may have spaces.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let numbers = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = numbers
        .filter_map(|number| number.parse::<u64>().ok())
        .sum();
    Ok(ticks.div_ceil(clock_ticks_per_second()))
}

/// Bytes of writable memory of its own that this process has.
fn data_bytes() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10)
}
