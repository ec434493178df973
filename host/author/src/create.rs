//! Creation of plugin projects from templates.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::builder::c;
use crate::embedded;
use crate::error::CreateError;
use crate::language::Language;
use crate::name::PluginName;
use crate::world::World;

/// Creates a project for a plugin called `name` in `folder`, which must be empty or not exist. Returns the paths of the
/// files that the author edits, relative to the folder.
///
/// # Errors
/// [`CreateError`]. Nothing was written, except with [`CreateError::Write`] and [`CreateError::Bindings`].
pub fn create(
    name: &str,
    world: World,
    language: Language,
    folder: &Path,
) -> Result<Vec<PathBuf>, CreateError> {
    let name = PluginName::new(name)?;
    if !is_free(folder) {
        return Err(CreateError::Occupied {
            folder: folder.to_owned(),
        });
    }
    if world == World::ComputedLoss && language != Language::Rust {
        return Err(CreateError::TooSlow { language });
    }
    let own = own_files(&name, world, language);
    for (path, content) in own.iter().chain(&sdk_files(language)) {
        write(&folder.join(path), content)?;
    }
    if language == Language::C {
        let reason = |error: crate::error::BuildError| CreateError::Bindings {
            reason: error.to_string(),
        };
        c::write_bindings(folder, world).map_err(reason)?;
    }
    Ok(own.into_iter().map(|(path, _)| path.into()).collect())
}

/// Returns whether the folder is empty or does not exist.
fn is_free(folder: &Path) -> bool {
    match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Returns the files that the author edits, as paths and contents: the templates that all projects share, those of the
/// language, and those of the kind of plugin in this language.
fn own_files(name: &PluginName, world: World, language: Language) -> Vec<(String, String)> {
    let folders = [
        "common/".to_owned(),
        format!("{}/common/", language.folder()),
        format!("{}/{}/", language.folder(), world.name()),
    ];
    let fill = |text: &str| filled(text, name, world, language);
    let mut files = Vec::new();
    for (path, content) in embedded::TEMPLATES {
        if let Some(path) = folders.iter().find_map(|f| path.strip_prefix(f.as_str())) {
            let path = path.strip_suffix(".in").unwrap_or(path);
            files.push((path.replace("NAME", name.as_str()), fill(content)));
        }
    }
    files
}

/// Replaces the placeholders of a template.
fn filled(text: &str, name: &PluginName, world: World, language: Language) -> String {
    text.replace("{{name}}", name.as_str())
        .replace("{{Name}}", &name.camel())
        .replace("{{package}}", &name.kebab())
        .replace("{{language}}", language.folder())
        .replace("{{world}}", world.name())
        .replace("{{version}}", env!("CARGO_PKG_VERSION"))
}

/// Returns the files of the SDK, and the WIT files if the tools of the language read them.
fn sdk_files(language: Language) -> Vec<(String, String)> {
    let tree = |folder: &str, files: &[(&str, &str)]| -> Vec<(String, String)> {
        files
            .iter()
            .map(|(path, content)| (format!("{folder}/{path}"), (*content).to_owned()))
            .collect()
    };
    let sdk = match language {
        // The bindings of the Rust SDK are already generated.
        Language::Rust => {
            let formula = [("Cargo.toml", embedded::FORMULA_RUST_MANIFEST)];
            return [
                tree("pbg-plugin-sdk/src", embedded::SDK_RUST),
                tree("pbg-plugin-sdk/formula/src", embedded::FORMULA_RUST),
                tree(
                    "pbg-plugin-sdk",
                    &[("Cargo.toml", embedded::SDK_RUST_MANIFEST)],
                ),
                tree("pbg-plugin-sdk/formula", &formula),
            ]
            .concat();
        }
        Language::Python => embedded::SDK_PYTHON,
        Language::JavaScript => embedded::SDK_JAVASCRIPT,
        Language::C => embedded::SDK_C,
    };
    [tree("pbg_plugin", sdk), tree("wit", embedded::WIT)].concat()
}

fn write(path: &Path, content: &str) -> Result<(), CreateError> {
    let written = path
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(path, content));
    written.map_err(|error| CreateError::Write {
        path: path.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_in_every_language_is_complete() {
        for language in Language::ALL {
            for world in World::ALL {
                if world == World::ComputedLoss && language != Language::Rust {
                    continue;
                }
                let name = PluginName::new("my_thing").expect("a good name");
                let files = own_files(&name, world, language);
                let named = |part: &str| files.iter().any(|(path, _)| path.contains(part));
                assert!(
                    named("README.md")
                        && named("plugin.toml")
                        && named(".github/workflows/plugin.yml"),
                    "{language} {world:?}"
                );
                assert!(files.len() >= 5, "{language} {world:?}: {files:?}");
                for (path, content) in &files {
                    assert!(!content.contains("{{"), "{language} {world:?} {path}");
                    assert!(!path.contains("NAME"), "{path}");
                }
            }
        }
    }

    #[test]
    fn a_computed_loss_is_not_written_in_a_slow_language() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = create("mine", World::ComputedLoss, Language::Python, folder.path());
        let error = error.expect_err("no template").to_string();
        assert!(error.contains("computed loss in Python"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn a_folder_that_holds_something_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("thesis.tex"), "years of work").expect("written");
        let error = create("snake", World::Order, Language::Python, folder.path());
        assert!(matches!(error, Err(CreateError::Occupied { .. })));
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}
