//! Integration tests: the real binary on small graphs, as a user runs it.

mod bad_input;
mod command_line;
mod first_run;
mod hostile_plugins;
mod other_tools;
mod resume;
mod support;
