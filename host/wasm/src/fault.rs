//! Turns what went wrong in a call into a text for the user and the plugin's author.

use std::fmt::Write as _;

use wasmtime::{Trap, WasmBacktrace};

use crate::guest::Denied;
use crate::limits::Limits;
use crate::log::GuestLog;
use crate::text::neutral;

/// Frames of the guest's stack that a message shows.
const FRAMES: usize = 8;

/// Why a call ended without an answer. The instance is gone.
pub(crate) fn describe(error: &wasmtime::Error, limits: &Limits, log: &GuestLog) -> String {
    let mut text = cause(error, limits);
    if let Some(trace) = error
        .downcast_ref::<WasmBacktrace>()
        .filter(|t| !t.frames().is_empty())
    {
        let _ = write!(text, "\n  in {}", frames(trace));
    }
    let mut lines = log.tail().peekable();
    if lines.peek().is_some() {
        text.push_str("\n  its last log lines:");
        for line in lines {
            let _ = write!(text, "\n    {line}");
        }
    }
    text
}

fn cause(error: &wasmtime::Error, limits: &Limits) -> String {
    if let Some(denied) = error.downcast_ref::<Denied>() {
        return match denied {
            Denied::Memory { .. } => {
                format!("{denied}; free what is not needed, or raise plugins.limits.memory_mib")
            }
            Denied::Table { .. } => format!("{denied}; no plugin needs as many functions"),
        };
    }
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return trapped(*trap, limits);
    }
    // These come as texts only.
    let chain = error
        .chain()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ");
    if chain.contains("fuel allocated for hostcalls has been exhausted") {
        return "handed over more data than any valid answer has; it was not copied".to_owned();
    }
    if chain.contains("handle limit") {
        return format!(
            "holds more than {} resource handles; drop what is done with",
            limits.handles
        );
    }
    format!(
        "broke the rules of the component interface: {}; build it with the SDK or with the \
         bindings generator of its language",
        neutral(&chain, 500)
    )
}

fn trapped(trap: Trap, limits: &Limits) -> String {
    match trap {
        Trap::Interrupt => format!(
            "took longer than {} ms and was stopped; look for a loop without end, or raise \
             plugins.limits.deadline_ms",
            limits.deadline_ms
        ),
        Trap::StackOverflow => format!(
            "overflowed its stack of {} KiB; look for recursion without end",
            limits.stack_bytes >> 10
        ),
        Trap::UnreachableCodeReached => {
            "trapped: it executed `unreachable`, which is how a panic or an abort ends".to_owned()
        }
        Trap::MemoryOutOfBounds => {
            "trapped: out of bounds memory access, a wild pointer or recursion without end"
                .to_owned()
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

/// The innermost functions, by name where the component kept its name section.
fn frames(trace: &WasmBacktrace) -> String {
    let all = trace.frames();
    let mut names: Vec<String> = all
        .iter()
        .take(FRAMES)
        .map(|frame| match frame.func_name() {
            Some(name) => neutral(name, 120),
            None => format!("function {}", frame.func_index()),
        })
        .collect();
    if all.len() > FRAMES {
        names.push(format!("{} more", all.len() - FRAMES));
    }
    names.join(" < ")
}
