//! Follows the tutorials: writes their files and runs their commands, in an empty folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::authoring::alone_with_the_build_folder;
use crate::support::{COMPILED, Workplace, finish};
use crate::tools::without;

/// Fenced block: the words after the fence, and the text.
type Block = (String, String);

fn blocks(tutorial: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in tutorial.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(words)) => open = Some((words.to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some((_, text)), None) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block does not end");
    blocks
}

/// Follows a tutorial, with `tools` before everything else on the `PATH`.
fn follow(tutorial: &str, tools: &[PathBuf]) {
    let text = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/plugins")
            .join(tutorial),
    );
    let place = Workplace::empty();
    let bin = place.path("bin");
    fs::create_dir(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_pbg-host"), bin.join("pbg-host")).unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(bin).chain(tools.iter().cloned());
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&path))).unwrap();
    let mut commands = 0;
    for (words, text) in blocks(&text.unwrap()) {
        if let Some((_, file)) = words.split_once(" file=") {
            place.write(&format!("work/{file}"), text);
        } else if words == "sh" {
            let mut shell = Command::new("sh");
            shell.args(["-euc", &text]).current_dir(place.path("work"));
            shell.env("PATH", &path).env("CARGO_NET_OFFLINE", "true");
            let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("authoring");
            shell.env("CARGO_TARGET_DIR", target);
            shell.env("PBG_HOST_CACHE", COMPILED);
            fs::create_dir_all(place.path("work")).unwrap();
            let _alone = text
                .contains("cargo test")
                .then(alone_with_the_build_folder);
            finish(&mut shell).succeeds();
            commands += 1;
        }
    }
    assert!(commands >= 4, "{commands} blocks of commands");
}

#[test]
fn the_tutorial_for_rust() {
    if !crate::authoring::has_wasm_target() {
        without("wasm", "the compiler has no wasm32-unknown-unknown");
        return;
    }
    follow("tutorial-rust.md", &[]);
}

#[test]
fn the_tutorial_for_python() {
    let Some(python) = std::env::var_os("PBG_TEST_PYTHON") else {
        without(
            "python",
            "PBG_TEST_PYTHON names no environment with componentize-py",
        );
        return;
    };
    let folder = Path::new(&python).parent().unwrap().to_owned();
    assert!(
        folder.join("componentize-py").is_file(),
        "{}",
        folder.display()
    );
    follow("tutorial-python.md", &[folder]);
}

#[test]
fn the_tutorial_for_javascript() {
    let tools = std::env::var_os("PBG_TEST_JAVASCRIPT").map(PathBuf::from);
    let has = |program: &Path| Command::new(program).arg("--help").output().is_ok();
    match tools.filter(|folder| has(&folder.join("componentize-qjs")) && has(Path::new("node"))) {
        Some(folder) => follow("tutorial-javascript.md", &[folder]),
        None => without(
            "node",
            "PBG_TEST_JAVASCRIPT names no folder with componentize-qjs",
        ),
    }
}

#[test]
fn the_tutorial_for_c() {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if has("clang") && has("wasm-ld") {
        follow("tutorial-c.md", &[]);
    } else {
        without("clang", "there is no clang with lld");
    }
}
