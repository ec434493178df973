//! Where results come from: what a reader needs to obtain them again.

use serde::Serialize;
use serde_json::Value;

/// Origin of the results of a command.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Provenance {
    /// The command line, each argument quoted as a shell needs it.
    pub command: String,
    /// The program.
    pub program: BuildIdentity,
    /// The plugins that decided the results, by the name that the user gave.
    pub plugins: Vec<NamedPlugin>,
    /// Seeds of the results.
    pub seeds: Vec<u64>,
    /// Number of Hogwild workers; `None` where nothing was trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// Identity of the dataset, the checksum of its manifest; `None` where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// SHA-256 of the list of the dataset's files with the SHA-256 of each, as `sha256sum` prints it; `None` where nothing
    /// was trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset_sha256: Option<String>,
    /// The complete configuration; `None` where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Value>,
    /// SHA-256 of the configuration as the file `configuration.json` of a report; `None` where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration_sha256: Option<String>,
    /// Model and number of cores of the processor.
    pub processor: String,
    /// Date and time at which the command ended, in UTC.
    pub date: String,
}

/// Identity of the file of a program or plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BuildIdentity {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
    /// SHA-256 of its file, in hexadecimal.
    pub sha256: String,
}

/// Plugin, as the user named it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NamedPlugin {
    /// Name or file, with parameters, as the user wrote it.
    pub label: String,
    /// The plugin.
    #[serde(flatten)]
    pub plugin: BuildIdentity,
}

/// Results with their provenance.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Documented<'a, T> {
    /// Where the results come from.
    pub provenance: &'a Provenance,
    /// The results.
    #[serde(flatten)]
    pub results: &'a T,
}

/// Columns that follow the results in a CSV file.
pub(crate) const COLUMNS: [&str; 11] = [
    "plugin_version",
    "plugin_sha256",
    "program",
    "program_sha256",
    "dataset",
    "dataset_sha256",
    "configuration_sha256",
    "workers",
    "processor",
    "date",
    "command",
];

impl Provenance {
    /// Returns the cells of [`COLUMNS`] for the results of a plugin.
    pub(crate) fn cells(&self, label: &str) -> [String; 11] {
        let plugin = self.plugins.iter().find(|plugin| plugin.label == label);
        let of = |part: fn(&BuildIdentity) -> &String| {
            plugin.map_or_else(String::new, |named| part(&named.plugin).clone())
        };
        [
            of(|plugin| &plugin.version),
            of(|plugin| &plugin.sha256),
            format!("{} {}", self.program.name, self.program.version),
            self.program.sha256.clone(),
            self.dataset.clone().unwrap_or_default(),
            self.dataset_sha256.clone().unwrap_or_default(),
            self.configuration_sha256.clone().unwrap_or_default(),
            self.workers.map_or_else(String::new, |n| n.to_string()),
            self.processor.clone(),
            self.date.clone(),
            self.command.clone(),
        ]
    }

    /// Returns names and values for a page.
    #[must_use]
    pub fn summary(&self) -> Vec<(String, String)> {
        let mut facts = vec![("command".to_owned(), self.command.clone())];
        let mut add = |name: &str, value: String| facts.push((name.to_owned(), value));
        add("program", self.program.to_string());
        for named in &self.plugins {
            add(&format!("plugin {}", named.label), named.plugin.to_string());
        }
        if let Some(dataset) = &self.dataset {
            add("dataset", dataset.clone());
        }
        if let Some(sha256) = &self.dataset_sha256 {
            add("files of the dataset", format!("SHA-256 {sha256}"));
        }
        if let Some(sha256) = &self.configuration_sha256 {
            add("configuration", format!("SHA-256 {sha256}"));
        }
        let seeds: Vec<String> = self.seeds.iter().map(u64::to_string).collect();
        add("seeds", seeds.join(", "));
        if let Some(workers) = self.workers {
            add("workers", workers.to_string());
        }
        add("processor", self.processor.clone());
        add("date", self.date.clone());
        facts
    }
}

impl std::fmt::Display for BuildIdentity {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "{} {}, SHA-256 {}",
            self.name, self.version, self.sha256
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_belong_to_the_plugin_of_the_row() {
        let plugin = |label: &str, sha256: &str| NamedPlugin {
            label: label.to_owned(),
            plugin: BuildIdentity {
                sha256: sha256.to_owned(),
                ..BuildIdentity::default()
            },
        };
        let provenance = Provenance {
            plugins: vec![plugin("beta", "b"), plugin("beta:assignment=random", "r")],
            workers: Some(2),
            ..Provenance::default()
        };
        assert_eq!(provenance.cells("beta:assignment=random")[1], "r");
        assert_eq!(provenance.cells("absent")[1], "");
        assert_eq!(provenance.cells("beta")[7], "2");
        let summary = provenance.summary();
        assert!(summary.iter().any(|(name, _)| name == "plugin beta"));
    }
}
