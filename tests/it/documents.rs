//! The documents agree with the program and with each other.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pbg_wasm::PluginSlot;
use serde_json::Value;

use crate::support::Workplace;

/// Reads a document of the repository.
fn document(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap()
}

/// Returns the names of the standard plugins of these kinds.
fn standard(kinds: &[PluginSlot]) -> Vec<&'static str> {
    let plugins = pbg_wasm::standard_plugins().iter();
    let plugins = plugins.filter(|plugin| kinds.contains(&plugin.kind));
    plugins.map(|plugin| plugin.name).collect()
}

/// Returns the rows below the table header that begins with `header`, each as its cells.
fn table(text: &str, header: &str) -> Vec<Vec<String>> {
    let (_, rest) = text.split_once(header).expect("the document has the table");
    let rows = rest.lines().skip(2).take_while(|row| row.starts_with('|'));
    let cells = |row: &str| row.split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.map(cells).collect()
}

/// Returns every decimal number in a text.
fn numbers(text: &str) -> Vec<f64> {
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Returns the words in backticks.
fn code(text: &str) -> BTreeSet<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Returns every command and subcommand, from the program's own help.
fn commands(place: &Workplace, parent: &[String]) -> Vec<Vec<String>> {
    let mut arguments = parent.to_vec();
    arguments.push("--help".to_owned());
    let help = place.run(&arguments).succeeds().stdout;
    let Some((_, list)) = help.split_once("\nCommands:\n") else {
        return vec![parent.to_vec()];
    };
    let lines = list.lines().take_while(|line| !line.is_empty());
    // A line with deeper indentation continues the explanation above it.
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let below = names.filter(|name| *name != "help").flat_map(|name| {
        let mut path = parent.to_vec();
        path.push(name.to_owned());
        commands(place, &path)
    });
    below.collect()
}

#[test]
fn the_readme_claims_the_speed_of_its_table() {
    let readme = document("README.md");
    let rows = table(
        &readme,
        "| | PBG 1.0.0 | pbg-host | ratio | AVX-512 | AVX2 |",
    );
    let speeds = rows.iter().filter(|cells| !cells[1].contains("memory"));
    let ratios: Vec<f64> = speeds
        .flat_map(|cells| numbers(&cells[4..].join(" ")))
        .collect();
    assert!(ratios.len() >= 12, "{ratios:?}");
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    let claim = format!("with {least:.1} to {most:.1} times the edges per CPU-second of PBG");
    assert!(readme.contains(&claim), "README.md lacks: {claim}");
}

#[test]
fn the_readme_counts_the_orders_that_are_installed() {
    const WORDS: [&str; 8] = [
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ];
    let others = standard(&[PluginSlot::BucketOrder]).len() - 4;
    let count = format!("[{} others](docs/orders.md)", WORDS[others - 12]);
    assert!(document("README.md").contains(&count), "lacks: {count}");
}

#[test]
fn the_reference_of_keys_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    let names = |kinds| {
        let mut names: Vec<_> = standard(kinds).into_iter().map(str::to_owned).collect();
        names.sort();
        names
    };
    let generated = pbg_config::reference(&pbg_config::StrategyNames {
        orders: names(&[PluginSlot::BucketOrder]),
        samplers: names(&[PluginSlot::RelationSampler]),
        negatives: names(&[PluginSlot::NegativeSampler, PluginSlot::NegativeSelector]),
        losses: names(&[PluginSlot::TracedLoss, PluginSlot::ComputedLoss]),
        operators: names(&[PluginSlot::TracedOperator]),
        comparators: names(&[PluginSlot::Comparator]),
        schedules: names(&[PluginSlot::RateSchedule]),
        files: Vec::new(),
    });
    if std::env::var_os("UPDATE_DOCS").is_some_and(|v| v == "1") {
        fs::write(path, &generated).unwrap();
    }
    assert!(
        document("docs/config.md") == generated,
        "docs/config.md is out of date; UPDATE_DOCS=1 with this test writes it again"
    );
}

#[test]
fn the_configuration_names_every_strategy_that_is_installed() {
    let place = Workplace::empty();
    let schema = place.run(["config", "schema"]).succeeds().stdout;
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let sample = place.run(["config", "default"]).succeeds().stdout;
    let reference = document("docs/config.md");
    for (key, kinds) in [
        ("bucket_order", &[PluginSlot::BucketOrder][..]),
        ("relation_sampler", &[PluginSlot::RelationSampler]),
        (
            "negative_sampler",
            &[PluginSlot::NegativeSampler, PluginSlot::NegativeSelector],
        ),
        (
            "loss_fn",
            &[PluginSlot::TracedLoss, PluginSlot::ComputedLoss],
        ),
        ("comparator", &[PluginSlot::Comparator]),
        ("decay", &[PluginSlot::RateSchedule]),
    ] {
        let properties = match key {
            "decay" => &schema["$defs"]["LrScheduleConfig"]["properties"],
            _ => &schema["properties"],
        };
        let description = properties[key]["description"].as_str().unwrap();
        let mut row = reference
            .lines()
            .filter(|line| line.starts_with(&format!("| `{key}`")));
        let row = code(row.next().unwrap());
        let named = code(description);
        for name in standard(kinds) {
            assert!(named.contains(name), "the schema's {key} lacks {name}");
            assert!(row.contains(name), "docs/config.md: {key} lacks {name}");
            assert!(sample.contains(&format!("`{name}`")), "{key} lacks {name}");
        }
    }
}

#[test]
fn every_order_and_loss_has_a_row_in_its_document() {
    let orders = table(
        &document("docs/orders.md"),
        "| order | source | idea | parameters |",
    );
    let losses = document("docs/plugins/losses.md");
    let rows = table(&losses, "| name | loss of one row | parameters |");
    for (rows, names, document) in [
        (orders, standard(&[PluginSlot::BucketOrder]), "orders.md"),
        (
            rows,
            standard(&[PluginSlot::TracedLoss]),
            "plugins/losses.md",
        ),
    ] {
        let described: BTreeSet<String> = rows.iter().flat_map(|row| code(&row[1])).collect();
        let installed = names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(described, installed, "docs/{document}");
    }
    let operators = document("docs/plugins/operators.md");
    let head = "| name | what an embedding becomes | parameters of a relation | source |";
    let described: BTreeSet<String> = table(&operators, head)
        .iter()
        .flat_map(|row| code(&row[1]))
        .collect();
    let installed = standard(&[PluginSlot::TracedOperator]).into_iter();
    assert_eq!(
        described,
        installed.map(str::to_owned).collect(),
        "docs/plugins/operators.md"
    );
    let comparators = document("docs/plugins/comparators.md");
    let head = "| name | score of x and y | parameters | source |";
    let described: BTreeSet<String> = table(&comparators, head)
        .iter()
        .filter_map(|row| row[1].split('`').nth(1))
        .map(str::to_owned)
        .collect();
    let installed = standard(&[PluginSlot::Comparator]).into_iter();
    assert_eq!(
        described,
        installed.map(str::to_owned).collect(),
        "docs/plugins/comparators.md"
    );
    let negatives = document("docs/plugins/negatives.md");
    let head = "| name | which entities are drawn | parameters |";
    let rows = table(&negatives, head);
    let described: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row[1].split('`').nth(1))
        .collect();
    let installed = standard(&[PluginSlot::NegativeSampler]);
    assert_eq!(
        described,
        installed.into_iter().collect(),
        "docs/plugins/negatives.md"
    );
    let head = "| name | which negatives are selected | parameters |";
    let rows = table(&negatives, head);
    let described: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row[1].split('`').nth(1))
        .collect();
    let installed = standard(&[PluginSlot::NegativeSelector]);
    assert_eq!(
        described,
        installed.into_iter().collect(),
        "docs/plugins/negatives.md"
    );
    let schedules = document("docs/plugins/schedules.md");
    let head = "| name | factor of the learning rates | parameters |";
    let rows = table(&schedules, head);
    let described: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row[1].split('`').nth(1))
        .collect();
    let installed = standard(&[PluginSlot::RateSchedule]);
    assert_eq!(
        described,
        installed.into_iter().collect(),
        "docs/plugins/schedules.md"
    );
    for name in standard(&[PluginSlot::ComputedLoss]) {
        assert!(code(&losses).contains(name), "losses.md lacks {name}");
    }
}

/// Returns every file below a folder whose name ends with one of `endings`, except what is built.
fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_skipped = name.starts_with('.') || ["target", "node_modules"].contains(&&*name);
        if path.is_dir() && !is_skipped {
            files(&path, endings, found);
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

/// No document and no comment names a subcommand that the program lacks, such as one with its former name.
#[test]
fn every_subcommand_that_is_named_exists() {
    let commands = commands(&Workplace::empty(), &[]);
    let nested = commands.iter().filter(|command| command.len() > 1);
    let known: BTreeSet<String> = nested.map(|command| command.join(" ")).collect();
    let groups: BTreeSet<&str> = known
        .iter()
        .filter_map(|two| two.split(' ').next())
        .collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sources = Vec::new();
    for folder in ["docs", "examples", "plugins", "host"] {
        files(
            &root.join(folder),
            &[".md", ".rs", ".py", ".toml"],
            &mut sources,
        );
    }
    sources.extend(["README.md", "CHANGELOG.md"].map(|name| root.join(name)));
    let mut named = 0;
    for path in sources {
        let text = fs::read_to_string(&path).unwrap();
        for group in &groups {
            // Without its program, `bench` is that of `cargo xtask`.
            let begins = [format!("pbg-host {group} "), format!("`{group} ")];
            let begins = begins.iter().take(if *group == "bench" { 1 } else { 2 });
            for rest in begins.flat_map(|begin| text.split(begin.as_str()).skip(1)) {
                let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
                let word = rest.split(|c| !is_name(c)).next().unwrap_or_default();
                if word.starts_with(|c: char| c.is_ascii_lowercase()) {
                    let command = format!("{group} {word}");
                    assert!(known.contains(&command), "{}: `{command}`", path.display());
                    named += 1;
                }
            }
        }
    }
    assert!(named > 100, "{named} subcommands are named");
}

#[test]
fn the_changelog_names_every_command() {
    let log = document("CHANGELOG.md");
    let commands = commands(&Workplace::empty(), &[]);
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        let whole = format!("`pbg-host {}", command.join(" "));
        let short = format!("`{}", command.join(" "));
        let named = log.contains(&whole) || (command.len() > 1 && log.contains(&short));
        assert!(named, "CHANGELOG.md lacks `pbg-host {}`", command.join(" "));
    }
}

#[test]
fn the_changelog_names_every_key_that_pbg_lacks_and_every_strategy() {
    let log = document("CHANGELOG.md");
    let words = code(&log);
    let named = |name: &str| {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        words
            .iter()
            .any(|code| code.split(|c| !is_word(c)).any(|word| word == name))
    };
    let ours = table(
        &document("docs/pbg-keys.md"),
        "## Top level\n\n| PBG | pbg-host | difference, and why |",
    );
    let ours = ours.iter().filter(|cells| cells[1].is_empty());
    let keys: Vec<String> = ours.flat_map(|cells| code(&cells[2])).collect();
    assert!(keys.len() > 6, "{keys:?}");
    for key in keys {
        assert!(named(&key), "CHANGELOG.md lacks the key `{key}`");
    }
    let kinds = [
        PluginSlot::RelationSampler,
        PluginSlot::NegativeSampler,
        PluginSlot::NegativeSelector,
        PluginSlot::TracedLoss,
        PluginSlot::ComputedLoss,
        PluginSlot::TracedOperator,
        PluginSlot::Comparator,
        PluginSlot::RateSchedule,
    ];
    for name in standard(&kinds) {
        assert!(named(name), "CHANGELOG.md lacks `{name}`");
    }
}
