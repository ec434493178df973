//! Names of the imports and exports of a component. They contain the version that the component was built for.

use semver::Version;

use crate::bindings::{PACKAGE, VERSION};

/// [`VERSION`] as numbers.
const SUPPORTED: Version = Version::new(0, 1, 0);

/// An interface of the package `pbg:plugin`, such as `pbg:plugin/log@0.1.0`.
#[derive(Debug)]
pub(crate) struct InterfaceName<'a> {
    /// Name within the package, such as `log`.
    pub(crate) name: &'a str,
    /// Version of the package; `None` if it has none, or one that cannot be read.
    pub(crate) version: Option<Version>,
}

impl<'a> InterfaceName<'a> {
    /// Reads the name of an import or an export. Returns `None` for an interface of another package.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let rest = text.strip_prefix(PACKAGE)?.strip_prefix('/')?;
        let (name, version) = match rest.split_once('@') {
            Some((name, version)) => (name, Version::parse(version).ok()),
            None => (rest, None),
        };
        Some(Self { name, version })
    }

    /// Returns whether the types and functions that [`VERSION`] has are the same in this version. It may have more.
    pub(crate) fn is_compatible(&self) -> bool {
        // As in `wasmtime`, which looks up names in the same way.
        self.version.as_ref().is_some_and(|version| {
            version.pre.is_empty() && (version.major, version.minor) == (0, SUPPORTED.minor)
        })
    }

    /// Returns whether the version is compatible and newer than [`VERSION`].
    pub(crate) fn is_newer(&self) -> bool {
        self.is_compatible() && self.version.as_ref() > Some(&SUPPORTED)
    }
}

/// Returns the newest version of `pbg:plugin` among the names of imports and exports, such as `pbg:plugin@0.1.0`.
pub(crate) fn newest<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let versions = names
        .into_iter()
        .filter_map(|name| InterfaceName::parse(name)?.version);
    match versions.max() {
        Some(version) => format!("{PACKAGE}@{version}"),
        None => format!("{PACKAGE}@{VERSION}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_constants_are_one_version() {
        assert_eq!(SUPPORTED.to_string(), VERSION);
    }

    #[test]
    fn versions_differ_in_the_last_number_only() {
        let compatible = |text| InterfaceName::parse(text).is_some_and(|name| name.is_compatible());
        assert!(compatible("pbg:plugin/log@0.1.0"));
        assert!(compatible("pbg:plugin/log@0.1.12"));
        for other in [
            "pbg:plugin/log",
            "pbg:plugin/log@0.2.0",
            "pbg:plugin/log@1.1.0",
            "pbg:plugin/log@0.1.1-rc.1",
            "pbg:plugin/log@0.1",
            "pbg:plugins/log@0.1.0",
        ] {
            assert!(!compatible(other), "{other}");
        }
    }

    #[test]
    fn a_component_is_as_new_as_its_newest_interface() {
        let names = [
            "wasi:io/x@3.0.0",
            "pbg:plugin/a@0.1.9",
            "pbg:plugin/b@0.1.10",
        ];
        assert_eq!(newest(&names.map(str::to_owned)), "pbg:plugin@0.1.10");
    }
}
