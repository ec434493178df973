//! Commands that need no training: help, completions, configuration, usage errors.

use std::process::{Command, Stdio};

use crate::support::{Workplace, finish};

const COMMANDS: [&[&str]; 17] = [
    &[],
    &["import"],
    &["train"],
    &["eval"],
    &["predict"],
    &["neighbors"],
    &["score"],
    &["export"],
    &["combine"],
    &["check"],
    &["config"],
    &["config", "schema"],
    &["config", "default"],
    &["config", "new"],
    &["plugin", "list"],
    &["plugin", "inspect"],
    &["completions"],
];

#[test]
fn every_command_explains_itself() {
    let place = Workplace::empty();
    for command in COMMANDS {
        let help = place.run(command.iter().chain(&["--help"])).succeeds();
        assert!(
            help.stdout.contains("Usage: pbg-host"),
            "{command:?}:\n{}",
            help.stdout
        );
        assert!(
            help.stdout.contains("--color"),
            "{command:?}:\n{}",
            help.stdout
        );
        assert_eq!(help.stderr, "");
        let example = help.stdout.contains("Example") || help.stdout.contains("A first run");
        assert!(
            example || command == ["config"],
            "{command:?} shows no example:\n{}",
            help.stdout
        );
    }
}

#[test]
fn help_lists_the_exit_codes() {
    let help = Workplace::empty().run(["--help"]).succeeds();
    assert!(help.stdout.contains("130  interrupted"), "{}", help.stdout);
}

#[test]
fn a_key_as_an_option_is_told_of_set() {
    let place = Workplace::empty();
    let tip = "`--set num_machines=VALUE`";
    place.run(["train", "--machines", "3"]).fails(2, &[tip]);
    place
        .run(["eval", "--device=cpu"])
        .fails(2, &["`--set execution.device=VALUE`"]);
    // Without a configuration, the tip names the key.
    let tip = "`--set plugins.limits.memory_mib=VALUE` sets this key";
    for limit in [
        &["check", "--limit", "memory_mib=3"][..],
        &["check", "--limit=memory_mib=3"],
    ] {
        place.run(limit).fails(2, &[tip]);
    }
    let run = place.run(["config", "new", "--lr", "3"]);
    assert!(!run.fails(2, &["--lr"]).stderr.contains("--set"));
}

/// Bash completes the words of a command line at a tab; it splits them at `=`.
#[test]
fn bash_completes_options_and_names() {
    let place = Workplace::empty();
    let script = place.run(["completions", "bash"]).succeeds().stdout;
    place.write("completions.bash", &script);
    place.write("mine.wasm", "");
    place.write("plugins/own_order.wasm", "");
    let complete = r#"
        source completions.bash
        function=$(complete -p pbg-host | sed 's/.*-F \([^ ]*\) .*/\1/')
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        "$function" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        echo "${COMPREPLY[@]}"
    "#;
    for (words, expected) in [
        (&["tr"][..], "train"),
        (&["train", "--pl"], "--plugin"),
        (&["orders", "sh"], "show"),
        (&["orders", "show", "--part"], "--partitions"),
        (&["eval", "--filt"], "--filter"),
        (&["train", "--plugin", "insi"], "inside_out"),
        (&["train", "--plugin", "min"], "mine.wasm"),
        (&["train", "--plugin", "own_"], "own_order"),
        (
            &["train", "--set", "checkpoint_p"],
            "checkpoint_path= checkpoint_preservation_interval=",
        ),
        (
            &["train", "--set", "execution.prec"],
            "execution.precision=",
        ),
        (
            &["train", "--set", "loss_fn", "=", "soft"],
            "softmax softmax_computed",
        ),
        (
            &["train", "--set", "comparator", "=", "c"],
            "cos complex_l1",
        ),
        (&["train", "--set", "dynamic_relations", "="], "true false"),
        (
            &["orders", "compare", "--order", "hilbert_"],
            "hilbert_symmetric",
        ),
        (&["orders", "show", "opt"], "optimal"),
        (&["plugin", "check", "--limit", "dead"], "deadline_ms="),
        (&["plugin", "check", "sof"], "softmax softmax_computed"),
    ] {
        let mut bash = Command::new("bash");
        let typed = ["bash", "pbg-host"].iter().chain(words);
        bash.args(["-c", complete]).args(typed);
        bash.env("PBG_PLUGIN_PATH", place.path("plugins"));
        let said = finish(bash.current_dir(place.path(""))).succeeds().stdout;
        assert_eq!(said.trim(), expected, "{words:?}");
    }
}

#[test]
fn completions_of_every_shell_know_the_commands() {
    let place = Workplace::empty();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.run(["completions", shell]).succeeds().stdout;
        assert!(
            script.contains("neighbors") && script.contains("--plugin") || shell == "fish",
            "{shell}"
        );
        assert!(script.lines().count() > 50, "{shell}");
    }
}

#[test]
fn the_default_configuration_is_a_configuration() {
    let place = Workplace::empty();
    let text = place.run(["config", "default"]).succeeds().stdout;
    place.write("pbg.toml", &text);
    // Everything is in order except the dataset, which was never imported.
    place.run(["check"]).fails(4, &["import"]);
}

#[test]
fn the_schema_is_json() {
    let text = Workplace::empty()
        .run(["config", "schema"])
        .succeeds()
        .stdout;
    let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(schema["properties"]["checkpoint_path"]["description"].is_string());
}

#[test]
fn without_a_configuration_the_program_says_how_to_get_one() {
    let place = Workplace::empty();
    place
        .run(["train"])
        .fails(3, &["pbg.toml", "pbg-host config default > pbg.toml"]);
    place.run(["train", "other.toml"]).fails(3, &["other.toml"]);
}

#[test]
fn wrong_arguments_are_usage_errors() {
    let place = Workplace::empty();
    place.run(["trian"]).fails(2, &["train"]);
    place
        .run(["train", "--progress", "loud"])
        .fails(2, &["plain"]);
    place.run(["import", "pbg.toml"]).fails(2, &["--edges"]);
    place
        .run(["import", "pbg.toml", "--edges", "train.tsv"])
        .fails(2, &["NAME=FILE"]);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Workplace::empty();
    let mut child = place
        .command(["config", "schema"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn colours_only_where_they_are_wanted() {
    let place = Workplace::empty();
    let coloured = |command: &mut Command| {
        let output = command.output().unwrap();
        String::from_utf8(output.stderr).unwrap().contains('\u{1b}')
    };
    assert!(!coloured(&mut place.command(["train"])));
    assert!(coloured(&mut place.command(["train", "--color", "always"])));
    assert!(!coloured(&mut place.command(["train", "--color", "never"])));
    assert!(!coloured(place.command(["train"]).env("NO_COLOR", "1")));
}
