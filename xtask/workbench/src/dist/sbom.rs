//! List of the packages that a release is made of, in CycloneDX (<https://cyclonedx.org/specification/overview>).

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use xtask::repo::Repo;
use xtask::step;

use super::zig;

/// Packages of the workspace that users install: the program and the extension of Python.
const ROOTS: [&str; 2] = ["pbg-host", "pbg-python"];
/// Beginnings of the names of the standard plugins, which are compiled for the sandbox and embedded.
const PLUGINS: [&str; 7] = [
    "pbg-order-",
    "pbg-sampler-",
    "pbg-negatives-",
    "pbg-loss-",
    "pbg-operator-",
    "pbg-comparator-",
    "pbg-schedule-",
];
/// Target of plugins.
const SANDBOX: &str = "wasm32-unknown-unknown";

/// Returns the list for the release of `version` for `triple`, as JSON.
pub(super) fn list(repo: &Repo, triple: &str, version: &str) -> Result<String> {
    let mut packages = Packages::default();
    let program = metadata(repo, triple)?;
    packages.add(&program, |name| ROOTS.contains(&name))?;
    let plugins = metadata(repo, SANDBOX)?;
    packages.add(&plugins, |name| {
        PLUGINS.iter().any(|start| name.starts_with(start))
    })?;
    let lock = repo.root.join("Cargo.lock");
    let lock = std::fs::read_to_string(&lock)
        .with_context(|| format!("cannot read {}", lock.display()))?;
    let list = packages.list(&checksums(&lock), version);
    let mut text = serde_json::to_string_pretty(&list).context("a list of packages")?;
    text.push('\n');
    Ok(text)
}

/// Returns what Cargo knows about the packages that are used on a target.
fn metadata(repo: &Repo, triple: &str) -> Result<Value> {
    let mut cargo = repo.plain_cargo("metadata");
    cargo.args([
        "--format-version=1",
        "--locked",
        "--filter-platform",
        triple,
    ]);
    let text = step::output(&mut cargo, "see Cargo's message above")?;
    serde_json::from_str(&text).context("cargo metadata")
}

/// Packages by their references, with the references of those that each uses.
#[derive(Default)]
struct Packages {
    found: BTreeMap<String, Value>,
    uses: BTreeMap<String, BTreeSet<String>>,
}

impl Packages {
    /// Adds the packages of the workspace with these names, and what is linked into them: neither what only builds
    /// them, nor what only tests them.
    fn add(&mut self, metadata: &Value, is_root: impl Fn(&str) -> bool) -> Result<()> {
        let list = |value: &Value| {
            value
                .as_array()
                .cloned()
                .context("cargo metadata has a list")
        };
        let text = |value: &Value| {
            value
                .as_str()
                .map(str::to_owned)
                .context("cargo metadata has a text")
        };
        let mut packages = BTreeMap::new();
        for package in list(&metadata["packages"])? {
            packages.insert(text(&package["id"])?, package);
        }
        let mut nodes = BTreeMap::new();
        for node in list(&metadata["resolve"]["nodes"])? {
            nodes.insert(text(&node["id"])?, node);
        }
        let named = |id: &String| is_root(packages[id]["name"].as_str().unwrap_or_default());
        let members = list(&metadata["workspace_members"])?;
        let members = members.iter().map(text).collect::<Result<Vec<_>>>()?;
        let mut open: Vec<String> = members.into_iter().filter(named).collect();
        while let Some(id) = open.pop() {
            let package = &packages[&id];
            let reference = purl(package);
            if self.uses.contains_key(&reference) {
                continue;
            }
            let mut uses = BTreeSet::new();
            for used in list(&nodes[&id]["deps"])? {
                let kinds = list(&used["dep_kinds"])?;
                if kinds.iter().any(|kind| kind["kind"].is_null()) {
                    let id = text(&used["pkg"])?;
                    uses.insert(purl(&packages[&id]));
                    open.push(id);
                }
            }
            self.found.insert(reference.clone(), package.clone());
            self.uses.insert(reference, uses);
        }
        Ok(())
    }

    /// Returns the list in the format, with the checksums of packages by name and version.
    fn list(&self, checksums: &BTreeMap<[String; 2], String>, version: &str) -> Value {
        let components = self.found.iter().map(|(reference, package)| {
            let of = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
            let mut component = json!({
                "type": "library",
                "bom-ref": reference,
                "purl": reference,
                "name": of("name"),
                "version": of("version"),
            });
            if let Some(license) = package["license"].as_str() {
                let expression = license.replace('/', " OR ");
                component["licenses"] = json!([{"expression": expression}]);
            }
            if let Some(sha256) = checksums.get(&[of("name"), of("version")]) {
                component["hashes"] = json!([{"alg": "SHA-256", "content": sha256}]);
            }
            component
        });
        let uses = |(reference, uses): (&String, &BTreeSet<String>)| json!({"ref": reference, "dependsOn": uses});
        json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": {
                "component": {
                    "type": "application",
                    "bom-ref": "pbg-host",
                    "name": "pbg-host",
                    "version": version,
                    "licenses": [{"expression": "MIT OR Apache-2.0"}],
                },
            },
            "components": components.chain(others()).collect::<Vec<_>>(),
            "dependencies": self.uses.iter().map(uses).collect::<Vec<_>>(),
        })
    }
}

/// Returns what is not a package of Cargo: the parts of Zig that are linked, and the library that draws reports.
fn others() -> [Value; 2] {
    let component = |name: &str, version: &str, purl: String, license: &str| {
        json!({
            "type": "library",
            "bom-ref": purl,
            "purl": purl,
            "name": name,
            "version": version,
            "licenses": [{"expression": license}],
        })
    };
    let plotly = "plotly.js-cartesian-dist-min";
    [
        component(
            "ziglang",
            zig::VERSION,
            format!("pkg:pypi/ziglang@{}", zig::VERSION),
            "MIT",
        ),
        component(plotly, PLOTLY, format!("pkg:npm/{plotly}@{PLOTLY}"), "MIT"),
    ]
}

/// Version in `host/report/vendor/README.md`.
const PLOTLY: &str = "4.1.1";

/// Returns the reference of a package (<https://github.com/package-url/purl-spec>).
fn purl(package: &Value) -> String {
    let of = |key: &str| {
        package[key]
            .as_str()
            .unwrap_or_default()
            .replace('+', "%2B")
    };
    format!("pkg:cargo/{}@{}", of("name"), of("version"))
}

/// Returns the checksums in `Cargo.lock`, by name and version.
fn checksums(lock: &str) -> BTreeMap<[String; 2], String> {
    let of_package = |package: &str| {
        let value = |key: &str| {
            let start = format!("{key} = \"");
            let line = package.lines().find_map(|line| line.strip_prefix(&start))?;
            Some(line.trim_end_matches('"').to_owned())
        };
        Some(([value("name")?, value("version")?], value("checksum")?))
    };
    lock.split("[[package]]").filter_map(of_package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list of this state has what is linked, each with its licence, and nothing else.
    #[test]
    fn the_list_has_what_is_linked() {
        let repo = Repo::find(None).unwrap();
        let list: Value =
            serde_json::from_str(&list(&repo, "x86_64-unknown-linux-gnu", "1.2.3").unwrap())
                .unwrap();
        assert_eq!(list["bomFormat"], "CycloneDX");
        assert_eq!(list["metadata"]["component"]["version"], "1.2.3");
        let components = list["components"].as_array().unwrap();
        let named = |name: &str| {
            components
                .iter()
                .find(|component| component["name"] == name)
        };
        let wasmtime = named("wasmtime").expect("the sandbox is linked");
        assert_eq!(wasmtime["hashes"][0]["content"].as_str().unwrap().len(), 64);
        for linked in ["pyo3", "pbg-gemm", "pbg-plugin-sdk", "tch", "ziglang"] {
            assert!(named(linked).is_some(), "lacks {linked}");
        }
        for other in ["proptest", "cc", "xtask"] {
            assert!(named(other).is_none(), "has {other}");
        }
        for component in components {
            let expression = component["licenses"][0]["expression"].as_str();
            assert!(
                expression.is_some_and(|text| !text.contains('/')),
                "{component}"
            );
        }
        let known: BTreeSet<_> = components
            .iter()
            .map(|component| &component["bom-ref"])
            .map(Value::to_string)
            .collect();
        assert_eq!(known.len(), components.len());
        for entry in list["dependencies"].as_array().unwrap() {
            for used in entry["dependsOn"].as_array().unwrap() {
                assert!(known.contains(&used.to_string()), "{used} is not listed");
            }
        }
    }

    #[test]
    fn the_version_of_the_vendored_library_is_the_one_in_its_readme() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../host/report/vendor/README.md");
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(&format!("`plotly.js-cartesian-dist-min` {PLOTLY}")));
    }
}
