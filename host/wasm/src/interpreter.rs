//! Whether a component contains the interpreter of its author's language, which imports every interface of the world,
//! used or not. What such a component imports says little about what its plugin does.

use wasmparser::{CustomSectionReader, KnownCustom, Parser, Payload};

/// Part of the names of the libraries in which `componentize-py` and `componentize-qjs` put interpreters. A module that
/// is linked with a library exports where its memory begins, as `LIBRARY:memory_base`; no later tool removes that.
const LIBRARIES: &str = "componentize";
/// Languages, as tools list them in the section `producers`, that run in an interpreter.
const LANGUAGES: [&str; 2] = ["JavaScript", "Python"];

/// Returns whether the component contains an interpreter of Python or JavaScript, as its tools have marked it. What is
/// not a component contains none.
pub(crate) fn is_in(component: &[u8]) -> bool {
    let mut payloads = Parser::new(0).parse_all(component).map_while(Result::ok);
    payloads.any(|payload| match payload {
        Payload::ExportSection(exports) => {
            let mut names = exports.into_iter().map_while(Result::ok);
            names.any(|export| is_base_of_interpreter(export.name))
        }
        Payload::CustomSection(section) => names_language(&section),
        _ => false,
    })
}

fn is_base_of_interpreter(export: &str) -> bool {
    let library = export.strip_suffix(":memory_base");
    library.is_some_and(|library| library.contains(LIBRARIES))
}

/// Returns whether a section is the list of producers and names one of [`LANGUAGES`].
fn names_language(section: &CustomSectionReader<'_>) -> bool {
    let KnownCustom::Producers(producers) = section.as_known() else {
        return false;
    };
    let mut fields = producers.into_iter().map_while(Result::ok);
    fields.any(|field| {
        let mut values = field.values.into_iter().map_while(Result::ok);
        field.name == "language" && values.any(|value| LANGUAGES.contains(&value.name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> bool {
        is_in(&wat::parse_str(text).unwrap())
    }

    #[test]
    fn interpreters_are_found_by_the_libraries_that_contain_them() {
        for library in [
            "libcomponentize_py_runtime.so",
            "componentize_qjs_runtime.wasm",
        ] {
            let export = format!("(export \"{library}:memory_base\" (global 0))");
            let module = format!("(core module (global i32 (i32.const 0)) {export})");
            assert!(found(&format!("(component {module})")), "{library}");
            assert!(
                found(&format!("(component (component {module}))")),
                "{library}"
            );
        }
    }

    #[test]
    fn interpreters_are_found_by_the_language() {
        let producers = |language: &str| {
            format!("(component (core module (@producers (language \"{language}\" \"\"))))")
        };
        assert!(found(&producers("JavaScript")));
        assert!(!found(&producers("Rust")));
    }

    #[test]
    fn size_is_no_sign_of_an_interpreter() {
        let padding = "x".repeat(5 << 20);
        let compiled = format!(
            "(component (core module (memory 100) (data (i32.const 0) \"{padding}\")
               (global i32 (i32.const 0)) (export \"libc.so:memory_base\" (global 0))))"
        );
        assert!(!found(&compiled));
        assert!(!is_in(b"no component"));
    }
}
