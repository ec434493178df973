//! Lines for the host's log: shown as they come, and the last of them with a fault.
//!
//! The host escapes control characters, cuts long lines and drops what exceeds a number of lines
//! per call. Natively the lines are kept for the test to look at, and shown with its output.
//!
//! ```
//! use pbg_plugin_sdk::log;
//! log::info("three layers");
//! # #[cfg(not(target_family = "wasm"))]
//! assert_eq!(log::take(), [(log::Level::Info, "three layers".to_owned())]);
//! ```

/// How much a line matters.
///
/// ```
/// use pbg_plugin_sdk::log::Level;
/// assert!(Level::Debug < Level::Error);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For the plugin's author.
    Debug,
    /// For the person who trains.
    Info,
    /// Something is odd, and training goes on.
    Warn,
    /// Shown with the message of the fault that follows.
    Error,
}

/// Writes one line for the plugin's author.
///
/// ```
/// pbg_plugin_sdk::log::debug("layer 2 has 5 buckets");
/// ```
pub fn debug(message: impl AsRef<str>) {
    write(Level::Debug, message.as_ref());
}

/// Writes one line for the person who trains.
///
/// ```
/// pbg_plugin_sdk::log::info(format!("{} layers", 4));
/// ```
pub fn info(message: impl AsRef<str>) {
    write(Level::Info, message.as_ref());
}

/// Writes one line about something odd.
///
/// ```
/// pbg_plugin_sdk::log::warn("all buckets are empty");
/// ```
pub fn warn(message: impl AsRef<str>) {
    write(Level::Warn, message.as_ref());
}

/// Writes one line that explains the fault to come. Panics write theirs without help.
///
/// ```
/// pbg_plugin_sdk::log::error("the grid is not square");
/// ```
pub fn error(message: impl AsRef<str>) {
    write(Level::Error, message.as_ref());
}

#[cfg(target_family = "wasm")]
fn write(level: Level, message: &str) {
    crate::glue::write_log(level, message);
}

#[cfg(not(target_family = "wasm"))]
use native::write;

#[cfg(not(target_family = "wasm"))]
pub use native::take;

#[cfg(not(target_family = "wasm"))]
mod native {
    use super::Level;
    use std::cell::RefCell;

    thread_local! {
        static LINES: RefCell<Vec<(Level, String)>> = const { RefCell::new(Vec::new()) };
    }

    #[expect(clippy::print_stdout, reason = "the output of a test")]
    pub(super) fn write(level: Level, message: &str) {
        std::println!("{level:?}: {message}");
        LINES.with_borrow_mut(|lines| lines.push((level, message.to_owned())));
    }

    /// The lines that this thread wrote since the last call; only outside the sandbox.
    ///
    /// ```
    /// use pbg_plugin_sdk::log;
    /// log::warn("odd");
    /// assert_eq!(log::take().len(), 1);
    /// assert!(log::take().is_empty());
    /// ```
    #[must_use]
    pub fn take() -> Vec<(Level, String)> {
        LINES.take()
    }
}

/// Writes a line to the log, as [`log::info`](crate::log::info) does, with the arguments of the macro of this name in
/// the standard library. That one's lines go nowhere in a sandbox, silently. `#[macro_use] extern crate pbg_plugin_sdk;`
/// where a plugin's code begins, which new projects have, puts this one in its place in all of its modules; so does
/// `use pbg_plugin_sdk::println;` in one.
///
/// ```
/// use pbg_plugin_sdk::{log, println};
/// println!("{} layers", 3);
/// # #[cfg(not(target_family = "wasm"))]
/// assert_eq!(log::take(), [(log::Level::Info, "3 layers".to_owned())]);
/// ```
#[macro_export]
macro_rules! println {
    ($($argument:tt)*) => { $crate::log::info(::std::format!($($argument)*)) };
}

/// The same for warnings.
///
/// ```
/// use pbg_plugin_sdk::{eprintln, log};
/// eprintln!("{} layers are empty", 2);
/// # #[cfg(not(target_family = "wasm"))]
/// assert_eq!(log::take(), [(log::Level::Warn, "2 layers are empty".to_owned())]);
/// ```
#[macro_export]
macro_rules! eprintln {
    ($($argument:tt)*) => { $crate::log::warn(::std::format!($($argument)*)) };
}
