//! Resolves the paths in a configuration file relative to the folder of the file.

use std::path::{Component, Path, PathBuf};

use super::errors::{ConfigErrors, ConfigProblem};
use super::installed::is_plugin_path;
use super::key_path::KeyPath;
use super::node::KeyLocation;
use super::{Config, StrategyNames};

impl Config {
    /// Joins the relative paths of a file to `base`, the folder of the file, so that they are relative to the working
    /// folder. Paths from `overrides` stay unchanged, since they are relative to the working folder already, and so do
    /// URLs. Does not access the file system.
    ///
    /// A strategy is a path when it names a component file; the bare file name of a standard strategy followed by
    /// `.wasm` stays unchanged, to be looked up later.
    ///
    /// # Errors
    /// When `base` is not Unicode, since a configuration contains Unicode only.
    pub fn resolve_paths(
        &mut self,
        base: &Path,
        overrides: &[(String, String)],
        installed: &StrategyNames,
    ) -> Result<(), ConfigErrors> {
        let order = component(&mut self.bucket_order, &installed.orders);
        let loss = component(&mut self.loss_fn, &installed.losses);
        let sampler = component(&mut self.relation_sampler, &installed.samplers);
        let negatives = component(&mut self.negative_sampler, &installed.negatives);
        let schedule = component(&mut self.lr_schedule.decay, &installed.schedules);
        // A formula that is given here has the name of its key, which may look like a path.
        let formulas = &self.formulas;
        let comparator = component(&mut self.comparator, &installed.comparators);
        let comparator = comparator.filter(|name| !formulas.contains_key(*name));
        let keys = [
            ("dataset", Some(&mut self.dataset)),
            ("checkpoint_path", Some(&mut self.checkpoint_path)),
            ("init_path", self.init_path.as_mut()),
            ("bucket_order", order),
            ("loss_fn", loss),
            ("relation_sampler", sampler),
            ("negative_sampler", negatives),
            ("comparator", comparator),
        ];
        let mut problems = Vec::new();
        let grants = self.plugins.grants.iter_mut();
        let granted = grants.flat_map(|grant| &mut grant.read);
        let granted = granted.map(|folder| (KeyPath::from(["plugins", "grants"]), Some(folder)));
        let rules = &mut self.distributed;
        let ours = [
            ("nats_server", rules.nats_server.as_mut()),
            ("credentials", rules.credentials.as_mut()),
            ("authority", rules.authority.as_mut()),
            ("certificate", rules.certificate.as_mut()),
            ("key", rules.key.as_mut()),
        ];
        let ours = ours.map(|(key, value)| (KeyPath::from(["distributed", key]), value));
        let vectors = self.entities.iter_mut().flat_map(|(name, entity)| {
            let key = |key| KeyPath::from(["entities", name.as_str(), key]);
            [
                (key("init"), entity.init.as_mut()),
                (key("init_names"), entity.init_names.as_mut()),
            ]
        });
        let schedule = [(KeyPath::from(["lr_schedule", "decay"]), schedule)];
        let operators = self.relations.iter_mut().enumerate().map(|(i, relation)| {
            let key = KeyPath::from(["relations", &i.to_string(), "operator"]);
            let operator = component(&mut relation.operator, &installed.operators);
            let operator = operator.filter(|name| !formulas.contains_key(*name));
            (key, operator)
        });
        let keys = keys.map(|(key, value)| (KeyPath::from([key]), value));
        let keys = keys.into_iter().chain(ours).chain(vectors);
        let keys = keys.chain(operators).chain(schedule);
        for (key, value) in keys.chain(granted) {
            let mut overridden = overrides.iter().map(|(name, _)| KeyPath::parse(name));
            let from_command_line = overridden.any(|path| path.as_ref() == Some(&key));
            let Some(value) = value.filter(|_| !from_command_line) else {
                continue;
            };
            if is_url(value) {
                continue;
            }
            match join(base, value).into_os_string().into_string() {
                Ok(path) => *value = path,
                Err(path) => {
                    let message = format!("{} is not Unicode; rename the folder", path.display());
                    problems.push(ConfigProblem::new(&key, KeyLocation::Nowhere, message));
                }
            }
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(ConfigErrors::new(&base.display().to_string(), problems)),
        }
    }
}

/// Returns whether a path names something in an object store, which is relative to nothing.
fn is_url(path: &str) -> bool {
    let scheme = path.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Returns the name of a strategy if it is the path of a component.
fn component<'a>(name: &'a mut String, standard: &[String]) -> Option<&'a mut String> {
    let bare = name.strip_suffix(".wasm");
    let is_standard = bare.is_some_and(|name| standard.iter().any(|known| known == name));
    (is_plugin_path(name) && !is_standard).then_some(name)
}

/// Returns `base/path` without `.` segments. `..` stays, since after a symbolic link it is not the folder above.
fn join(base: &Path, path: &str) -> PathBuf {
    let joined = base.join(path);
    let segments = joined.components().filter(|c| *c != Component::CurDir);
    let joined: PathBuf = segments.collect();
    match joined.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(order: &str) -> Config {
        let text = format!(
            "dataset = './data'\ncheckpoint_path = '/m'\ninit_path = '../old'\ndimension = 8\n\
             bucket_order = '{order}'\nentities.e.num_partitions = 1\n\
             relations = [{{ name = '*', lhs = 'e', rhs = 'e' }}]"
        );
        Config::parse(&text, "pbg.toml", &[]).unwrap()
    }

    fn resolved(order: &str, base: &str, overrides: &[(&str, &str)]) -> [String; 4] {
        let overrides: Vec<_> = overrides
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        let mut config = config(order);
        let installed = StrategyNames {
            orders: vec!["random".to_owned()],
            ..StrategyNames::default()
        };
        config
            .resolve_paths(Path::new(base), &overrides, &installed)
            .unwrap();
        [
            config.dataset,
            config.checkpoint_path,
            config.init_path.unwrap(),
            config.bucket_order,
        ]
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        assert_eq!(
            resolved("my.wasm", "graphs/x", &[]),
            ["graphs/x/data", "/m", "graphs/x/../old", "graphs/x/my.wasm"]
        );
        assert_eq!(
            resolved("random", "", &[]),
            ["data", "/m", "../old", "random"]
        );
        assert_eq!(resolved("random.wasm", "a", &[])[3], "random.wasm");
    }

    #[test]
    fn formulas_that_are_given_have_the_names_of_their_keys() {
        let mut config = config("random");
        config.comparator = "v1/boxes".to_owned();
        config.relations[0].operator = "mine.wasm".to_owned();
        for (given, expected) in [
            (true, ["v1/boxes", "mine.wasm"]),
            (false, ["graphs/v1/boxes", "graphs/mine.wasm"]),
        ] {
            config.formulas.clear();
            if given {
                let names = ["v1/boxes", "mine.wasm"].map(|name| (name.to_owned(), String::new()));
                config.formulas.extend(names);
            }
            config
                .resolve_paths(Path::new("graphs"), &[], &StrategyNames::default())
                .unwrap();
            assert_eq!(
                [&config.comparator, &config.relations[0].operator],
                expected
            );
        }
    }

    #[test]
    fn vectors_are_relative_to_the_file() {
        let mut config = config("random");
        let entity = config.entities.get_mut("e").unwrap();
        entity.init = Some("texts.npy".to_owned());
        entity.init_names = Some("/texts.txt".to_owned());
        let from_command_line = [("entities.e.init".to_owned(), "texts.npy".to_owned())];
        for (overrides, expected) in [
            (&[][..], "graphs/texts.npy"),
            (&from_command_line, "texts.npy"),
        ] {
            let mut config = config.clone();
            config
                .resolve_paths(Path::new("graphs"), overrides, &StrategyNames::default())
                .unwrap();
            let entity = &config.entities["e"];
            assert_eq!(entity.init.as_deref(), Some(expected));
            assert_eq!(entity.init_names.as_deref(), Some("/texts.txt"));
        }
    }

    #[test]
    fn overrides_are_relative_to_the_working_folder() {
        assert_eq!(
            resolved("random", "a", &[("dataset", "./data")])[0],
            "./data"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_is_not_unicode_is_an_error() {
        use std::os::unix::ffi::OsStrExt;
        let base = Path::new(std::ffi::OsStr::from_bytes(b"a\xff"));
        let outcome = config("random").resolve_paths(base, &[], &StrategyNames::default());
        let errors = outcome.unwrap_err();
        assert_eq!(errors.problems().len(), 2);
        assert!(errors.to_string().contains("not Unicode"));
    }
}
