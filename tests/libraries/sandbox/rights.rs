//! Grants, pins, and replays of failed calls.

use std::fs;
use std::path::Path;

use pbg_core::loss::TracedLoss;
use pbg_core::strategy::{BucketOrder as _, Loss, SamplerFactory as _};
use pbg_wasm::{CallReplay, FolderGrant, LoadError, LoadedOrder, PluginSource};
use serde_json::{Value, json};

use crate::sandbox::support::{Guest, pass, sampler, sandbox};

fn from_file(folder: &Path) -> Result<LoadedOrder, LoadError> {
    let grant = FolderGrant {
        plugin: "from_file".to_owned(),
        read: vec![folder.to_owned()],
    };
    let source = PluginSource::resolve("from_file").expect("a standard plugin");
    let parameters = json!({"path": "mine.csv"});
    sandbox()
        .with_grants(vec![grant])
        .load_order(source, &parameters)
}

#[test]
fn an_order_comes_from_a_granted_file() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("mine.csv"), "1,1\n0,1\n1,0\n0,0\n").expect("writable");
    let mut order = from_file(folder.path()).expect("it loads");
    let plan = order.plan(&pass(2, 2)).expect("it plans");
    let plan: Vec<_> = plan.iter().map(|b| (b.lhs, b.rhs)).collect();
    assert_eq!(plan, [(1, 1), (0, 1), (1, 0), (0, 0)]);

    let refusal = order.plan(&pass(3, 3)).expect_err("another grid");
    assert!(refusal.reason.contains("does not name bucket"), "{refusal}");
    fs::remove_file(folder.path().join("mine.csv")).expect("removable");
    let refusal = order.plan(&pass(2, 2)).expect_err("it is gone");
    assert!(
        refusal.reason.contains("mine.csv: no such file"),
        "{refusal}"
    );
}

#[test]
fn nothing_is_read_without_a_grant() {
    let source = PluginSource::resolve("from_file").expect("a standard plugin");
    let mut order = sandbox()
        .load_order(source, &Value::Null)
        .expect("it loads");
    let refusal = order.plan(&pass(1, 1)).expect_err("nothing is granted");
    assert!(refusal.reason.contains("no folder is granted"), "{refusal}");
    assert!(refusal.reason.contains("[[plugins.grants]]"), "{refusal}");
    let missing = from_file(Path::new("/nowhere/at/all"));
    let error = missing.err().expect("there is no such folder").to_string();
    assert!(error.contains("/nowhere/at/all"), "{error}");
}

#[test]
fn who_asks_for_files_is_shown() {
    let asks = |name: &str| {
        let source = PluginSource::resolve(name).expect("a standard plugin");
        let plugin = sandbox().open(source).expect("it loads");
        plugin.inspection().reads_files
    };
    assert!(asks("from_file"));
    assert!(!asks("inside_out"));
}

#[test]
fn a_pinned_plugin_is_that_one_or_none() {
    let open = |name: &str, sha256: &str| {
        let pins = vec![(name.to_owned(), sha256.to_owned())];
        let source = PluginSource::resolve("random").expect("a standard plugin");
        sandbox().with_pins(pins).open(source)
    };
    let sha256 = open("other", "").expect("another's pin").id().sha256;
    open("random", &sha256).expect("the pinned one");
    open("random", &sha256.to_uppercase()).expect("the pinned one");
    let error = open("random", &"0".repeat(64))
        .err()
        .expect("not the pinned one");
    assert!(matches!(error, LoadError::Pinned { .. }));
    assert!(error.to_string().contains(&sha256), "{error}");
}

/// Executor of formulas for tests without losses.
fn no_formula(_: TracedLoss) -> Box<dyn Loss> {
    panic!("no loss is called")
}

/// Reads the only file that a fault left.
fn replay(faults: &Path) -> CallReplay {
    let mut files = fs::read_dir(faults).expect("a fault left it");
    let path = files.next().expect("one file").expect("readable").path();
    assert!(files.next().is_none());
    CallReplay::read(&path).expect("it can be read")
}

#[test]
fn a_failed_plan_can_be_asked_again() {
    let place = tempfile::tempdir().expect("a folder");
    let faults = place.path().join("faults");
    let evil = place.path().join("evil.wasm");
    let guest = Guest::planning(&[(0, 0), (0, 0), (1, 0), (1, 1)]);
    fs::write(&evil, guest.component()).expect("writable");
    let source = PluginSource::File(evil.clone());
    let mut order = sandbox()
        .with_faults(faults.clone())
        .load_order(source.clone(), &Value::Null)
        .expect("it loads");
    let error = order.plan(&pass(2, 2)).expect_err("a bucket twice");
    assert!(error.reason.contains("pbg-host plugin replay"), "{error}");

    let replay = replay(&faults);
    assert_eq!(
        (replay.function.as_str(), &replay.plugin),
        ("plan", order.id())
    );
    assert_eq!(replay.source, evil.display().to_string());
    let plugin = sandbox().open(source).expect("it loads");
    let again = replay.ask(plugin, no_formula).expect("it is configured");
    let again = again.expect_err("it fails again");
    assert_eq!(*again.reason, *replay.reason);

    let mended = PluginSource::resolve("random").expect("a standard plugin");
    let plugin = sandbox().open(mended).expect("it loads");
    let answer = replay.ask(plugin, no_formula).expect("it is configured");
    assert_eq!(answer.expect("it plans"), "a plan of 4 buckets");
}

#[test]
fn a_failed_draw_can_be_asked_again() {
    let place = tempfile::tempdir().expect("a folder");
    let faults = place.path().join("faults");
    // Its third draw takes more edges than are left.
    let guest = sampler::Guest {
        next: sampler::Guest::default().next.replacen(
            &sampler::draw(1, 2),
            &sampler::draw(1, 3),
            1,
        ),
        ..sampler::Guest::default()
    };
    let source = PluginSource::Bytes {
        label: "evil.wasm".to_owned(),
        bytes: guest.component(),
    };
    let open = || sandbox().with_faults(faults.clone()).open(source.clone());
    let factory = open()
        .and_then(|plugin| plugin.into_sampler(&Value::Null))
        .expect("it loads");
    let mut walk = factory.create(&[3, 2], 4, 7).expect("it begins");
    for loss in [0.5, 0.25] {
        let draw = walk.next().expect("it draws").expect("a batch");
        walk.observe(draw.relation, loss).expect("it observes");
    }
    let error = walk.next().expect_err("three of two edges");
    let replay = replay(&faults);
    assert_eq!(replay.function, "next");
    let plugin = sandbox().open(source.clone()).expect("it loads");
    let again = replay.ask(plugin, no_formula).expect("it is configured");
    let again = again.expect_err("it fails again");
    assert!(error.reason.starts_with(&*again.reason), "{again}");
}

#[test]
fn files_that_ask_nonsense_are_refused() {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("replay.json");
    let faults = place.path().join("faults");
    let source = PluginSource::Bytes {
        label: "evil.wasm".to_owned(),
        bytes: Guest::planning(&[]).component(),
    };
    let mut order = sandbox()
        .with_faults(faults.clone())
        .load_order(source, &Value::Null)
        .expect("it loads");
    order.plan(&pass(2, 2)).expect_err("an empty plan");
    let sound = serde_json::to_value(replay(&faults)).expect("it has a form");
    let check = |change: &dyn Fn(&mut Value), reason: &str| {
        let mut changed = sound.clone();
        change(&mut changed);
        fs::write(&path, changed.to_string()).expect("writable");
        let error = CallReplay::read(&path).expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
    };
    check(
        &|v| v["call"]["pass"]["lhs_partitions"] = json!(u32::MAX),
        "contradict",
    );
    check(&|v| v["call"]["pass"]["edges"] = json!([]), "contradict");
    check(&|v| v["format"] = json!(2), "format 2");
    check(&|v| v["limits"] = json!({}), "is not a replay file");
    check(&|v| *v = json!([]), "is not a replay file");
    CallReplay::read(place.path()).expect_err("a folder");
}
