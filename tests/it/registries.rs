//! Plugins in registries: pushed, pulled and pinned with the program. What a client does when its registry is slow, busy
//! or lies in other ways is tested in `host/registry`.

use std::fs;

use serde_json::Value;

use crate::registry_server::{GivenAnswer, TestRegistry, sha256};
use crate::support::plugin::{ROW_BY_ROW, with_plan};
use crate::support::{Finished, Workplace, finish, graph::CONFIG};

/// A password, as an attacker would look for it in messages.
const PASSWORD: &str = "n0b0dy-reads-this";

/// Creates a folder with the valid component `order.wasm`.
fn workplace() -> Workplace {
    let place = Workplace::empty();
    place.write("order.wasm", with_plan(ROW_BY_ROW));
    place
}

/// Runs the program without credentials of the user who runs the tests.
fn run(place: &Workplace, args: &[&str]) -> Finished {
    with_variables(place, args, &[])
}

fn with_variables(place: &Workplace, args: &[&str], variables: &[(&str, &str)]) -> Finished {
    let mut command = place.command(args);
    command.env("DOCKER_CONFIG", place.path("docker"));
    for name in ["PBG_REGISTRY", "PBG_REGISTRY_USER", "PBG_REGISTRY_PASSWORD"] {
        command.env_remove(name);
    }
    finish(command.envs(variables.iter().copied()))
}

/// Pushes `order.wasm`; returns the reference with the digest.
fn push(place: &Workplace, reference: &str) -> String {
    let pushed = run(place, &["plugin", "push", "order.wasm", reference]);
    pushed.succeeds().stdout.trim().to_owned()
}

#[test]
fn a_pushed_plugin_is_pulled_and_pinned() {
    let (place, registry) = (workplace(), TestRegistry::start());
    let reference = registry.reference("me/my_order:1.0");
    let pushed = push(&place, &reference);
    assert!(
        pushed.starts_with(&format!("{reference}@sha256:")),
        "{pushed}"
    );
    let pulled = run(&place, &["plugin", "pull", &reference]).succeeds();
    let bytes = fs::read(place.path("my_order.wasm")).unwrap();
    assert_eq!(bytes, fs::read(place.path("order.wasm")).unwrap());
    let sha256 = sha256(&bytes).replace("sha256:", "");
    for words in ["evil 6.6.6", "bucket order", &pushed, &sha256] {
        assert!(
            pulled.stdout.contains(words),
            "{words} is not in\n{}",
            pulled.stdout
        );
    }
    let digest = pushed.split_once('@').unwrap().1;
    assert!(
        pulled
            .stderr
            .contains(&format!("the tag 1.0 is now {digest}")),
        "{}",
        pulled.stderr
    );

    // The last lines are a pin that a run accepts, and that refuses other plugins of this name.
    let pin = &pulled.stdout[pulled.stdout.find("# The pin").unwrap()..];
    let run_place = Workplace::with_dataset(&format!("{CONFIG}\n{pin}"));
    run_place.write("my_order.wasm", &bytes);
    let train = [
        "train",
        "--plugin",
        "my_order.wasm",
        "--set",
        "num_epochs=1",
    ];
    run_place.run(train).succeeds();
    let other = with_plan("unreachable");
    run_place.write("my_order.wasm", other);
    run_place.run(train).fails(6, &["its pin requires"]);
}

#[test]
fn what_is_stored_is_what_other_programs_read() {
    let (place, registry) = (workplace(), TestRegistry::start());
    push(&place, &registry.reference("o:1"));
    let manifest: Value = serde_json::from_slice(&registry.manifest("o", "1")).unwrap();
    assert_eq!(
        manifest["config"]["mediaType"],
        "application/vnd.wasm.config.v0+json"
    );
    assert_eq!(manifest["layers"].as_array().unwrap().len(), 1);
    let layer = &manifest["layers"][0];
    assert_eq!(layer["mediaType"], "application/wasm");
    let config = registry.blob(manifest["config"]["digest"].as_str().unwrap());
    let config: Value = serde_json::from_slice(&config).unwrap();
    assert_eq!(
        (&config["architecture"], &config["os"]),
        (&"wasm".into(), &"wasip2".into())
    );
    assert_eq!(config["layerDigests"], serde_json::json!([layer["digest"]]));
    let exports = config["component"]["exports"].to_string();
    assert!(
        exports.contains("pbg:plugin/bucket-order@0.1.0"),
        "{exports}"
    );
}

#[test]
fn plugins_that_other_programs_have_pushed_are_pulled() {
    let (place, registry) = (workplace(), TestRegistry::start());
    registry.store("o", "1", &with_plan(ROW_BY_ROW));
    let pulled = run(
        &place,
        &["plugin", "pull", &registry.reference("o:1"), "--json"],
    );
    let pulled: Value = serde_json::from_str(&pulled.succeeds().stdout).unwrap();
    assert_eq!(
        (&pulled["name"], &pulled["file"]),
        (&"evil".into(), &"o.wasm".into())
    );
    assert_eq!(pulled["kind"], "bucket_order");
}

#[test]
fn a_tag_that_moves_is_said() {
    let (place, registry) = (workplace(), TestRegistry::start());
    let reference = registry.reference("o:1");
    let first = push(&place, &reference);
    let bytes = place.write("order.wasm", with_plan("unreachable"));
    let moved = run(&place, &["plugin", "push", "order.wasm", &reference]).succeeds();
    let digest = first.split_once('@').unwrap().1;
    assert!(
        moved
            .stderr
            .contains(&format!("the tag 1 has moved; before, it was {digest}")),
        "{}",
        moved.stderr
    );
    let pulled = run(&place, &["plugin", "pull", &first]).succeeds();
    let now = moved.stdout.trim().split_once('@').unwrap().1;
    assert!(
        pulled
            .stderr
            .contains(&format!("the tag 1 has moved: it is now {now}")),
        "{}",
        pulled.stderr
    );
    let pulled = fs::read(place.path("o.wasm")).unwrap();
    assert_eq!(pulled, with_plan(ROW_BY_ROW));
    assert_ne!(pulled, fs::read(bytes).unwrap());
}

#[test]
fn a_registry_that_sends_something_else_is_refused() {
    let (place, other) = (workplace(), with_plan("unreachable"));
    let registry = TestRegistry::with(move |request, answer| {
        match request.method == "GET" && request.path.contains("/blobs/") {
            true => GivenAnswer::new(200, other.clone()),
            false => answer,
        }
    });
    let reference = registry.reference("o:1");
    push(&place, &reference);
    run(&place, &["plugin", "pull", &reference]).fails(6, &[&reference, "for the component"]);
    assert!(!place.path("o.wasm").exists());
}

#[test]
fn what_is_no_plugin_is_neither_pulled_nor_pushed() {
    let (place, registry) = (workplace(), TestRegistry::start());
    registry.store("o", "1", b"\0asm\x01\0\0\0");
    let reference = registry.reference("o:1");
    run(&place, &["plugin", "pull", &reference]).fails(6, &[&reference]);
    assert!(!place.path("o.wasm").exists());
    place.write("order.wasm", "no component");
    run(
        &place,
        &["plugin", "push", "order.wasm", &registry.reference("new:1")],
    )
    .fails(6, &["order.wasm"]);
    assert!(
        !registry
            .asked()
            .iter()
            .any(|asked| asked.path.contains("/new/"))
    );
}

#[test]
fn components_that_are_too_large_are_not_loaded_from_the_registry() {
    let (place, registry) = (workplace(), TestRegistry::start());
    let manifest = format!(
        r#"{{"schemaVersion":2,"layers":[{{"mediaType":"application/wasm","digest":"{}","size":99999999999}}]}}"#,
        sha256(b"")
    );
    registry.store_manifest("o", "1", manifest.as_bytes());
    run(&place, &["plugin", "pull", &registry.reference("o:1")]).fails(
        6,
        &["has 99999999999 bytes, more than the 67108864 that a plugin may have"],
    );
}

#[test]
fn other_files_are_not_overwritten_unless_the_user_says_so() {
    let (place, registry) = (workplace(), TestRegistry::start());
    let reference = registry.reference("o:1");
    push(&place, &reference);
    place.write("o.wasm", "mine");
    run(&place, &["plugin", "pull", &reference])
        .fails(2, &["o.wasm exists with other content", "--overwrite"]);
    assert_eq!(place.read("o.wasm"), "mine");
    run(&place, &["plugin", "pull", &reference, "--out", "plugins"]).succeeds();
    fs::create_dir(place.path("folder")).unwrap();
    run(&place, &["plugin", "pull", &reference, "--out", "folder"])
        .fails(2, &["folder is a folder"]);
    for option in ["--overwrite", "--force"] {
        place.write("o.wasm", "mine");
        run(&place, &["plugin", "pull", &reference, option]).succeeds();
        assert_eq!(
            fs::read(place.path("o.wasm")).unwrap(),
            with_plan(ROW_BY_ROW)
        );
    }
    let again = run(&place, &["plugin", "pull", &reference]).succeeds();
    assert!(
        again.stderr.contains("o.wasm has this content already"),
        "{}",
        again.stderr
    );
}

#[test]
fn credentials_are_sent_to_their_registry_only_and_never_shown() {
    let wants = || {
        TestRegistry::with(
            |request, answer| match request.headers.get("authorization") {
                // me:n0b0dy-reads-this
                Some(value) if value == "Basic bWU6bjBiMGR5LXJlYWRzLXRoaXM=" => answer,
                // Repeats what it was sent, so that it would be seen.
                sent => {
                    let text = format!(
                        r#"{{"errors":[{{"code":"DENIED","message":"{sent:?} {PASSWORD}"}}]}}"#
                    );
                    GivenAnswer::new(401, text).with("www-authenticate", "Basic realm=\"x\"")
                }
            },
        )
    };
    let (place, own, other) = (workplace(), wants(), wants());
    let auths = format!(
        r#"{{"auths": {{"127.0.0.1:{}": {{"auth": "bWU6bjBiMGR5LXJlYWRzLXRoaXM="}}}}}}"#,
        own.port()
    );
    place.write("docker/config.json", &auths);
    let (reference, elsewhere) = (own.reference("o:1"), other.reference("o:1"));
    push(&place, &reference);
    let pulled = run(&place, &["--verbose", "plugin", "pull", &reference]).succeeds();
    let refused = run(&place, &["--verbose", "plugin", "pull", &elsewhere]);
    let refused = refused.fails(
        8,
        &["wants credentials", "PBG_REGISTRY_PASSWORD", "docker login"],
    );
    let is_given =
        |asked: &crate::registry_server::AskedRequest| asked.headers.contains_key("authorization");
    assert!(own.asked().iter().any(is_given) && !other.asked().iter().any(is_given));

    let host = format!("127.0.0.1:{}", other.port());
    let variables = |password| {
        [
            ("PBG_REGISTRY", host.as_str()),
            ("PBG_REGISTRY_USER", "me"),
            ("PBG_REGISTRY_PASSWORD", password),
        ]
    };
    other.store("o", "1", &with_plan(ROW_BY_ROW));
    let pull = ["plugin", "pull", &elsewhere];
    let by_variables = with_variables(&place, &pull, &variables(PASSWORD)).succeeds();
    let wrong = format!("{PASSWORD}-2");
    let wrong = with_variables(&place, &pull, &variables(&wrong))
        .fails(8, &["does not accept the credentials"]);
    for said in [pulled, refused, by_variables, wrong] {
        let said = said.stdout + &said.stderr;
        assert!(!said.contains(PASSWORD) && !said.contains("bWU6"), "{said}");
    }
    let helper = r#"{"credsStore": "desktop"}"#;
    place.write("docker/config.json", helper);
    run(&place, &pull).fails(8, &["docker-credential-desktop", "does not start"]);
    place.write("docker/config.json", format!("{{{auths}"));
    run(&place, &pull).fails(2, &["config.json, line 1", "DOCKER_CONFIG"]);
}

#[test]
fn only_this_machine_is_asked_without_encryption() {
    let (place, registry) = (workplace(), TestRegistry::start());
    push(&place, &registry.reference("o:1"));
    let local = format!("oci://localhost:{}/o:1", registry.port());
    run(&place, &["plugin", "pull", &local]).succeeds();
    // An address that is not written as one of this machine.
    let mapped = format!("oci://[::ffff:127.0.0.1]:{}/o:1", registry.port());
    run(&place, &["plugin", "pull", &mapped]).fails(8, &[&mapped, "over HTTPS", "needs HTTPS"]);
}

#[test]
fn references_that_cannot_be_used_say_how_to_write_them() {
    let place = workplace();
    let secret = format!("oci://me:{PASSWORD}@ghcr.io/o:1");
    let refused = run(&place, &["plugin", "pull", &secret])
        .fails(2, &["has credentials", "PBG_REGISTRY_PASSWORD"]);
    assert!(!refused.stderr.contains(PASSWORD), "{}", refused.stderr);
    for (reference, words) in [
        ("http://ghcr.io/me/o:1", "over HTTPS"),
        ("ghcr.io/me/o:1", "does not begin with oci://"),
        ("oci://ghcr.io", "names no repository"),
        ("oci://ghcr.io/me/o@sha256:12", "64 hexadecimal digits"),
    ] {
        run(&place, &["plugin", "pull", reference]).fails(2, &[reference, words, "write oci://"]);
    }
    let digest = format!("oci://localhost:1/o@{}", sha256(b""));
    run(&place, &["plugin", "push", "order.wasm", &digest]).fails(2, &["has a digest"]);
}

#[test]
fn a_plugin_in_a_registry_is_to_be_pulled_first() {
    let place = workplace();
    let reference = "oci://ghcr.io/me/o:1";
    let pull = format!("`pbg-host plugin pull {reference}`");
    place
        .run(["plugin", "inspect", reference])
        .fails(6, &[&pull, "[[plugins.pins]]"]);
    place
        .run(["plugin", "inspect", "https://example.org/o.wasm"])
        .fails(6, &["is a URL", "pbg-host plugin pull", "[[plugins.pins]]"]);
    // A URL has a colon, as a name with parameters has.
    let show = |order: &str| place.run(["orders", "show", order, "-p", "4", "-c", "2"]);
    show(reference).fails(6, &[&pull, "[[plugins.pins]]"]);
    show("s3://bucket/o.wasm").fails(6, &["s3://bucket/o.wasm", "is a URL"]);
    let compare = [
        "orders", "compare", "-p", "4", "-c", "2", "--order", "beta", "--order",
    ];
    let compared = place
        .run(compare.iter().chain(&[reference]))
        .succeeds()
        .stdout;
    assert!(compared.contains(&pull), "{compared}");
}
