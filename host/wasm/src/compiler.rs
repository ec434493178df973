//! Compilation in a child process with limited time and memory.
//!
//! The compiler cannot be interrupted, and its cost does not follow from a component's size. So the program starts
//! itself once more: the child receives the component over a socket, limits itself, compiles, and answers with the code
//! and with functions that the next component may contain, too. Nothing else of the child is used, and a plugin whose
//! code is in the cache starts no child.

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

#[cfg(target_os = "linux")]
use rustix::process::set_parent_process_death_signal;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use wasmtime::Engine;

use crate::engine::{CodegenSettings, config};
use crate::fault::{self, chain};
use crate::function_cache::{self, FunctionCache};
use crate::limits::Limits;

/// Largest amount of memory (bytes) of the compiler. CPython and SpiderMonkey, the largest known components, take 600
/// MiB.
pub(crate) const MEMORY: u64 = 1 << 30;
/// Largest size (bytes) of an answer: the code, which has 35 MiB for CPython, and functions.
const ANSWER: u64 = (256 << 20) + function_cache::CAPACITY as u64;
/// Number of threads that compile. More of them would share the processor time, and each takes memory.
const THREADS: &str = "4";
/// Interval at which a running compilation checks whether it was interrupted.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Largest size (bytes) of the header that precedes a component.
const HEADER: u64 = 4096;

/// First byte of an answer.
const SUCCEEDED: u8 = 0;
const REFUSED: u8 = 1;

/// Command that starts the child that compiles.
#[derive(Clone, Debug)]
pub struct CompilerProcess {
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// Code that the child answered with. Only this module creates one.
pub(crate) struct CompilerOutput {
    code: Vec<u8>,
    functions: Vec<u8>,
}

impl CompilerOutput {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.code
    }

    /// Returns the functions for the next compilation, which replace those that this one was given. Empty if these have
    /// not changed.
    pub(crate) fn functions(&self) -> &[u8] {
        &self.functions
    }
}

/// Reason why there is no code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CompileRefusal {
    /// The bytes are not a component, or the component exceeds a limit on its contents.
    Unfit(String),
    /// Compiling it takes more time or memory than allowed.
    Limit(String),
    /// The system does not provide the resources for compiling.
    Machine(String),
    /// The user interrupted the compilation.
    Interrupted,
}

/// Header that the child receives before the component.
#[derive(Serialize, Deserialize)]
struct Request {
    settings: CodegenSettings,
    seconds: u64,
    memory: u64,
    /// Bytes of functions that precede the component; `None` if functions are not kept.
    functions: Option<u64>,
}

impl CompilerProcess {
    /// Argument with which [`CompilerProcess::this_program`] starts the program, so that it calls
    /// [`CompilerProcess::serve`].
    pub const ARGUMENT: &str = "compile-for-parent";

    /// Creates a compiler whose child is `program` with `arguments`. With these the program must call
    /// [`CompilerProcess::serve`] before anything else.
    #[must_use]
    pub fn new(program: PathBuf, arguments: Vec<OsString>) -> Self {
        Self { program, arguments }
    }

    /// Creates a compiler whose child is this very program; on Linux even if its file was replaced since it started.
    #[must_use]
    pub fn this_program() -> Self {
        let usual = PathBuf::from("/proc/self/exe");
        let program = match cfg!(target_os = "linux") {
            true => usual,
            false => std::env::current_exe().unwrap_or(usual),
        };
        Self::new(program, vec![Self::ARGUMENT.into()])
    }

    /// Compiles the component `bytes`. Setting `stop` ends the child. `functions` are those that the last compilation
    /// answered with; `None` if functions are not kept.
    ///
    /// # Errors
    /// When the child rejects the component, or is ended by its limits or by `stop`.
    pub(crate) fn compile(
        &self,
        settings: &CodegenSettings,
        limits: &Limits,
        bytes: &[u8],
        functions: Option<&[u8]>,
        stop: Option<&AtomicBool>,
    ) -> Result<CompilerOutput, CompileRefusal> {
        let machine = |error: io::Error| {
            CompileRefusal::Machine(format!(
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
        // A child that ends early leaves a broken pipe; its exit status says more.
        let answer = ended_by(stop, &child, || exchange(stream, &request, input));
        if answer.is_err() {
            let _gone = child.kill();
        }
        let status = child.wait().map_err(machine)?;
        match answer.unwrap_or_default().split_first() {
            Some((&SUCCEEDED, answer)) if status.success() => {
                compiled(answer).ok_or_else(|| ended(status, request.seconds))
            }
            Some((&REFUSED, reason)) if status.success() => Err(CompileRefusal::Unfit(
                String::from_utf8_lossy(reason).into_owned(),
            )),
            _ => Err(ended(status, request.seconds)),
        }
    }

    fn start(&self, stream: OwnedFd) -> io::Result<Child> {
        Command::new(&self.program)
            .args(&self.arguments)
            .env("RAYON_NUM_THREADS", THREADS)
            // A backtrace of a compiler that ran out of memory would only take time.
            .env("RUST_BACKTRACE", "0")
            .stdin(stream)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    }

    /// Runs the child: compiles the component that arrives over standard input, and answers over the same socket.
    ///
    /// # Errors
    /// When standard input is not the socket of a parent that sends a request.
    pub fn serve() -> io::Result<()> {
        let stream = io::stdin().as_fd().try_clone_to_owned()?;
        let stream = UnixStream::from(stream);
        // If the parent is gone, nobody waits for the answer. Other systems find out when it is written.
        #[cfg(target_os = "linux")]
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
                Some(Arc::new(FunctionCache::read(bytes)))
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
                let kept = functions.map(|functions| functions.to_file());
                let kept = kept.unwrap_or_default();
                let length = kept.len() as u64;
                answer(&[&[SUCCEEDED], &length.to_le_bytes(), &kept, &code])
            }
            Ok(Err(reason)) => answer(&[&[REFUSED], reason.as_bytes()]),
            Err(_) => answer(&[&[REFUSED], b"crashes the compiler"]),
        }
    }
}

/// Does `work`, which waits for `child`. If `stop` is set before it is done, terminates the child.
fn ended_by<T>(stop: Option<&AtomicBool>, child: &Child, work: impl FnOnce() -> T) -> T {
    let Some(stop) = stop else {
        return work();
    };
    let (finished, waiting) = channel::<()>();
    let child = Pid::from_child(child);
    thread::scope(|scope| {
        let watch = move || {
            while waiting.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if stop.load(Ordering::Relaxed) {
                    // Nobody has waited for the child yet, so the process id still belongs to it.
                    let _gone = kill_process(child, Signal::TERM);
                }
            }
        };
        // If the thread cannot be started, the child's time limit ends it.
        let _unwatched = thread::Builder::new().spawn_scoped(scope, watch);
        let done = work();
        drop(finished);
        done
    })
}

/// Splits an answer into code and functions.
fn compiled(answer: &[u8]) -> Option<CompilerOutput> {
    let (length, rest) = answer.split_first_chunk()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (functions, code) = rest.split_at_checked(length)?;
    Some(CompilerOutput {
        code: code.to_vec(),
        functions: functions.to_vec(),
    })
}

/// Sends functions and component, and reads the answer.
fn exchange(mut stream: UnixStream, request: &Request, input: [&[u8]; 2]) -> io::Result<Vec<u8>> {
    let mut header = serde_json::to_vec(request)?;
    header.push(b'\n');
    // The child reads everything before it answers, so the two sides cannot block each other.
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

/// Ignores that the other side ended, since its exit status explains it.
fn gone(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Ok(()),
        _ => Err(error),
    }
}

/// Returns why a child ended without an answer.
fn ended(status: ExitStatus, seconds: u64) -> CompileRefusal {
    let signal = status.signal().and_then(Signal::from_named_raw);
    match signal {
        Some(Signal::XCPU) => CompileRefusal::Limit(format!(
            "takes longer to compile than the {seconds} s of processor time allowed for its size; \
             plugins that contain an interpreter, such as those in Python, are large: raise \
             plugins.limits.compile_seconds for a plugin that you trust, or build it with \
             optimisation for size"
        )),
        // The allocator aborts; a stack overflow ends with one of the other signals.
        Some(Signal::ABORT | Signal::SEGV | Signal::BUS) => CompileRefusal::Limit(format!(
            "takes more than {} MiB of memory to compile, the limit for a plugin: build it with \
             optimisation for size, and split up its largest functions",
            MEMORY >> 20
        )),
        Some(Signal::INT | Signal::TERM | Signal::HUP) => CompileRefusal::Interrupted,
        _ => CompileRefusal::Machine(format!(
            "the process that compiles it was ended by the system ({status}); check that enough memory is free"
        )),
    }
}

fn precompile(
    settings: &CodegenSettings,
    bytes: &[u8],
    functions: Option<Arc<FunctionCache>>,
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
        .map_err(|error| fault::invalid_component(chain(&error)))
}

/// Limits this process, which has used few resources so far.
fn confine(request: &Request) -> io::Result<()> {
    let seconds = processor_seconds().saturating_add(request.seconds);
    // The signal of the soft limit ends the process; the hard limit is for processes that block the signal.
    lower(Resource::Cpu, seconds, seconds.saturating_add(1))?;
    let memory = request.memory.saturating_add(data_bytes()?);
    lower(Resource::Data, memory, memory)?;
    lower(Resource::Core, 0, 0)
}

/// Lowers a limit, unless it is already lower.
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

/// Returns the processor time (seconds) that this process has used so far, rounded up. The program uses some before it
/// compiles.
fn processor_seconds() -> u64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec.unsigned_abs() + u64::from(used.tv_nsec > 0)
}

/// Returns the bytes of private writable memory of this process, 0 where the system does not report them.
fn data_bytes() -> io::Result<u64> {
    if cfg!(not(target_os = "linux")) {
        return Ok(0);
    }
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10)
}
