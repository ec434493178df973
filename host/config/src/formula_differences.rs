//! Comparison of the formulas of two configurations, by what they compute, wherever the files of their plugins are.

use std::collections::{BTreeMap, BTreeSet};

use super::Config;
use super::difference::{ConfigDifference, UNSET, shown};
use super::formulas::canonical_formula;
use super::installed::is_plugin_path;
use super::key_path::KeyPath;
use super::resume_keys::hex_digest;

impl Config {
    /// Replaces the paths by which relations and the comparator name files of formulas by names that follow from the
    /// formulas, and removes formulas of other files.
    pub(super) fn name_formulas_by_content(&mut self) {
        let names = self.formula_files();
        let operators = self.relations.iter_mut();
        let operators = operators.map(|relation| &mut relation.operator);
        for name in operators.chain([&mut self.comparator]) {
            if let Some(by_content) = names.get(name) {
                by_content.clone_into(name);
            }
        }
        for (path, formula) in std::mem::take(&mut self.formulas) {
            let name = match names.get(&path) {
                None if is_plugin_path(&path) => continue,
                None => path,
                Some(by_content) => by_content.clone(),
            };
            self.formulas.insert(name, formula);
        }
    }

    /// Returns the differing formulas, with where they come from as values. A file is compared with the one that has
    /// its place in the other configuration.
    pub(super) fn formula_differences(&self, other: &Self) -> Vec<ConfigDifference> {
        let names = self.formulas.keys().chain(other.formulas.keys());
        let names: BTreeSet<_> = names.filter(|name| !is_plugin_path(name)).collect();
        let relations = self.relations.iter().zip(&other.relations);
        let used = relations.map(|(here, there)| (&here.operator, &there.operator));
        let files: BTreeSet<_> = used
            .chain([(&self.comparator, &other.comparator)])
            .filter(|(here, there)| is_plugin_path(here) && is_plugin_path(there))
            .collect();
        let pairs = names.into_iter().map(|name| (name, name)).chain(files);
        let differing = pairs.filter(|(here, there)| {
            let formula =
                |config: &Self, name| config.formulas.get(name).map(|f| canonical_formula(f));
            formula(self, *here) != formula(other, *there)
        });
        let origin = |config: &Self, name: &String| {
            let origin = config.formula_origin(name);
            origin.map_or_else(|| UNSET.to_owned(), |origin| origin.description(name))
        };
        differing
            .map(|(here, there)| ConfigDifference {
                key: KeyPath::from(["formulas", here.as_str()]).to_string(),
                here: origin(self, here),
                other: origin(other, there),
            })
            .collect()
    }

    /// Returns the keys of operators and of the comparator where both configurations name a file.
    pub(super) fn keys_of_formula_files(&self, other: &Self) -> BTreeSet<String> {
        let relations = self.relations.iter().zip(&other.relations).enumerate();
        let operators = relations.map(|(i, (here, there))| {
            let key = KeyPath::from(["relations", &i.to_string(), "operator"]);
            (key.to_string(), &here.operator, &there.operator)
        });
        let comparator = ("comparator".to_owned(), &self.comparator, &other.comparator);
        let both = operators.chain([comparator]);
        both.filter(|(_, here, there)| is_plugin_path(here) && is_plugin_path(there))
            .map(|(key, ..)| key)
            .collect()
    }

    /// Returns the paths by which relations and the comparator name files of formulas, with the names by which these are
    /// compared.
    pub(super) fn formula_files(&self) -> BTreeMap<String, String> {
        let operators = self.relations.iter().map(|relation| &relation.operator);
        let used: BTreeSet<&String> = operators.chain([&self.comparator]).collect();
        let files = used.into_iter().filter(|name| is_plugin_path(name));
        let named = files.map(|path| {
            let formula = self.formulas.get(path);
            let formula = formula.map(|text| canonical_formula(text));
            let digest = hex_digest(&formula.unwrap_or_default());
            (path.clone(), format!("*{digest}.wasm"))
        });
        named.collect()
    }
}

/// Writes the paths of files into a value of a difference instead of the names by which they are compared.
pub(super) fn write_paths(files: &BTreeMap<String, String>, value: &mut String) {
    for (path, by_content) in files {
        let by_content = shown(&by_content.clone().into());
        if value.contains(&by_content) {
            *value = value.replace(&by_content, &shown(&path.clone().into()));
        }
    }
}
