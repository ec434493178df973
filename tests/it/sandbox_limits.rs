//! Limits on plugins that do not depend on a deadline: compilation, Ctrl-C, stacks, address space, and output to the
//! terminal.

use std::fs;
use std::process::Command;

use pbg_library_tests::bombs::{Bomb, below_every_cap, counted};
use serde_json::json;

use crate::support::loss::{margin, traced};
use crate::support::plugin::{ROW_BY_ROW, talkative, with_plan};
use crate::support::{Finished, Workplace, finish, graph::CONFIG, with};

/// Runs the program in a shell that sets `limit` first.
fn limited(place: &Workplace, limit: &str, arguments: &str) -> Finished {
    let program = place.command([""; 0]);
    let mut shell = Command::new("sh");
    let line = format!("{limit}; exec \"$PROGRAM\" {arguments}");
    shell.args(["-c", &line]).current_dir(place.path("."));
    shell.env("PROGRAM", program.get_program());
    shell.env("PBG_HOST_CACHE", "");
    finish(&mut shell)
}

#[test]
fn what_cannot_be_compiled_in_time_is_refused_by_name() {
    let place = Workplace::empty();
    for (name, bytes, reason) in counted(&with_plan(ROW_BY_ROW)) {
        place.write("bomb.wasm", bytes);
        let reason = reason.expect(name);
        place
            .run(["plugin", "inspect", "bomb.wasm"])
            .fails(6, &["bomb.wasm", reason]);
    }
    let mut refused = 0;
    for (name, bytes, _) in below_every_cap(&with_plan(ROW_BY_ROW)) {
        let bomb: Bomb = (name, bytes, None);
        place.write("bomb.wasm", &bomb.1);
        let run = place.run(["plugin", "inspect", "bomb.wasm"]);
        if run.code() == Some(0) {
            assert!(run.stdout.contains("evil 6.6.6"), "{name}: {}", run.stdout);
            continue;
        }
        let limits = ["compile_seconds", "of memory to compile", "count too high"];
        assert!(
            limits.iter().any(|limit| run.stderr.contains(limit)),
            "{name}: {}",
            run.stderr
        );
        run.fails(6, &["bomb.wasm"]);
        refused += 1;
    }
    assert!(
        refused > 0,
        "every component was compiled, none was refused"
    );
}

#[test]
fn ctrl_c_ends_a_call_that_is_at_work() {
    let place = Workplace::with_dataset(CONFIG);
    place.write("evil.wasm", with_plan("(loop $l (br $l)) unreachable"));
    let mut run = place.start([
        "train",
        "--plugin",
        "evil.wasm",
        "--progress",
        "plain",
        "--set",
        "plugins.limits.deadline_ms=3600000",
    ]);
    let log = place.path("stderr.txt");
    let begun = || fs::read_to_string(&log).is_ok_and(|said| said.contains("training "));
    assert!(
        run.wait_until(begun),
        "the program ended before the signal: {}",
        run.stderr()
    );
    run.signal("INT");
    let ended = run.finish();
    assert_eq!(ended.code(), Some(130), "{}", ended.stderr);
    // An interrupted plugin has not failed.
    assert!(!place.path("model/faults").exists());
    let other = ["train", "--allow-plugin-change", "--progress", "none"];
    place.run(other).succeeds();
}

/// Returns the processes that `pid` started and that still run.
fn children(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
    {
        let list = thread.unwrap().path().join("children");
        let list = fs::read_to_string(list).unwrap_or_default();
        found.extend(list.split_whitespace().map(|id| id.parse::<u32>().unwrap()));
    }
    found
}

/// Asserts that a signal during the compilation of a plugin ends the program like Ctrl-C, and its child too. The signal
/// goes to `all` processes of the command, as a terminal sends it, or to the program alone, as `kill` and service
/// managers send it.
fn ends_a_compilation(signal: &str, all: bool) {
    let place = Workplace::with_dataset(CONFIG);
    let bombs = below_every_cap(&with_plan(ROW_BY_ROW));
    let long = bombs
        .into_iter()
        .find(|(name, ..)| *name == "two functions of 500 KB with 4900 locals");
    place.write("slow.wasm", long.expect("the list has this component").1);
    let patient = ["plugins.limits.compile_seconds=3600"];
    let mut run = place.start(with(&["train", "--plugin", "slow.wasm"], &patient));
    let pid = run.id();
    let mut compilers = Vec::new();
    let begun = || {
        compilers = children(pid);
        !compilers.is_empty()
    };
    assert!(run.wait_until(begun), "{}", run.stderr());
    run.signal(signal);
    for compiler in compilers.iter().filter(|_| all) {
        let mut kill = Command::new("kill");
        let sent = kill.args(["-s", signal, &compiler.to_string()]);
        assert!(sent.status().unwrap().success());
    }
    let ended = run.finish();
    assert_eq!(ended.code(), Some(130), "{}", ended.stderr);
    for compiler in compilers {
        let left = fs::read_to_string(format!("/proc/{compiler}/cmdline")).unwrap_or_default();
        assert!(!left.contains("pbg-host"), "{compiler} still compiles");
    }
}

#[test]
fn ctrl_c_ends_a_compilation() {
    ends_a_compilation("INT", true);
}

#[test]
fn terminating_the_program_alone_ends_a_compilation() {
    ends_a_compilation("TERM", false);
}

#[test]
fn a_formula_that_is_not_finite_is_named_and_can_be_asked_again() {
    let place = Workplace::with_dataset(CONFIG);
    // Finite, and too large to be summed.
    place.write("evil.wasm", traced(&margin("(f32.const 3e38)")));
    let train = ["train", "--plugin", "evil.wasm", "--progress", "none"];
    let file = "model/faults/evil-evaluate-1.json";
    let words = ["evil 6.6.6: evaluate", "its formula gives inf as loss"];
    let run = place.run(train).fails(6, &[words[0], words[1], file]);
    assert!(!run.stderr.contains("lower `lr`"), "{}", run.stderr);
    place.run(["plugin", "replay", file]).fails(6, &words);
    let other = ["plugin", "replay", file, "--plugin", "softmax"];
    let other = place.run(other).succeeds();
    assert!(other.stdout.contains("on average"), "{}", other.stdout);
}

#[test]
fn a_stack_that_no_thread_has_is_refused() {
    let place = Workplace::empty();
    limited(&place, "ulimit -s 512", "plugin inspect inside_out")
        .fails(3, &["stack_kib is 512", "256 KiB", "ulimit -s"]);
    limited(&place, "ulimit -s 1024", "plugin inspect inside_out").succeeds();
}

#[test]
fn few_addresses_are_enough_or_are_named() {
    let place = Workplace::with_dataset(CONFIG);
    let train = "train --progress none --set num_epochs=1";
    limited(&place, "ulimit -v 4194304", train).succeeds();
    let large = format!("{train} --set num_uniform_negs=16000000 --set checkpoint_path=large");
    limited(&place, "ulimit -v 4194304", &large).fails(8, &["GiB of memory", "ulimit -v"]);
}

#[test]
fn what_all_calls_of_a_run_log_has_an_end() {
    let place = Workplace::with_dataset(CONFIG);
    place.write("evil.wasm", talkative(90));
    let train = "train --plugin evil.wasm --progress plain --set num_epochs=30";
    let run = place.run(train.split(' ')).succeeds();
    let lines = run.stderr.lines();
    let lines = lines.filter(|line| line.contains("no good")).count();
    assert!((500..=1000).contains(&lines), "{lines} lines");
    assert!(run.stderr.contains("run_log_lines"), "{}", run.stderr);
}

/// Threads reserve address space that they do not use.
#[test]
fn many_workers_need_few_addresses() {
    let place = Workplace::with_dataset(CONFIG);
    let keys =
        "--set workers=24 --set dimension=200 --set num_uniform_negs=1000 --set batch_size=500";
    let train = format!("train --progress none --set num_epochs=1 {keys}");
    limited(&place, "ulimit -v 700000", &train).succeeds();
    // The program that is started again gets the same arguments.
    let json = "eval --checkpoint model --json --limit 3";
    let ranks = limited(&place, "ulimit -v 1048576", json).succeeds();
    assert!(ranks.stdout.starts_with('{'), "{}", ranks.stdout);
}

#[test]
fn messages_neutralise_what_files_say() {
    let place = Workplace::with_dataset(CONFIG);
    place.write("evil.wasm", with_plan("unreachable"));
    place
        .run(["train", "--plugin", "evil.wasm", "--progress", "none"])
        .fails(6, &["plan"]);
    let file = "model/faults/evil-plan-1.json";
    let mut replay: serde_json::Value = serde_json::from_str(&place.read(file)).unwrap();
    replay["source"] = json!("no\u{1b}[2J\u{61c}where.wasm");
    place.write("forged.json", replay.to_string());
    let run = place
        .run(["plugin", "replay", "forged.json"])
        .fails(6, &["no\\u{1b}[2J\\u{61c}where.wasm"]);
    assert!(
        !run.stderr.contains(['\u{1b}', '\u{61c}']),
        "{}",
        run.stderr
    );
    // A line end in a message is not escaped.
    let run = place.run(["plugin", "replay", file]).fails(6, &["plan"]);
    for escaped in ["\\n", "\\u{a}"] {
        assert!(!run.stderr.contains(escaped), "{}", run.stderr);
    }
    // Names of entities, and headers of columns.
    let train = "train --progress none --allow-plugin-change --set num_epochs=1";
    place.run(train.split(' ')).succeeds();
    let near = ["neighbors", "pbg.toml", "no\u{1b}[2J\u{61c}where"];
    let near = place.run(near).fails(4, &["no\\u{1b}[2J\\u{61c}where"]);
    place.write("other.csv", "he\u{1b}[2Jad,rel\u{61c},tail\nx,y,z\n");
    let import = place.run(["import", "--edges", "other=other.csv"]);
    let import = import.fails(4, &["he\\u{1b}[2Jad", "rel\\u{61c}"]);
    for said in [near.stderr, import.stderr] {
        assert!(!said.contains(['\u{1b}', '\u{61c}']), "{said}");
    }
    // A manifest, too.
    let manifest = place.read("data/manifest.json");
    let forged = manifest.replacen('{', "{\"no\\u001b[2J\\u061c\": 1,", 1);
    place.write("data/manifest.json", forged);
    let run = place.run(["check"]);
    assert_ne!(run.code(), Some(0));
    assert!(
        !run.stderr.contains(['\u{1b}', '\u{61c}']),
        "{}",
        run.stderr
    );
}
