//! From `plugin new` to a component that trains, in every language, outside of the repository.
//!
//! A test that needs a tool which this machine lacks is skipped, and says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use pbg_core::strategy::{BucketOrder as _, Pass, RelationDraw, SamplerFactory as _};
use pbg_wasm::{CodeCache, Limits, LoadedPlugin, PluginSource, Sandbox};
use serde_json::Value;

use crate::support::{COMPILED, Workplace, finish, graph::CONFIG, is_long};
use crate::tools::without;

/// Returns the environment with componentize-py that `cargo xtask test` installs.
pub(crate) fn python_tools() -> Option<PathBuf> {
    let python = PathBuf::from(std::env::var_os("PBG_TEST_PYTHON")?);
    let folder = python.parent()?.parent()?.to_owned();
    folder
        .join("bin/componentize-py")
        .is_file()
        .then_some(folder)
}

/// Returns the folder of the componentize-qjs that `cargo xtask test` installs, if it starts: it needs Node, and is not
/// built for every platform.
pub(crate) fn javascript_tools() -> Option<PathBuf> {
    static FOUND: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let folder = PathBuf::from(std::env::var_os("PBG_TEST_JAVASCRIPT")?);
        let mut program = Command::new(folder.join("componentize-qjs"));
        let said = program.arg("--help").output();
        said.is_ok_and(|said| said.status.success())
            .then_some(folder)
    });
    FOUND.clone()
}

/// Returns whether a program starts.
pub(crate) fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Returns whether the Rust compiler has the standard library for `wasm32-unknown-unknown`.
pub(crate) fn has_wasm_target() -> bool {
    let mut rustc = Command::new("rustc");
    let output = rustc
        .args([
            "--print",
            "target-libdir",
            "--target",
            "wasm32-unknown-unknown",
        ])
        .output();
    output.is_ok_and(|o| Path::new(String::from_utf8_lossy(&o.stdout).trim()).is_dir())
}

/// Returns the program's command in a project's folder, with the environment that its tools need.
pub(crate) fn in_project(project: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pbg-host"));
    command.args(arguments).current_dir(project);
    // Components with an interpreter are compiled once: checks, calls and training use the same compiled code.
    command.env("PBG_HOST_CACHE", COMPILED);
    // One build folder for all projects: the SDK's dependencies are compiled once.
    command.env(
        "CARGO_TARGET_DIR",
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("authoring"),
    );
    // Every dependency of a project is also one of the workspace, so nothing is downloaded.
    command.env("CARGO_NET_OFFLINE", "true");
    if let Some(environment) = python_tools() {
        command.env("VIRTUAL_ENV", environment);
    }
    if let Some(programs) = javascript_tools() {
        let mut path = programs.into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        command.env("PATH", path);
    }
    command
}

/// Lock to hold while a project's own Rust tests run: Cargo compiles the examples in its documentation after it has
/// released the build folder, and another project's build may replace the SDK there at that moment.
pub(crate) fn alone_with_the_build_folder() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a project; `computed` counts as a kind here.
pub(crate) fn new_project(place: &Workplace, name: &str, kind: &str, language: &str) -> PathBuf {
    let mut new = vec!["plugin", "new", name, "--lang", language, "--kind"];
    match kind {
        "computed" => new.extend(["loss", "--computed"]),
        kind => new.push(kind),
    }
    place.run(new).succeeds();
    place.path(name)
}

/// Creates, builds and checks a project; returns its component.
fn built(place: &Workplace, kind: &str, language: &str) -> PathBuf {
    let name = format!("my_{kind}_{language}").replace('-', "_");
    new_project(place, &name, kind, language);
    let project = place.path(&name);
    finish(&mut in_project(&project, &["plugin", "build"])).succeeds();
    let component = project.join(format!("{name}.wasm"));
    let check = ["plugin", "check", &format!("{name}.wasm"), "--json"];
    let checked = finish(&mut in_project(&project, &check)).succeeds();
    let report: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(report["name"], *name);
    let findings = report["findings"].as_array().unwrap();
    let broken = findings.iter().any(|f| f["outcome"] == "broken");
    assert!(findings.len() > 3 && !broken, "{report}");
    let inspection = opened(&component).inspection().clone();
    let interpreted = matches!(language, "python" | "js");
    assert_eq!(inspection.has_interpreter, interpreted, "{inspection:?}");
    component
}

/// Builds a plugin of a kind in every language whose tools this machine has.
fn in_every_language(place: &Workplace, kind: &str) -> Vec<PathBuf> {
    let mut components = Vec::new();
    if has_wasm_target() {
        components.push(built(place, kind, "rust"));
    } else {
        without("wasm", "the compiler has no wasm32-unknown-unknown");
    }
    if has("clang") && has("wasm-ld") {
        components.push(built(place, kind, "c"));
    } else {
        without("clang", "there is no clang with wasm-ld");
    }
    if python_tools().is_some() {
        // A build takes half a minute. An order and a loss are built by the tutorial, which is tested, too.
        if matches!(kind, "sampler" | "operator") || is_long() {
            components.push(built(place, kind, "python"));
        }
    } else {
        without(
            "python",
            "PBG_TEST_PYTHON names no environment with componentize-py",
        );
    }
    if javascript_tools().is_some() {
        components.push(built(place, kind, "js"));
    } else {
        without(
            "node",
            "PBG_TEST_JAVASCRIPT names no folder with a componentize-qjs that starts",
        );
    }
    components
}

/// Loads the plugin with the code that the program compiled when it checked it.
pub(crate) fn opened(component: &Path) -> LoadedPlugin {
    let cache = CodeCache::open(Path::new(COMPILED)).unwrap();
    let sandbox = Sandbox::new(Limits::default()).unwrap().with_cache(cache);
    let source = PluginSource::File(component.to_owned());
    sandbox.open(source).unwrap()
}

/// Seed that every language represents exactly: JavaScript rounds whole numbers from 2^53 on.
const SEED: u64 = (1 << 53) - 12_345;

/// Returns the order's plan for an uneven grid, with default parameters.
fn plan_of(component: &Path) -> Vec<(u32, u32)> {
    let mut order = opened(component).into_order(&Value::Null).unwrap();
    let pass = Pass {
        lhs_partitions: 5,
        rhs_partitions: 7,
        shared: false,
        edges: vec![1; 35],
        lhs_bytes: vec![1; 5],
        rhs_bytes: vec![1; 7],
        buffer_partitions: 3,
        resident: Vec::new(),
        epoch: 1,
        edge_set: 0,
        edge_chunk: 0,
        seed: SEED,
    };
    let plan = order.plan(&pass).unwrap();
    plan.iter().map(|bucket| (bucket.lhs, bucket.rhs)).collect()
}

/// Returns what the sampler draws from a share, with default parameters.
fn draws_of(component: &Path) -> Vec<RelationDraw> {
    let sampler = opened(component).into_sampler(&Value::Null).unwrap();
    let mut walk = sampler.create(&[900, 0, 40, 5, 313], 10, SEED).unwrap();
    let mut draws = Vec::new();
    while let Some(draw) = walk.next().unwrap() {
        walk.observe(draw.relation, 0.5).unwrap();
        draws.push(draw);
    }
    draws
}

/// Trains with a component; returns the manifest and the files of the checkpoint.
fn trained(place: &Workplace, component: &Path) -> (String, Vec<(String, Vec<u8>)>) {
    let path = component.to_str().unwrap();
    let run = place.run(["train", "--plugin", path, "--set", "checkpoint_path=m"]);
    run.succeeds();
    let left = (place.read("m/manifest.json"), place.committed("m"));
    fs::remove_dir_all(place.path("m")).unwrap();
    left
}

fn name_of(component: &Path) -> &str {
    component.file_stem().unwrap().to_str().unwrap()
}

/// Trains with each component, and asserts that the checkpoint names it.
fn all_train(place: &Workplace, components: &[PathBuf]) {
    for component in components {
        let (manifest, _) = trained(place, component);
        let name = format!("\"{}\"", name_of(component));
        assert!(manifest.contains(&name), "{manifest}");
    }
}

/// The templates implement the same order, and the SDKs promise the same random numbers.
#[test]
fn the_same_order_in_every_language() {
    let place = Workplace::with_dataset(CONFIG);
    let components = in_every_language(&place, "order");
    let plans: Vec<_> = components.iter().map(|path| plan_of(path)).collect();
    for (component, plan) in components.iter().zip(&plans) {
        assert_eq!(*plan, plans[0], "{}", component.display());
    }
    all_train(&place, &components);
}

#[test]
fn samplers_in_every_language_keep_their_promises_and_train() {
    // Relations with operators of their own, so that there is something to sample.
    let config = CONFIG.replace("dynamic_relations = true", "");
    let config = config.replace("name = \"any\"", "name = \"*\"");
    let place = Workplace::with_dataset(&config);
    let components = in_every_language(&place, "sampler");
    // The template in C is a different sampler, which needs no mathematics library.
    let same = components
        .iter()
        .filter(|path| !path.ends_with("my_sampler_c.wasm"));
    let draws: Vec<_> = same.map(|path| (path, draws_of(path))).collect();
    for (component, drawn) in &draws {
        assert_eq!(*drawn, draws[0].1, "{}", component.display());
    }
    all_train(&place, &components);
}

/// The templates give the same distributions, from which a run draws the same negatives in every language.
#[test]
fn the_same_negatives_in_every_language() {
    let place = Workplace::with_dataset(CONFIG);
    let components = in_every_language(&place, "negatives");
    let mut first = None;
    for component in &components {
        let (manifest, files) = trained(&place, component);
        assert!(manifest.contains(name_of(component)), "{manifest}");
        let expected = first.get_or_insert_with(|| files.clone());
        assert!(files == *expected, "{}", component.display());
    }
}

/// A run calls the templates for every chunk. The exponential may differ in the last bits from language to language.
#[test]
fn negative_selectors_in_every_language_train() {
    let place = Workplace::with_dataset(CONFIG);
    let components = in_every_language(&place, "negative-selector");
    all_train(&place, &components);
}

#[test]
fn losses_in_every_language_keep_their_promises_and_train() {
    let place = Workplace::with_dataset(CONFIG);
    let mut components = in_every_language(&place, "loss");
    if has_wasm_target() {
        components.push(built(&place, "computed", "rust"));
    }
    all_train(&place, &components);
}

/// The templates are the same schedule, which trains to the same bytes in every language.
#[test]
fn the_same_schedule_in_every_language() {
    let place = Workplace::with_dataset(CONFIG);
    let components = in_every_language(&place, "schedule");
    let mut first = None;
    for component in &components {
        let (manifest, files) = trained(&place, component);
        assert!(manifest.contains(name_of(component)), "{manifest}");
        let expected = first.get_or_insert_with(|| files.clone());
        assert!(files == *expected, "{}", component.display());
    }
}

/// The templates are the same formula, which trains to the same bytes in every language.
#[test]
fn the_same_operator_in_every_language() {
    let place = Workplace::with_dataset(CONFIG);
    let components = in_every_language(&place, "operator");
    let mut first = None;
    for component in &components {
        let (manifest, files) = trained(&place, component);
        assert!(manifest.contains(name_of(component)), "{manifest}");
        let expected = first.get_or_insert_with(|| files.clone());
        assert!(files == *expected, "{}", component.display());
    }
}

/// The templates are the same formula, which trains to the same bytes in every language.
#[test]
fn the_same_comparator_in_every_language() {
    let place = Workplace::with_dataset(CONFIG);
    let components = in_every_language(&place, "comparator");
    let mut first = None;
    for component in &components {
        let (manifest, files) = trained(&place, component);
        assert!(manifest.contains(name_of(component)), "{manifest}");
        let expected = first.get_or_insert_with(|| files.clone());
        assert!(files == *expected, "{}", component.display());
    }
}

/// Runs the author's own tests with the author's own tools.
#[test]
fn the_tests_of_new_projects_pass() {
    let place = Workplace::empty();
    let new = |kind: &str, language| {
        let name = format!("my_{kind}_{language}").replace('-', "_");
        new_project(&place, &name, kind, language)
    };
    let passes = |project: &Path, program: &str, arguments: &[&str]| {
        let mut command = in_project(project, &[]);
        let environment: Vec<_> = command
            .get_envs()
            .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
            .collect();
        command = Command::new(program);
        command
            .args(arguments)
            .current_dir(project)
            .envs(environment);
        let _alone = (program == "cargo").then(alone_with_the_build_folder);
        finish(&mut command).succeeds();
    };
    let (node, clang) = (has("node"), has("clang"));
    passes(&new("computed", "rust"), "cargo", &["test"]);
    for kind in [
        "order",
        "sampler",
        "negatives",
        "negative-selector",
        "loss",
        "operator",
        "comparator",
        "schedule",
    ] {
        passes(&new(kind, "rust"), "cargo", &["test"]);
        passes(&new(kind, "python"), "python3", &["-m", "unittest"]);
        let (js, c) = (new(kind, "js"), new(kind, "c"));
        if node {
            passes(&js, "node", &["--test"]);
        }
        if clang {
            let readme = fs::read_to_string(c.join("README.md")).unwrap();
            let commands = readme.split("```sh\n").nth(2).unwrap();
            let commands = commands.split("```").next().unwrap();
            passes(&c, "sh", &["-ec", commands]);
        }
    }
    if !node {
        without("node", "there is no node");
    }
    if !clang {
        without("clang", "there is no clang");
    }
}

/// Order that refuses any parameters.
const REFUSES: &str = r#"
use pbg_plugin_sdk::{Bucket, Metadata, Order, Parameters, Pass, Result, export_order};
#[derive(Default)]
struct Mine;
impl Order for Mine {
    fn metadata() -> Metadata { Metadata::new("mine", "0.1.0", "Refuses.") }
    fn configure(&mut self, _: &Parameters) -> Result<()> { Err("not with these".to_owned()) }
    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> { Ok(pass.grid()) }
}
export_order!(Mine);
"#;

#[test]
fn what_cannot_be_built_says_why() {
    let place = Workplace::empty();
    place
        .run(["plugin", "build"])
        .fails(2, &["plugin.toml", "plugin new"]);
    let new = ["plugin", "new", "mine", "--kind", "order", "--lang", "rust"];
    place.run(new).succeeds();
    place.run(new).fails(2, &["mine", "--path"]);
    for name in ["../up", "Mine", "fn"] {
        place
            .run(["plugin", "new", name, "--kind", "order", "--lang", "rust"])
            .fails(2, &[name]);
    }
    for (kind, language) in [("order", "rust"), ("loss", "python")] {
        place
            .run([
                "plugin",
                "new",
                "odd",
                "--computed",
                "--kind",
                kind,
                "--lang",
                language,
            ])
            .fails(2, &["loss"]);
    }
    let project = place.path("mine");
    place.write("mine/src/lib.rs", "fn half(");
    let build = || finish(&mut in_project(&project, &["plugin", "build"]));
    if !has_wasm_target() {
        without("wasm", "the compiler has no wasm32-unknown-unknown");
        return;
    }
    // The compiler's messages are printed.
    build().fails(6, &["unclosed delimiter", "cargo build"]);
    place.write("mine/src/lib.rs", "//! Nothing is exported.\n");
    build().fails(6, &["exports nothing", "`export_order!(TYPE);`"]);
    place.write("mine/src/lib.rs", REFUSES);
    let said = build().succeeds().stderr;
    assert!(
        said.contains("configure: refuses: not with these"),
        "{said}"
    );
    place.write(
        "mine/plugin.toml",
        "name = 'mine'\nlanguage = 'cobol'\nworld = 'order'\n",
    );
    build().fails(6, &["plugin.toml", "cobol", "rust"]);
    place.write(
        "mine/plugin.toml",
        "name = '../mine'\nlanguage = 'rust'\nworld = 'order'\n",
    );
    build().fails(6, &["plugin.toml", "../mine"]);
}

#[test]
fn bare_names_are_found_in_the_plugin_path() {
    let place = Workplace::with_dataset(CONFIG);
    let component = crate::support::plugin::with_plan(crate::support::plugin::ROW_BY_ROW);
    place.write("shelf/by_row.wasm", component);
    place.write("shelf/broken.wasm", "no component");
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        finish(command.env("PBG_PLUGIN_PATH", "nowhere:shelf"))
    };
    let listed = run(&["plugin", "list"]).succeeds();
    assert!(listed.stdout.contains("evil") && listed.stdout.contains("by_row.wasm"));
    assert!(listed.stdout.contains("inside_out"), "{}", listed.stdout);
    assert!(listed.stderr.contains("broken.wasm"), "{}", listed.stderr);
    run(&["train", "--plugin", "by_row"]).succeeds();
    let compared = run(&["orders", "compare", "--order", "by_row"]).succeeds();
    assert!(compared.stdout.contains("by_row"), "{}", compared.stdout);
    run(&["plugin", "inspect", "by_rov"]).fails(6, &["by_rov"]);
    let url = ["train", "--plugin", "https://example.org/mine.wasm"];
    run(&url).fails(
        6,
        &["https://example.org/mine.wasm", "is a URL", "download it"],
    );
    // A configuration may use the folder's plugins, too; the name refers to the same file.
    let configured = ["train", "--set", "checkpoint_path=other", "--set"];
    run(&[&configured[..], &["bucket_order=by_row"]].concat()).succeeds();
    run(&["check", "--set", "loss_fn=by_row"]).fails(6, &["is a bucket order"]);
    run(&["check", "--set", "bucket_order=by_rov"]).fails(3, &["by_rov", "must be one of"]);
}

/// Order whose plan does not end with more than eight partitions.
#[test]
fn what_was_measured_before_a_limit_is_shown_with_how_to_raise_it() {
    let place = Workplace::empty();
    let begin = "(local.set $at (i32.const 8192))";
    let endless =
        "(if (i32.gt_u (i32.load (local.get $pass)) (i32.const 8)) (then (loop $on (br $on))))";
    let body = crate::support::plugin::ROW_BY_ROW.replacen(begin, &format!("{endless}{begin}"), 1);
    place.write("large.wasm", crate::support::plugin::with_plan(&body));
    // The order never frees memory, so it must not be called often.
    let bench = ["plugin", "bench", "large.wasm", "--seconds", "0.000001"];
    let ended = place.run([&bench[..], &["--limit", "deadline_ms=300"]].concat());
    assert!(ended.stdout.contains("plan 4 x 4"), "{ended:?}");
    ended.fails(
        6,
        &[
            "measuring plan 16 x 16",
            "300 ms",
            "`--limit deadline_ms=NUMBER`",
        ],
    );
    let compare = [
        "orders",
        "compare",
        "-p",
        "16",
        "--order",
        "inside_out",
        "--order",
        "large.wasm",
    ];
    let compared = place.run([&compare[..], &["--limit", "deadline_ms=300"]].concat());
    let said = compared.succeeds().stderr;
    assert!(said.contains("`--limit deadline_ms=NUMBER`"), "{said}");
    let check = ["plugin", "check", "inside_out", "--limit"];
    place
        .run([&check[..], &["dedline_ms=9"]].concat())
        .fails(2, &["`deadline_ms`"]);
    place
        .run([&check[..], &["stack_kib=1"]].concat())
        .fails(2, &["16 to 1024"]);
}

#[test]
fn a_broken_promise_is_found_and_the_bench_runs() {
    let place = Workplace::empty();
    let zeros = crate::support::plugin::zeros(crate::support::plugin::GRID);
    place.write("stuck.wasm", crate::support::plugin::with_plan(&zeros));
    let checked = place.run(["plugin", "check", "stuck.wasm"]);
    assert!(
        checked.stdout.contains("BROKEN  permutation"),
        "{}",
        checked.stdout
    );
    checked.fails(6, &["evil", "1 promise"]);
    let good = place.run(["plugin", "check", "inside_out"]).succeeds();
    for promise in [
        "loads",
        "permutation",
        "deterministic",
        "pick",
        "swaps",
        "time",
        "memory",
    ] {
        assert!(
            good.stdout.contains(promise),
            "{promise} is not in\n{}",
            good.stdout
        );
    }
    for loss in ["softmax", "softmax_computed"] {
        let good = place.run(["plugin", "check", loss]).succeeds().stdout;
        for promise in [
            "loads",
            "finite",
            "deterministic",
            "rows",
            "gradient",
            "time",
            "memory",
        ] {
            assert!(good.contains(promise), "{promise} is not in\n{good}");
        }
    }
    let benched = place
        .run([
            "plugin",
            "bench",
            "inside_out",
            "--seconds",
            "0.01",
            "--json",
        ])
        .succeeds();
    let measured: Value = serde_json::from_str(&benched.stdout).unwrap();
    let calls = measured["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 3);
    for seconds in [&calls[2]["median"], &measured["loading"]["cached"]] {
        assert!(seconds.as_f64().unwrap() > 0.0, "{measured}");
    }
}
