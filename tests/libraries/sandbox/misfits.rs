//! Files that are not plugins, and plugins that do not fit: refused when they are loaded, with the reason and
//! instructions for building them correctly.

use crate::sandbox::support::bounds::bounded;
use crate::sandbox::support::{Guest, encode, load, own_wit, sandbox, wit};
use pbg_wasm::{LoadError, PluginPath, PluginSlot, PluginSource, Sandbox};

fn refusal(sandbox: &Sandbox, bytes: Vec<u8>) -> String {
    let error = bounded(|| load(sandbox, bytes).err()).expect("no plugin");
    let message = error.to_string();
    assert!(message.starts_with("plugin evil.wasm: "), "{message}");
    message
}

#[track_caller]
fn assert_refused(bytes: Vec<u8>, reasons: &[&str]) {
    let message = refusal(&sandbox(), bytes);
    for reason in reasons {
        assert!(
            message.contains(reason),
            "\"{reason}\" is not in: {message}"
        );
    }
}

/// Returns a module that imports a function and has none of its own.
fn importing(interface: &str) -> String {
    format!(
        r#"(module (import "{interface}" "now" (func (result i64))) (memory (export "memory") 1))"#
    )
}

#[test]
fn files_of_other_kinds_are_told_apart() {
    assert_refused(Vec::new(), &["is empty"]);
    assert_refused(b"(component)".to_vec(), &["is WebAssembly text"]);
    assert_refused(
        b"\x7fELF and so on".to_vec(),
        &["is not a WebAssembly file"],
    );
    assert_refused(b"\0asm\x0d\0".to_vec(), &["truncated"]);
    let core = wat::parse_str(Guest::default().text()).expect("valid text");
    assert_refused(
        core,
        &[
            "is a core module, not a component",
            "wasm-tools component new",
        ],
    );
}

#[test]
fn a_plugin_cut_anywhere_is_refused() {
    let sandbox = sandbox();
    let whole = Guest::default().component();
    for length in (0..whole.len()).step_by(whole.len() / 40) {
        refusal(&sandbox, whole[..length].to_vec());
    }
    load(&sandbox, whole).expect("the whole plugin is fine");
}

#[test]
fn random_bytes_are_refused() {
    let sandbox = sandbox();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for length in 0..300_usize {
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        for _ in 0..length {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            bytes.push((state >> 56) as u8);
        }
        refusal(&sandbox, bytes);
    }
}

#[test]
fn a_flipped_byte_never_harms_the_host() {
    let sandbox = sandbox();
    let whole = Guest::default().component();
    for at in (8..whole.len()).step_by(whole.len() / 120) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x11;
        // Some flips only change a name or a number; all others must be an error, not a crash.
        if let Err(error) = load(&sandbox, bytes) {
            assert!(
                error.to_string().starts_with("plugin evil.wasm: "),
                "{error}"
            );
        }
    }
}

#[test]
fn wasi_is_refused_with_the_way_to_build_without() {
    // Clocks, entropy, the environment, files, sockets, the standard streams and process exit.
    for interface in [
        "clocks/monotonic-clock",
        "clocks/wall-clock",
        "random/random",
        "cli/environment",
        "cli/exit",
        "cli/stdout",
        "filesystem/preopens",
        "sockets/network",
        "io/poll",
        "http/outgoing-handler",
    ] {
        let (package, name) = interface
            .split_once('/')
            .expect("a package and an interface");
        let interfaces = wit(&format!(
            "package wasi:{package}@0.2.6;
            interface {name} {{ now: func() -> u64; }}
            world order {{ import {name}; }}"
        ));
        let import = format!("wasi:{interface}@0.2.6");
        let bytes = encode(&importing(&import), &interfaces, "order");
        assert_refused(
            bytes,
            &[
                &format!("imports {import}"),
                "WASI is not available",
                "wasm32-unknown-unknown",
                "--stub-wasi",
            ],
        );
    }
}

#[test]
fn foreign_imports_are_refused() {
    let interfaces = wit("package evil:host@1.0.0;
        interface api { now: func() -> u64; }
        world order { import api; }");
    let bytes = encode(&importing("evil:host/api@1.0.0"), &interfaces, "order");
    assert_refused(
        bytes,
        &[
            "imports evil:host/api@1.0.0",
            "only pbg:plugin/log, pbg:plugin/files and pbg:plugin/run are offered",
        ],
    );
}

#[test]
fn a_function_that_the_log_lacks_is_refused() {
    let interfaces = wit("package pbg:plugin@0.1.0;
        interface log { now: func() -> u64; }
        interface bucket-order { configure: func(parameters: string) -> result<_, string>; }
        world order { import log; export bucket-order; }");
    let module = r#"(module (import "pbg:plugin/log@0.1.0" "now" (func (result i64)))
        (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
        (func (export "pbg:plugin/bucket-order@0.1.0#configure") (param i32 i32) (result i32) (unreachable)))"#;
    assert_refused(
        encode(module, &interfaces, "order"),
        &["does not fit pbg:plugin@0.1.0", "now"],
    );
}

#[test]
fn another_version_is_refused() {
    let interfaces = wit("package pbg:plugin@0.2.0;
        interface bucket-order { configure: func(); }
        world order { export bucket-order; }");
    let module = r#"(module (func (export "pbg:plugin/bucket-order@0.2.0#configure")))"#;
    assert_refused(
        encode(module, &interfaces, "order"),
        &[
            "was built for pbg:plugin/bucket-order@0.2.0",
            "this program supports pbg:plugin@0.1.0",
        ],
    );
}

#[test]
fn missing_exports_are_named() {
    let interfaces = wit("package pbg:plugin@0.1.0;
        interface bucket-order { configure: func(); }
        world order { export bucket-order; }");
    let module = r#"(module (func (export "pbg:plugin/bucket-order@0.1.0#configure")))"#;
    assert_refused(encode(module, &interfaces, "order"), &["metadata"]);

    let module = r#"(module (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
        (func (export "pbg:plugin/metadata@0.1.0#describe") (result i32) (i32.const 256)))"#;
    assert_refused(
        encode(module, &own_wit(), "plugin"),
        &[
            "is not a plugin of pbg-host",
            "it exports pbg:plugin/metadata@0.1.0",
            "pbg:plugin/bucket-order@0.1.0",
        ],
    );
}

#[test]
fn surplus_exports_are_no_harm_but_a_second_strategy_is_refused() {
    let interfaces = wit("package pbg:plugin@0.1.0;
        interface bucket-order { configure: func(); }
        interface relation-sampler { configure: func(); }
        world order { export bucket-order; export relation-sampler; }");
    let module = r#"(module (func (export "pbg:plugin/bucket-order@0.1.0#configure"))
        (func (export "pbg:plugin/relation-sampler@0.1.0#configure")))"#;
    assert_refused(
        encode(module, &interfaces, "order"),
        &["is both a bucket order and a relation sampler"],
    );

    let mut interfaces = own_wit();
    interfaces
        .push_str(
            "surplus.wit",
            "package evil:surplus;
            interface api { more: func() -> u32; }
            world surplus { include pbg:plugin/order@0.1.0; export api; }",
        )
        .expect("the test's interfaces are valid");
    let guest = Guest {
        extra: r#"(func (export "evil:surplus/api#more") (result i32) (unreachable))"#.to_owned(),
        ..Guest::default()
    };
    let bytes = encode(&guest.text(), &interfaces, "surplus");
    load(&sandbox(), bytes).expect("nobody calls it");
}

#[test]
fn names_are_files_first_and_standard_plugins_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("inside_out.wasm");
    std::fs::write(&path, Guest::default().component()).expect("it can be written");
    let name = path.to_str().expect("a plain path");
    let from_file = sandbox()
        .open(PluginSource::resolve(name).expect("a file"))
        .expect("it loads");
    assert_eq!(from_file.inspection().metadata.name, "evil");

    for name in ["inside_out", "inside_out.wasm"] {
        let standard = PluginSource::resolve(name).expect("a standard plugin");
        assert_eq!(
            sandbox()
                .open(standard)
                .expect("it loads")
                .inspection()
                .metadata
                .name,
            "inside_out"
        );
    }

    let error = PluginSource::resolve("insideout.wasm")
        .expect_err("neither")
        .to_string();
    let parts = [
        "plugin insideout.wasm: no such file",
        "no standard plugin of this name",
        "did you mean inside_out?",
    ];
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    // Nobody reads a list of forty names of seven kinds.
    assert!(!error.contains("affinity"), "{error}");

    // Where the kind is known, its names are few, and only they and files are suggested.
    let unknown = |path: &PluginPath, slot| {
        let error = path.resolve_for("insideout", slot).expect_err("unknown");
        error.to_string()
    };
    let none = PluginPath::default();
    let error = unknown(&none, PluginSlot::BucketOrder);
    for part in [
        "no standard bucket order",
        "did you mean inside_out?",
        "there are affinity, ",
        ", random,",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let error = unknown(&none, PluginSlot::ComputedLoss);
    assert!(
        error.contains("no standard loss") && error.contains("softmax"),
        "{error}"
    );
    assert!(
        !error.contains("inside_out") && !error.contains("affinity"),
        "{error}"
    );
    let files = PluginPath::new([folder.path().to_owned()]);
    let error = unknown(&files, PluginSlot::TracedOperator);
    assert!(
        error.contains("no standard operator") && error.contains("did you mean inside_out?"),
        "{error}"
    );

    let folder = PluginSource::resolve(folder.path().to_str().expect("a plain path"));
    assert!(matches!(folder, Err(LoadError::Unreadable { .. })));
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("evil.wasm");
    std::fs::File::create(&path)
        .and_then(|f| f.set_len(1 << 40))
        .expect("a sparse file");
    let error =
        bounded(|| sandbox().load_order(PluginSource::File(path), &serde_json::Value::Null));
    let error = error.err().expect("a terabyte is refused");
    assert!(matches!(error, LoadError::Unreadable { .. }));
    assert!(
        error.to_string().contains("larger than 67108864 bytes"),
        "{error}"
    );
}
