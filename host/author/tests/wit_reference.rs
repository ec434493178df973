//! Checks that the WIT files are frozen, and that `docs/plugins/wit.md` shows them; `UPDATE_DOCS=1` writes the page
//! again.

use std::fs;
use std::path::Path;

const HEAD: &str = "\
# The interface of plugins

Every function and type that host and plugin exchange: the files of `wit/`, which the bindings of all languages are generated from.
How to read WIT: <https://component-model.bytecodealliance.org/design/wit.html>. What may change: [versions.md](versions.md).

This page is generated: `UPDATE_DOCS=1 cargo test --release -p pbg-author` writes it again.
";

/// Files that a reader needs first; the others follow by name.
const FIRST: [&str; 4] = ["worlds", "types", "metadata", "log"];

#[test]
fn the_page_shows_the_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut names: Vec<String> = fs::read_dir(root.join("wit"))
        .expect("the folder wit/")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".wit").map(str::to_owned))
        .collect();
    let rank = |name: &str| FIRST.iter().position(|first| *first == name);
    names.sort_by_key(|name| (rank(name).unwrap_or(FIRST.len()), name.clone()));
    assert!(names.len() > FIRST.len(), "{names:?}");

    let mut page = HEAD.to_owned();
    for name in &names {
        let file = root.join("wit").join(format!("{name}.wit"));
        let text = fs::read_to_string(file).expect("a WIT file");
        page.push_str(&format!("\n## {name}\n\n```wit\n{}\n```\n", text.trim()));
    }
    let path = root.join("docs/plugins/wit.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &page).expect("the page is written");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/plugins/wit.md is not what the WIT files say: run\n\
         UPDATE_DOCS=1 cargo test --release -p pbg-author"
    );
}

/// Returns the lines of a WIT file that the component model compares: no comments, no empty lines.
fn compared(folder: &Path, name: &str) -> Vec<String> {
    let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_version_is_frozen() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (frozen, current) = (root.join("tests/wit-0.1.0"), root.join("wit"));
    let files = fs::read_dir(&frozen).expect("the frozen copy");
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    let names: Vec<String> = names.collect();
    assert!(names.len() >= 9, "{names:?}");
    for name in names {
        let (then, mut now) = (compared(&frozen, &name), compared(&current, &name));
        // New worlds may follow the existing ones, and a world may import more than it did.
        if name == "worlds.wit" {
            now.retain(|line| !line.starts_with("import ") || then.contains(line));
            now.truncate(then.len());
        }
        assert_eq!(
            now, then,
            "wit/{name} is no longer what plugins of 0.1.0 were built for: docs/plugins/versions.md"
        );
    }
}
