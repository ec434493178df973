//! Integration tests: the real binary on small graphs, as a user runs it.

#![expect(
    clippy::disallowed_methods,
    reason = "tests wait for programs and threads"
)]
#![expect(clippy::unwrap_used, reason = "a test whose own files fail has failed")]
#![expect(
    clippy::print_stderr,
    reason = "tests say which case failed, and why one was skipped"
)]

mod asked_relations;
mod authoring;
mod bad_input;
mod bench;
mod bounds;
mod browser;
mod calibration;
mod combine;
mod command_line;
mod comparators;
mod counted_bytes;
mod crash;
mod describe;
mod device;
mod documents;
mod first_run;
mod folders;
mod formulas;
mod golden;
mod gpu_script;
mod growth;
mod held_out;
mod hostile_plugins;
mod house;
mod hub;
mod identity;
mod import_files;
mod import_formats;
mod index;
mod initial_operators;
mod listed_candidates;
mod map;
mod memory_limits;
mod missing_edges;
mod negative_selection;
mod negatives;
#[path = "../object_store.rs"]
mod object_store;
mod object_stores;
mod orders;
mod other_tools;
mod peaks;
mod plugin_comparators;
mod plugin_losses;
mod plugin_operators;
mod plugin_rights;
mod predict;
mod python_faults;
mod ranks_by;
mod reading;
mod recall;
mod registries;
#[path = "../registry_server.rs"]
mod registry_server;
mod related;
mod relation_prediction;
mod resume;
mod run_length;
mod runs;
mod sandbox_limits;
mod schedules;
mod sdks;
mod serve;
mod stops;
mod stored;
mod studies;
mod support;
mod together;
#[path = "../tools.rs"]
mod tools;
mod training_metrics;
mod tutorials;
mod validation;
mod worlds;
