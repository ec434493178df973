//! Losses receive the length of the run in every language, and follow it.

use std::path::{Path, PathBuf};

use pbg_core::loss::ScheduleProgress;
use pbg_core::strategy::RunLength;
use pbg_wasm::LoadedLoss;
use serde_json::Value;

use crate::authoring::{has, has_wasm_target, in_project, javascript_tools, opened, python_tools};
use crate::support::{Workplace, finish, graph, graph::CONFIG, is_long};
use crate::tools::without;

/// The same loss in every language. Its margin is the completed share of the run, and 0 at the beginning, since the
/// host asks for the formula before there is a run.
const RUST: &str = r#"
#[macro_use]
extern crate pbg_plugin_sdk;
use pbg_plugin_sdk::loss::formula::{Row, Scores, softplus};
use pbg_plugin_sdk::loss::{Progress, Values};
use pbg_plugin_sdk::{Metadata, Result, TracedLoss, run};
mod told {
    pub fn tell(length: pbg_plugin_sdk::run::Length) {
        println!("{} {} {}", length.epochs, length.edges_per_epoch, length.batches);
    }
}
#[derive(Default)]
pub struct Mine;
impl TracedLoss for Mine {
    fn metadata() -> Metadata { Metadata::new("mine", "0.1.0", "Grows.") }
    fn build<'t>(&self, scores: Scores<'t>) -> Result<Row<'t>> {
        let margin = scores.parameter("margin", run::length().batches as f32 - 1.0);
        Ok(softplus(margin - scores.positive() + scores.negatives()).mean())
    }
    fn update_every(&self) -> u32 { 1 }
    fn update(&self, progress: &Progress, values: &mut Values) -> Result<()> {
        values["margin"] = run::length().share(progress.step);
        told::tell(run::length());
        Ok(())
    }
}
export_traced_loss!(Mine);
"#;
const PYTHON: &str = r#"
from pbg_plugin import Metadata, TracedLoss, run, softplus

class Mine(TracedLoss):
    update_every = 1

    @classmethod
    def metadata(cls):
        return Metadata("mine", "0.1.0", "Grows.")

    def build(self, scores):
        margin = scores.parameter("margin", run.length().batches - 1.0)
        return softplus(margin - scores.positive + scores.negatives).mean()

    def update(self, progress, values):
        length = run.length()
        values["margin"] = length.share(progress.step)
        print(length.epochs, length.edges_per_epoch, length.batches)
"#;
const JAVASCRIPT: &str = r#"
import { TracedLoss, run } from './pbg_plugin/index.js';

export class Mine extends TracedLoss {
  updateEvery = 1;

  static metadata() {
    return { name: 'mine', version: '0.1.0', summary: 'Grows.' };
  }

  build(scores) {
    const margin = scores.parameter('margin', run.length().batches - 1);
    return scores.negatives.sub(scores.positive).add(margin).softplus().mean();
  }

  update(progress, values) {
    const length = run.length();
    values.margin = length.share(progress.step);
    console.log(length.epochs, length.edgesPerEpoch, length.batches);
  }
}
"#;
/// Changes to the template in C: a parameter that its formula does not use, and another `update`.
const C: [(&str, &str); 2] = [
    (
        "    graph->output = ",
        "    exports_pbg_plugin_loss_traced_named_parameter_t *named = malloc(sizeof *named);
    if (!named) abort();
    plugin_string_dup(&named->name, \"margin\");
    named->value = (float)(pbg_run_length().batches - 1);
    graph->parameters.ptr = named;
    graph->parameters.len = 1;
    graph->update_every = 1;
    graph->output = ",
    ),
    (
        "    (void)progress, (void)err;
",
        "    (void)err;
    values->ptr[0] = (float)pbg_run_share(progress->step);
",
    ),
];

/// Creates and builds the project in a language; returns its component.
fn built(place: &Workplace, language: &str) -> PathBuf {
    let folder = format!("{language}/mine");
    place
        .run([
            "plugin", "new", "mine", "--kind", "loss", "--lang", language, "--path", &folder,
        ])
        .succeeds();
    match language {
        "rust" => place.write(&format!("{folder}/src/lib.rs"), RUST),
        "python" => place.write(&format!("{folder}/mine.py"), PYTHON),
        "js" => place.write(&format!("{folder}/mine.js"), JAVASCRIPT),
        _ => {
            let mut text = place.read(&format!("{folder}/mine.c"));
            for (before, after) in C {
                assert!(text.contains(before), "{before}");
                text = text.replacen(before, after, 1);
            }
            place.write(&format!("{folder}/mine.c"), text)
        }
    };
    let project = place.path(&folder);
    finish(&mut in_project(&project, &["plugin", "build"])).succeeds();
    project.join("mine.wasm")
}

/// Builds a component in every language whose tools this machine has.
fn in_every_language(place: &Workplace) -> Vec<PathBuf> {
    let languages = [
        ("rust", "wasm", has_wasm_target()),
        ("c", "clang", has("clang") && has("wasm-ld")),
        ("python", "python", python_tools().is_some()),
        ("js", "node", javascript_tools().is_some()),
    ];
    let mut components = Vec::new();
    for (language, tool, there) in languages {
        match there {
            // A build takes half a minute.
            true if language == "python" && !is_long() => {}
            true => components.push(built(place, language)),
            false => without(tool, &format!("the tools for {language} are not there")),
        }
    }
    components
}

/// Trains up to `epochs` epochs; returns the messages that the loss logged, without repetitions, and the state of the
/// loss in the checkpoint.
fn trained(
    place: &Workplace,
    component: &Path,
    epochs: u32,
    more: &[&str],
) -> (Vec<String>, Value) {
    let (path, epochs) = (component.to_str().unwrap(), format!("num_epochs={epochs}"));
    let train = [
        "train",
        "--plugin",
        path,
        "--set",
        &epochs,
        "--progress",
        "json",
    ];
    let events = place.run([&train[..], more].concat()).succeeds().stdout;
    let events = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let logged = events.filter(|event| event["event"] == "plugin_log");
    let mut logged: Vec<String> = logged
        .map(|event| event["message"].as_str().unwrap().to_owned())
        .collect();
    logged.dedup();
    let manifest: Value = serde_json::from_str(&place.read("model/manifest.json")).unwrap();
    (logged, manifest["run"]["state"]["loss"].clone())
}

/// Returns the batches of all epochs from the state of the loss, and asserts that its margin has reached the end.
#[track_caller]
fn all_batches(state: &Value) -> u64 {
    assert_eq!(state["parameters"][0], 1.0, "{state}");
    state["step"].as_u64().unwrap()
}

#[test]
fn a_loss_follows_the_length_of_the_run() {
    let place = Workplace::with_dataset(CONFIG);
    let edges = graph::tsv().0.lines().count();
    for component in in_every_language(&place) {
        let is_c = component.ends_with("c/mine/mine.wasm");
        let told = |epochs: u64, batches: u64| match is_c {
            true => Vec::new(),
            false => vec![format!("{epochs} {edges} {batches}")],
        };
        let (logged, state) = trained(&place, &component, 2, &[]);
        let batches = all_batches(&state);
        assert_eq!(logged, told(2, batches), "{}", component.display());
        // The same run, made longer: its end is later.
        let (logged, state) = trained(&place, &component, 5, &[]);
        assert_eq!(all_batches(&state), batches / 2 * 5);
        assert_eq!(logged, told(5, batches / 2 * 5), "{}", component.display());
        std::fs::remove_dir_all(place.path("model")).unwrap();

        let check = ["plugin", "check", component.to_str().unwrap()];
        let checked = place.run(check).succeeds().stdout;
        assert!(checked.contains("from margin 0 to margin 1"), "{checked}");

        // Calls the loss as an application that embeds the sandbox does.
        let plugin = opened(&component);
        let LoadedLoss::Traced(loss) = plugin.into_loss(&Value::Null).unwrap() else {
            panic!("a formula");
        };
        let mut schedule = loss.schedule.unwrap();
        let progress = ScheduleProgress {
            step: 30,
            edges: 10,
            mean_loss: 1.0,
        };
        assert_eq!(schedule.update(&progress, &[0.0]).unwrap(), [1.0]);
        let length = RunLength {
            epochs: 3,
            edges_per_epoch: 10,
            batches: 120,
        };
        schedule.begin_run(length);
        assert_eq!(schedule.update(&progress, &[0.0]).unwrap(), [0.25]);
    }
}

#[test]
fn with_a_relation_per_batch_and_edges_held_out_the_length_is_a_bound() {
    if !has_wasm_target() {
        without("wasm", "the compiler has no wasm32-unknown-unknown");
        return;
    }
    let config = CONFIG.replace("dynamic_relations = true", "");
    let config = config.replace("name = \"any\"", "name = \"*\"");
    let place = Workplace::with_dataset(&config);
    let component = built(&place, "rust");
    let more = [
        "--set",
        "workers=2",
        "--set",
        "eval_fraction=0.2",
        "--set",
        "num_edge_chunks=2",
    ];
    let (logged, state) = trained(&place, &component, 3, &more);
    let told: Vec<u64> = logged[0].split(' ').map(|n| n.parse().unwrap()).collect();
    let edges = graph::tsv().0.lines().count() as u64;
    assert!(
        told[1] > edges * 7 / 10 && told[1] < edges * 9 / 10,
        "{told:?} of {edges}"
    );
    let step = state["step"].as_u64().unwrap();
    assert!(step <= told[2] && 3 * step > told[2], "{step} of {told:?}");
    let margin = state["parameters"][0].as_f64().unwrap();
    assert!(
        (margin - step as f64 / told[2] as f64).abs() < 1e-6,
        "{state}"
    );

    // Batches that mix relations are counted exactly, also with several workers.
    let together = ["--set", "workers=2", "--set", "eval_fraction=0.2"];
    let place = Workplace::with_dataset(CONFIG);
    let (_, state) = trained(&place, &component, 2, &together);
    all_batches(&state);
}
