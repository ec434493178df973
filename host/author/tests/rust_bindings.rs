//! Checks the Rust SDK's bindings of the WIT files; `UPDATE_DOCS=1` generates them again.

use std::fs;
use std::path::{Path, PathBuf};

use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_core::{Files, WorldGenerator as _};
use wit_bindgen_rust::{Opts, WithOption};

/// Modules of the bindings, each with the interface that its world exports. Each has its own world, separate from that
/// of `metadata`: the encoder of components joins the two.
const STRATEGIES: [(&str, &str); 9] = [
    ("comparator", "comparator-formula"),
    ("computed", "loss-computed"),
    ("negatives", "negative-distribution"),
    ("operator", "operator-formula"),
    ("order", "bucket-order"),
    ("sampler", "relation-sampler"),
    ("schedule", "learning-rate-schedule"),
    ("selection", "negative-selection"),
    ("traced", "loss-traced"),
];

/// Module with the types that the others share.
const TYPES: &str = "order";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Generates the bindings of `world` in `package`, or in the WIT files without one.
fn generated(
    module: &str,
    package: Option<&str>,
    world: &str,
    with: Vec<(String, WithOption)>,
) -> String {
    let mut resolve = Resolve::default();
    let (ours, _) = resolve.push_path(root().join("wit")).expect("WIT files");
    let package = package.map_or(ours, |text| {
        resolve.push_str("inline", text).expect("a package")
    });
    let world = resolve.select_world(&[package], Some(world));
    let world = world.expect("a world");
    let options = Opts {
        format: true,
        with,
        pub_export_macro: true,
        default_bindings_module: Some(format!("pbg_plugin_sdk::glue::bindings::{module}")),
        ..Opts::default()
    };
    let mut files = Files::default();
    let mut generator = options.build();
    generator
        .generate(&mut resolve, world, &mut files)
        .expect("bindings");
    let (_, source) = files.iter().next().expect("a file");
    String::from_utf8(source.to_vec()).expect("a text")
}

/// Generates the bindings of a strategy's world.
fn of_strategy(module: &str, interface: &str) -> String {
    let package = format!(
        "package pbg:sdk;
        world {module} {{
            import pbg:plugin/log@0.1.0;
            export pbg:plugin/{interface}@0.1.0;
        }}"
    );
    let shared = |path: &str| WithOption::Path(format!("crate::glue::{path}"));
    let types = match module == TYPES {
        true => WithOption::Generate,
        false => shared("types"),
    };
    let with = [("log", shared("log")), ("types", types)];
    let with = with.map(|(name, option)| (format!("pbg:plugin/{name}@0.1.0"), option));
    generated(module, Some(&package), module, with.into())
}

#[test]
fn the_bindings_are_those_of_the_files() {
    let folder = root().join("plugins/sdk/src/glue/bindings");
    let mut expected = vec![(
        "metadata",
        generated("metadata", None, "plugin", Vec::new()),
    )];
    let strategies = STRATEGIES.iter();
    expected
        .extend(strategies.map(|(module, interface)| (*module, of_strategy(module, interface))));
    for (module, source) in expected {
        let path = folder.join(format!("{module}.rs"));
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, &source).expect("the bindings are written");
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == source,
            "{} is not what the WIT files say: run\n\
             UPDATE_DOCS=1 cargo test --release -p pbg-author",
            path.display()
        );
    }
}
