//! Conversion of errors of calls into messages for the user and the plugin's author.

use std::fmt::{Display, Write as _};

use pbg_core::strategy::FaultCause;
use pbg_core::text::escaped;
use wasmtime::{Trap, WasmBacktrace};

use crate::error::Fault;
use crate::guest::{Interrupted, LimitExceeded};
use crate::limits::Limits;
use crate::log::InstanceLog;

/// Largest number of frames of the guest's stack that a message shows.
const FRAMES: usize = 8;

/// Limits of one call.
#[derive(Clone, Copy)]
pub(crate) struct CallLimits<'a> {
    /// Limits of the plugin.
    pub(crate) plugin: &'a Limits,
    /// Most bytes that this call may pass to the host; no more than the plugin's limit.
    pub(crate) result_bytes: usize,
}

/// Returns the reason why a call ended without an answer. The instance must not be used again.
pub(crate) fn describe(
    error: &wasmtime::Error,
    limits: CallLimits<'_>,
    log: &InstanceLog,
) -> Fault {
    if error.is::<Interrupted>() {
        return Fault {
            reason: Interrupted.to_string(),
            cause: FaultCause::Interruption,
        };
    }
    if lacks_memory(error) {
        return Fault {
            reason: no_memory(error),
            cause: FaultCause::Machine,
        };
    }
    explain(error, limits, log).into()
}

/// Returns whether the system refused memory, which wasmtime reports as an operating system error.
fn lacks_memory(error: &wasmtime::Error) -> bool {
    let refused = |cause: &(dyn std::error::Error + 'static)| {
        let system = cause.downcast_ref::<std::io::Error>();
        system.is_some_and(|system| system.kind() == std::io::ErrorKind::OutOfMemory)
            || cause.downcast_ref() == Some(&rustix::io::Errno::NOMEM)
    };
    error.chain().any(refused)
}

fn no_memory(error: &wasmtime::Error) -> String {
    format!(
        "the system has no memory or address space left for it ({}); allow this process more \
         (ulimit -v), or leave more memory free",
        escaped(&causes(error), 300)
    )
}

/// Returns the message about bytes that are no component, or one that uses what plugins cannot use.
pub(crate) fn invalid_component(reason: impl Display) -> String {
    format!("is not a valid component: {reason}; copy it or build it again")
}

/// Returns the texts of an error and its causes, escaped for a message.
pub(crate) fn chain(error: &wasmtime::Error) -> String {
    escaped(&causes(error), 500)
}

/// Returns the texts of an error and its causes on one line, without the engine's stack trace.
pub(crate) fn causes(error: &wasmtime::Error) -> String {
    let picture = error
        .downcast_ref::<WasmBacktrace>()
        .map(ToString::to_string);
    let texts = error.chain().map(ToString::to_string);
    let texts: Vec<String> = texts
        .filter(|text| Some(text) != picture.as_ref())
        .collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    let lines: Vec<&str> = lines
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join(": ")
}

fn explain(error: &wasmtime::Error, limits: CallLimits<'_>, log: &InstanceLog) -> String {
    let lines: Vec<&str> = log.tail().collect();
    let is_trap = error.downcast_ref() == Some(&Trap::UnreachableCodeReached);
    let (panicked, lines) = match Panic::last_of(&lines).filter(|_| is_trap) {
        Some((panic, before)) => (Some(panic), before),
        None => (None, &lines[..]),
    };
    let mut text = panicked.map_or_else(|| cause(error, limits), |panic| panic.to_string());
    if let Some(trace) = error
        .downcast_ref::<WasmBacktrace>()
        .filter(|t| !t.frames().is_empty())
    {
        let _ = write!(text, "\n  in {}", frames(trace));
    }
    if !lines.is_empty() {
        text.push_str("\n  its last log lines:");
    }
    for line in counted(lines) {
        let _ = write!(text, "\n    {line}");
    }
    text
}

/// A panic in Rust, as the SDK logs it.
struct Panic {
    message: String,
    file: String,
    line: String,
}

impl Panic {
    /// Returns the panic with which a log ends, and the lines before it. Its first line is `panicked at FILE:LINE:COLUMN:`,
    /// and the others are the message.
    fn last_of<'l>(lines: &'l [&'l str]) -> Option<(Self, &'l [&'l str])> {
        let first = lines.iter().rposition(|line| line.starts_with(PANICKED))?;
        let (before, panic) = lines.split_at(first);
        let (place, message) = panic.split_first()?;
        let mut parts = place
            .strip_prefix(PANICKED)?
            .trim_end_matches(':')
            .rsplitn(3, ':');
        let (_column, line, file) = (parts.next()?, parts.next()?, parts.next()?);
        let panic = Self {
            message: message.join(" "),
            file: file.to_owned(),
            line: line.to_owned(),
        };
        Some((panic, before))
    }
}

impl std::fmt::Display for Panic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            message,
            file,
            line,
        } = self;
        write!(f, "panicked: {message} ({file}, line {line})")
    }
}

/// Beginning of the text of a panic.
const PANICKED: &str = "panicked at ";

/// Returns each text once instead of several times in a row, with the number of times.
fn counted<T: AsRef<str> + PartialEq>(texts: &[T]) -> Vec<String> {
    let groups = texts.chunk_by(PartialEq::eq);
    let groups = groups.map(|group| match (group[0].as_ref(), group.len()) {
        (text, 1) => text.to_owned(),
        (text, times) => format!("{text} ({times} times)"),
    });
    groups.collect()
}

fn cause(error: &wasmtime::Error, limits: CallLimits<'_>) -> String {
    let CallLimits {
        plugin: limits,
        result_bytes,
    } = limits;
    if let Some(denied) = error.downcast_ref::<LimitExceeded>() {
        return match denied {
            LimitExceeded::Memory { .. } => {
                format!("{denied}; free what is not needed, or raise plugins.limits.memory_mib")
            }
            LimitExceeded::Table { .. } => format!(
                "{denied}; no plugin needs that many functions (the limit is plugins.limits.table_elements)"
            ),
        };
    }
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return trapped(*trap, limits);
    }
    // Wasmtime reports these only as texts.
    let chain = causes(error);
    if chain.contains("fuel allocated for hostcalls has been exhausted") {
        return match result_bytes < limits.result_bytes {
            true => format!(
                "passed the host more data than any valid answer has: more than {result_bytes} bytes, the limit for \
                 this call; it was not copied"
            ),
            false => format!(
                "passed the host more than {} MiB, the limit for a call; it was not copied; pass less, or raise \
                 plugins.limits.result_mib",
                limits.result_bytes >> 20
            ),
        };
    }
    if chain.contains("handle limit") {
        return format!(
            "holds more than {} resource handles; drop handles that are no longer used, or raise \
             plugins.limits.handles",
            limits.handles
        );
    }
    format!(
        "broke the rules of the component interface: {}; build it with the SDK or with the \
         bindings generator of its language",
        escaped(&chain, 500)
    )
}

fn trapped(trap: Trap, limits: &Limits) -> String {
    match trap {
        Trap::Interrupt => format!(
            "took longer than {} ms and was stopped; look for an endless loop, or raise \
             plugins.limits.deadline_ms",
            limits.deadline_ms
        ),
        Trap::StackOverflow => format!(
            "overflowed its stack of {} KiB; look for endless recursion, or raise plugins.limits.stack_kib",
            limits.stack_bytes >> 10
        ),
        Trap::UnreachableCodeReached => {
            "trapped: it executed `unreachable`, which is how a panic or an abort ends".to_owned()
        }
        Trap::MemoryOutOfBounds => {
            "trapped: out of bounds memory access, a wild pointer or endless recursion".to_owned()
        }
        other => {
            let text = other.to_string();
            format!(
                "trapped: {}",
                text.strip_prefix("wasm trap: ").unwrap_or(&text)
            )
        }
    }
}

/// Returns the innermost functions of the plugin itself, by name if the component kept its name section.
fn frames(trace: &WasmBacktrace) -> String {
    let all = trace.frames().iter().map(|frame| match frame.func_name() {
        Some(name) => escaped(&format!("{:#}", rustc_demangle::demangle(name)), 120),
        None => format!("function {}", frame.func_index()),
    });
    summary(all.collect())
}

/// Joins the names, without those between a panic and its trap, and with repeated names counted.
fn summary(names: Vec<String>) -> String {
    let panicking = |name: &str| {
        PANICKING.iter().any(|module| name.starts_with(module)) || name.ends_with("rust_panic")
    };
    let own = names
        .iter()
        .rposition(|name| panicking(name))
        .map_or(0, |last| last + 1);
    // A plugin that consists only of panic machinery is shown completely.
    let own = if own == names.len() { 0 } else { own };
    let mut shown = counted(&names[own..]);
    if shown.len() > FRAMES {
        shown.truncate(FRAMES);
        shown.push("...".to_owned());
    }
    shown.join(" < ")
}

/// Modules of Rust's standard library between `panic!` and the trap.
const PANICKING: [&str; 5] = [
    "__rustc::",
    "std::panicking",
    "core::panicking",
    "std::sys::backtrace",
    "core::result::unwrap_failed",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_with_its_line() {
        let logged = [
            "before",
            "panicked at src/lib.rs:38:45:",
            "index out of bounds: the len is 0 but the index is 4",
        ];
        let (panic, before) = Panic::last_of(&logged).unwrap();
        assert_eq!(
            panic.to_string(),
            "panicked: index out of bounds: the len is 0 but the index is 4 (src/lib.rs, line 38)"
        );
        assert_eq!(before, ["before"]);
        for other in [&["panicked at home"][..], &["nothing"], &[]] {
            assert!(Panic::last_of(other).is_none(), "{other:?}");
        }
    }

    #[test]
    fn frames_start_at_the_plugin_and_count_repetition() {
        let names = [
            "__rustc::rust_panic",
            "std::panicking::panic_with_hook",
            "core::panicking::panic_fmt",
            "spiral::turn",
            "spiral::turn",
            "spiral::turn",
            "pbg:plugin/bucket-order@0.1.0#plan",
        ];
        let names = names.map(str::to_owned).to_vec();
        assert_eq!(
            summary(names),
            "spiral::turn (3 times) < pbg:plugin/bucket-order@0.1.0#plan"
        );
        assert_eq!(
            summary(vec!["__rustc::rust_panic".to_owned()]),
            "__rustc::rust_panic"
        );
    }
}
