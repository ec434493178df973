//! Lines for the host's log. The host shows them at once, and the last lines again with a fault.
//!
//! The host escapes control characters, truncates long lines, and drops lines above the limit per
//! call. In native tests, the lines are printed and kept, so that the test can [`take`] them.
//!
//! ```
//! use pbg_plugin_sdk::log;
//! log::info("three layers");
//! # #[cfg(not(target_family = "wasm"))]
//! assert_eq!(log::take(), [(log::Level::Info, "three layers".to_owned())]);
//! ```

/// Severity of a line.
///
/// ```
/// use pbg_plugin_sdk::log::Level;
/// assert!(Level::Debug < Level::Error);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For the plugin's author.
    Debug,
    /// For the user.
    Info,
    /// Something unexpected, after which training goes on.
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

/// Writes one line for the user.
///
/// ```
/// pbg_plugin_sdk::log::info(format!("{} layers", 4));
/// ```
pub fn info(message: impl AsRef<str>) {
    write(Level::Info, message.as_ref());
}

/// Writes one line about something unexpected.
///
/// ```
/// pbg_plugin_sdk::log::warn("all buckets are empty");
/// ```
pub fn warn(message: impl AsRef<str>) {
    write(Level::Warn, message.as_ref());
}

/// Writes one line that explains the fault that follows. Not needed for panics, whose messages are logged anyway.
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

    /// Returns the lines that this thread has written since the last call; only outside the sandbox.
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

/// Writes a line to the log, like [`log::info`](crate::log::info), with the arguments of the standard library's macro of
/// this name. In a sandbox, the output of the standard macro is silently lost. `#[macro_use] extern crate pbg_plugin_sdk;`
/// at the start of a plugin, which new projects have, replaces it in all modules; `use pbg_plugin_sdk::println;` replaces
/// it in one module.
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

/// Writes a warning to the log, like [`log::warn`](crate::log::warn); see [`println!`](crate::println).
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
