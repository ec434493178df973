//! Small components that take long to compile or to instantiate. Here a child process of this test program compiles
//! them, as in the program itself.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use pbg_core::strategy::BucketOrder as _;
use pbg_library_tests::bombs::{below_every_cap, counted};
use pbg_wasm::{CodeCache, CompilerProcess, Limits, Sandbox};

use crate::sandbox::support::bounds::{bounded, bounded_in_memory};
use crate::sandbox::support::{Guest, load, pass, sandbox};

/// Variable that marks the child process of this program in which [`the_child_that_compiles`] does its work.
const CHILD: &str = "PBG_SANDBOX_COMPILES";

/// Not a test: the tests below start it in a child process, which compiles.
#[test]
fn the_child_that_compiles() {
    if std::env::var_os(CHILD).is_some() {
        CompilerProcess::serve().expect("a parent process sends a request");
        std::process::exit(0);
    }
}

/// Returns this test program as a compiler. `env` has the variable that marks the child.
fn compiler() -> CompilerProcess {
    let itself = std::env::current_exe().expect("a test knows its program");
    let arguments = [
        format!("{CHILD}=1"),
        itself.display().to_string(),
        "--exact".to_owned(),
        "sandbox::compiler::the_child_that_compiles".to_owned(),
        "--nocapture".to_owned(),
    ];
    CompilerProcess::new(PathBuf::from("env"), arguments.map(Into::into).to_vec())
}

fn contained(limits: Limits) -> Sandbox {
    let sandbox = Sandbox::new(limits).expect("the sandbox starts");
    sandbox.with_compiler(compiler())
}

#[test]
fn a_child_compiles_the_same() {
    let component = Guest::default().component();
    let mut here = load(&sandbox(), component.clone()).expect("it loads");
    let mut there = load(&contained(Limits::default()), component).expect("it loads");
    let plan = here.plan(&pass(2, 2)).expect("it plans");
    assert_eq!(there.plan(&pass(2, 2)).expect("it plans"), plan);
}

#[test]
fn what_does_not_compile_is_refused_as_here() {
    let bytes = wat::parse_str("(component (core module (memory i64 1)))").expect("valid text");
    let here = load(&sandbox(), bytes.clone()).err().expect("no plugin");
    let there = load(&contained(Limits::default()), bytes).err();
    assert_eq!(there.expect("no plugin").to_string(), here.to_string());
}

#[test]
fn what_is_kept_starts_no_child() {
    let place = tempfile::tempdir().expect("a folder");
    let cache = || CodeCache::open(&place.path().join("cache")).expect("it opens");
    let component = Guest::default().component();
    load(
        &contained(Limits::default()).with_cache(cache()),
        component.clone(),
    )
    .expect("it loads");
    let none = || CompilerProcess::new("/does/not/exist".into(), Vec::new());
    let with_none = || sandbox().with_compiler(none());
    load(&with_none().with_cache(cache()), component.clone()).expect("it is in the cache");
    let error = load(&with_none(), component)
        .err()
        .expect("nothing compiles");
    let error = error.to_string();
    assert!(
        error.contains("evil.wasm: cannot start the process that compiles it"),
        "{error}"
    );
}

#[test]
fn what_has_too_much_of_something_is_not_compiled() {
    for (name, bytes, reason) in counted(&Guest::default().component()) {
        let error = bounded(|| load(&sandbox(), bytes).err()).expect(name);
        let (error, reason) = (error.to_string(), reason.expect("it is counted"));
        assert!(
            error.contains("plugin evil.wasm: ") && error.contains(reason),
            "{name}: \"{reason}\" is not in: {error}"
        );
    }
}

/// Each component either works or is refused by a limit, which also bounds the time.
#[test]
fn what_stays_below_every_count_is_bounded_all_the_same() {
    let limits = Limits {
        compile_seconds: 1,
        ..Limits::default()
    };
    let mut refused = 0;
    for (name, bytes, _) in below_every_cap(&Guest::default().component()) {
        match bounded_in_memory(|| load(&contained(limits.clone()), bytes)) {
            Ok(mut order) => drop(order.plan(&pass(2, 2)).expect(name)),
            Err(error) => {
                let error = error.to_string();
                let limited = ["compile_seconds", "of memory to compile", "too high"];
                assert!(
                    limited.iter().any(|limit| error.contains(limit)),
                    "{name}: {error}"
                );
                refused += 1;
            }
        }
    }
    assert!(
        refused > 0,
        "every component was compiled, none was refused"
    );
}

#[test]
fn a_child_that_does_not_answer_is_named() {
    let silent = CompilerProcess::new("true".into(), Vec::new());
    let error = load(
        &sandbox().with_compiler(silent),
        Guest::default().component(),
    );
    let error = error.err().expect("no code").to_string();
    assert!(error.contains("was ended by the system"), "{error}");
    // Output that is not code of this engine is refused as well.
    let liar = CompilerProcess::new(
        "sh".into(),
        ["-c", "cat <&0 >/dev/null; printf '\\0nothing' >&0"]
            .map(Into::into)
            .to_vec(),
    );
    let error = load(&sandbox().with_compiler(liar), Guest::default().component());
    let error = error.err().expect("no code").to_string();
    assert!(error.starts_with("plugin evil.wasm: "), "{error}");
    assert!(
        Command::new("true").status().is_ok(),
        "the shell's tools are here"
    );
}

/// Returns a large component whose functions do not depend on its data.
fn large(filling: char) -> Vec<u8> {
    let data: String = std::iter::repeat_n(filling, 1 << 20).collect();
    let guest = Guest {
        extra: format!("(data (i32.const 65536) \"{data}\")"),
        memory: "(memory (export \"memory\") 32)",
        ..Guest::default()
    };
    guest.component()
}

#[test]
fn functions_of_large_components_are_kept_and_never_used_when_somebody_changed_them() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("cache");
    let plan = |component: Vec<u8>| {
        let cache = CodeCache::open(&folder).expect("it opens");
        let sandbox = contained(Limits::default()).with_cache(cache);
        let mut order = load(&sandbox, component).expect("it loads");
        order.plan(&pass(2, 2)).expect("it plans")
    };
    let kept = || {
        let names = fs::read_dir(&folder).expect("the folder exists");
        let mut paths = names.map(|entry| entry.expect("readable").path());
        paths.find(|path| path.display().to_string().contains("functions-"))
    };
    let expected = plan(Guest::default().component());
    assert_eq!(kept(), None, "a small one is compiled as fast");
    assert_eq!(plan(large('a')), expected);
    let path = kept().expect("functions are kept");
    let mode = fs::metadata(&path).expect("it is there").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    assert_eq!(plan(large('b')), expected);
    let mut changed = fs::read(&path).expect("readable");
    *changed.last_mut().expect("there are functions") ^= 1;
    fs::write(&path, &changed).expect("writable");
    assert_eq!(plan(large('c')), expected);
    assert!(fs::read(&path).expect("written anew") != changed);
}
