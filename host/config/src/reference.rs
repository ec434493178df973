//! Generates the reference of all keys in Markdown, `docs/config.md`.

use super::StrategyNames;
use super::resume_keys::MAY_CHANGE;
use super::schema::{find, rule};
use super::sections::{SECTIONS, Section};
use super::spec::{KeySpec, Spec, ValueType};

const INTRODUCTION: &str = "\
# Configuration

<!-- Generated from the types in host/config/src/lib.rs: `UPDATE_DOCS=1 cargo test --release --workspace --test it -- documents`. -->

A configuration is a TOML file. `pbg-host config default > pbg.toml` writes one with every key, and `pbg-host config schema` prints its JSON schema, with which editors complete and check it.
Keys have the names that PBG gives them; [pbg-keys.md](pbg-keys.md) lists the differences.

The shortest valid configuration:

```toml
dataset = \"data\"
checkpoint_path = \"model\"
dimension = 100

[entities.entity]
num_partitions = 1

[[relations]]
name = \"*\"
lhs = \"entity\"
rhs = \"entity\"
```

* Relative paths in a file are relative to the folder of the file, those in `--set` to the working folder.
* All problems are reported at once, each with its key and line. Unknown keys are errors.
* `--set KEY=VALUE` changes a key on the command line: `--set num_epochs=10`, `--set entities.user.num_partitions=4`, `--set relations.0.operator=diagonal`.
  The value is read as TOML where the key accepts that, otherwise as a string. A list may also be written as `--set edge_sets=train,extra`. `none` unsets a key that has no default (write `./none` for a folder of that name). Names that contain dots must be quoted: `--set 'entities.\"a.b\".num_partitions=4'`.
* Integers are accepted where numbers are expected; numbers must be finite.
";

const RESUMING: &str = "
## What may change when a run resumes

A run resumes from `checkpoint_path` only with the configuration that the checkpoint was trained with, except for these keys:
";

const LR_SCHEDULE: &str = "\
Where learning rates decay until `num_epochs`, another `num_epochs` changes all of them. Such a run resumes with more epochs if `lr_schedule.decay_epochs` is set to the former `num_epochs`; the additional epochs are trained with the final learning rates. A schedule that is a plugin counts as one that decays until `num_epochs`, whether or not it uses that number.

";

const VALIDATION: &str = "\
All keys of `[validation]` may change too if neither configuration sets `validation.lr_decay`, since learning rates then do not depend on them. With `validation.early_stop`, the edge set `validation.edges` is part of the data: another edge set needs `--allow-data-change`.
";

/// Returns the reference of all keys, in Markdown.
#[must_use]
pub fn reference(installed: &StrategyNames) -> String {
    let mut out = INTRODUCTION.to_owned();
    for section in SECTIONS {
        describe_section(section, installed, &mut out);
    }
    out.push_str(RESUMING);
    let keys: Vec<_> = MAY_CHANGE.iter().map(|key| format!("`{key}`")).collect();
    out.push_str(&format!("{}.\n", keys.join(", ")));
    out.push_str(LR_SCHEDULE);
    out.push_str(VALIDATION);
    out
}

fn describe_section(section: &Section, installed: &StrategyNames, out: &mut String) {
    let table = section.table.map(|table| format!(": `{table}`"));
    let table = table.unwrap_or_default();
    out.push_str(&format!("\n## {}{table}\n\n", section.heading));
    if let ["plugins", "params", ..] = section.path {
        out.push_str("Parameters by plugin name; `pbg-host plugin inspect NAME` lists them. Values are numbers, strings, `true`, `false`, lists and tables.\n");
        return;
    }
    if let ["formulas"] = section.path {
        out.push_str("Formulas of operators that are plugins, as strings, by the name that `operator` uses, and that of the comparator, by the name that `comparator` uses. A run writes them into its checkpoint, where they define the meaning of its embeddings and parameters, so that the checkpoint can be used without the plugins. A plugin whose formula is given here is not asked for it, and an operator or a comparator that only has a formula needs no plugin. Formulas of operators need not be written here by hand: [plugins/operators.md](plugins/operators.md#where-the-formula-is-kept) explains the strings, which Python writes for an [operator of your own](python.md#an-operator-of-your-own). [Comparators](plugins/comparators.md#a-formula) may be written here or be plugins as well.\n");
        return;
    }
    out.push_str("| key | type | default | rule | meaning |\n|---|---|---|---|---|\n");
    let fields = find(section.path).fields();
    let of_key = |key: &&str| fields.iter().find(|f| f.key == *key);
    let fields = || section.keys.iter().filter_map(of_key);
    for field in fields() {
        let cells = [
            format!("`{}`", field.key),
            type_name(&field.spec),
            default(field),
            rule(field),
            installed.describe(&field.key, &field.doc()),
        ];
        out.push_str(&format!(
            "| {} |\n",
            cells.map(|cell| cell.replace('|', "\\|")).join(" | ")
        ));
    }
    for field in fields() {
        if let ValueType::Choice(choices) = &field.spec.kind {
            out.push_str(&format!("\n`{}`:\n\n", field.key));
            for choice in choices {
                out.push_str(&format!("* `\"{}\"`: {}\n", choice.name, choice.doc()));
            }
        }
    }
}

fn default(field: &KeySpec) -> String {
    match (&field.default, &field.unset) {
        (Some(default), _) => format!("`{default}`"),
        (None, Some(unset)) => format!("unset: {unset}"),
        (None, None) if field.required => "required".to_owned(),
        (None, None) => String::new(),
    }
}

fn type_name(spec: &Spec) -> String {
    match &spec.kind {
        ValueType::Boolean => "boolean".to_owned(),
        ValueType::Integer { .. } => "integer".to_owned(),
        ValueType::Number { .. } => "number".to_owned(),
        ValueType::Text { .. } => "string".to_owned(),
        ValueType::Choice(_) => "name, see below".to_owned(),
        ValueType::List { item, .. } => format!("list of {}", type_name(item)),
        ValueType::Map { .. } | ValueType::Record(_) => "table".to_owned(),
        ValueType::Any => "any".to_owned(),
    }
}
