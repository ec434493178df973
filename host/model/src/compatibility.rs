//! Checks of a checkpoint's identity: every command that resumes from a checkpoint, starts from one or reads one
//! compares it here with the configuration and the dataset.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pbg_checkpoint::manifest::RunInfo;
use pbg_config::{Config, ConfigDifference};
use pbg_core::strategy::StrategyId;
use pbg_dataset::manifest::EdgeSetId;
use pbg_dataset::{IdChange, IdSpace};

use crate::error::{CheckpointMismatch, RunError};
use crate::resolved::ResolvedConfig;
use crate::state;

/// Differences from the trained checkpoint that a resumed run accepts.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowedChanges {
    /// Other strategies or other parameters of strategies.
    pub plugin_change: bool,
    /// Other edges, or another choice of edge sets for training or validation.
    pub data_change: bool,
}

/// Purpose that a checkpoint is opened for.
pub enum OpenPurpose<'a> {
    /// Training resumes from it, with these strategies.
    Resume {
        /// Ids of the bucket order, the relation sampler, the loss, the choice of negatives and the learning rate schedule.
        strategies: &'a [StrategyId],
        /// Differences that the user allows.
        allowed: AllowedChanges,
    },
    /// Its embeddings initialize another run.
    Start,
    /// It is evaluated, exported or queried.
    Read,
}

/// Differences that were found between an accepted checkpoint and the current data.
#[derive(Debug, Default)]
pub struct AcceptedDifferences {
    /// Names of the checkpoint's ids, if the dataset has grown since.
    pub earlier: Option<IdSpace>,
    /// Changes of the edges, each described for the user.
    pub changes: Vec<String>,
    /// Whether edges that are trained have changed.
    pub other_training: bool,
    /// Whether ranks of validation edges are no longer comparable with earlier ones.
    pub other_validation: bool,
}

/// Names of the strategies of a checkpoint, in their order.
const SLOTS: [&str; 5] = [
    "bucket order",
    "relation sampler",
    "loss",
    "choice of negatives",
    "learning rate schedule",
];

/// Compares the checkpoint in folder `path` with the configuration and the dataset. `run` is the metadata of its last
/// commit.
///
/// # Errors
/// When the checkpoint was trained with another configuration, dataset, edges or plugins, and `purpose` does not allow
/// this. The message names the differences.
pub fn check_compatibility(
    resolved: &ResolvedConfig,
    path: &Path,
    run: &RunInfo,
    purpose: &OpenPurpose<'_>,
) -> Result<AcceptedDifferences, RunError> {
    let door = Comparison {
        resolved,
        path,
        run,
        old: Config::parse(&run.config, "the checkpoint's configuration", &[]).ok(),
    };
    let mut admitted = AcceptedDifferences::default();
    match *purpose {
        OpenPurpose::Resume {
            strategies,
            allowed,
        } => {
            door.compare_training(strategies, allowed, &mut admitted)?;
            admitted.earlier = door.compare_ids()?;
            door.compare_edges(&mut admitted);
            if !allowed.data_change {
                door.refuse_changes("on other edges", &admitted.changes, "--allow-data-change")?;
            }
            if !allowed.plugin_change {
                let changes = door.strategy_changes(strategies);
                door.refuse_changes("with other plugins", &changes, "--allow-plugin-change")?;
            }
        }
        OpenPurpose::Start => {
            door.refuse(
                door.differences(Config::shape_differences),
                "is named by init_path, and its embeddings have another shape",
                "Set these keys as they are in that checkpoint, or leave out init_path",
            )?;
            admitted.earlier = door.compare_ids()?;
        }
        OpenPurpose::Read => {
            door.refuse(
                door.differences(Config::model_differences),
                "holds another model",
                "Leave these keys out: their defaults are those of the checkpoint",
            )?;
            admitted.earlier = door.compare_ids()?;
        }
    }
    Ok(admitted)
}

/// A checkpoint, and the configuration and dataset that it is compared with.
struct Comparison<'a> {
    resolved: &'a ResolvedConfig,
    path: &'a Path,
    run: &'a RunInfo,
    /// Configuration that trained the checkpoint; `None` if this version cannot read it.
    old: Option<Config>,
}

impl Comparison<'_> {
    /// Refuses the checkpoint if there are `differences`, or if they are unknown.
    fn refuse(
        &self,
        differences: Option<Vec<ConfigDifference>>,
        what: &'static str,
        remedy: &'static str,
    ) -> Result<(), CheckpointMismatch> {
        match differences {
            Some(none) if none.is_empty() => Ok(()),
            some => Err(CheckpointMismatch::Configuration {
                checkpoint: self.path.to_owned(),
                what,
                differences: some.unwrap_or_default(),
                remedy,
            }),
        }
    }

    /// Refuses the checkpoint if there are `changes`, which `option` allows.
    fn refuse_changes(
        &self,
        what: &'static str,
        changes: &[String],
        option: &'static str,
    ) -> Result<(), CheckpointMismatch> {
        match changes {
            [] => Ok(()),
            changes => Err(CheckpointMismatch::Changed {
                checkpoint: self.path.to_owned(),
                what,
                changes: changes.to_vec(),
                option,
            }),
        }
    }

    /// Returns the differences that `compare` finds between the configuration and that of the checkpoint; `None` if the
    /// latter has keys that this version does not know.
    fn differences(
        &self,
        compare: impl Fn(&Config, &Config) -> Vec<ConfigDifference>,
    ) -> Option<Vec<ConfigDifference>> {
        let old = self.old.as_ref()?;
        Some(compare(&self.without_new_relations(old), old))
    }

    /// Returns the configuration without entries for relations that the checkpoint lacks.
    fn without_new_relations(&self, old: &Config) -> Config {
        let names = self.resolved.dataset().relation_names();
        let met = match &self.run.ids {
            Some(ids) => ids.relations.total() as usize,
            None => names.len(),
        };
        let new = names.get(met..).unwrap_or_default();
        let configured = |name: &str| old.relations.iter().any(|r| r.name == name);
        let mut config = self.resolved.config().clone();
        config
            .relations
            .retain(|r| configured(&r.name) || !new.contains(&r.name));
        config
    }

    /// Compares the keys that a resumed run must not change. Differences about edges are recorded in `admitted`.
    fn compare_training(
        &self,
        strategies: &[StrategyId],
        allowed: AllowedChanges,
        admitted: &mut AcceptedDifferences,
    ) -> Result<(), RunError> {
        if self.run.config_hash == self.resolved.training_hash() {
            return Ok(());
        }
        // The schedule is the last one where both have a plugin, and otherwise the configurations differ.
        let other_schedule = self.run.strategies.last() != strategies.last();
        let compare = |here: &Config, old: &Config| match allowed.plugin_change {
            true => here.differences_except_strategies(old, other_schedule),
            false => here.training_differences(old),
        };
        let differences = self.differences(compare).map(|differences| {
            let about =
                |difference: &ConfigDifference| DATA.iter().any(|key| difference.is_about(key));
            let (of_data, others): (Vec<_>, Vec<_>) = differences.into_iter().partition(about);
            let some_about = |key| of_data.iter().any(|difference| difference.is_about(key));
            admitted.other_training = some_about("edge_sets");
            admitted.other_validation = some_about("validation");
            admitted.changes = of_data.iter().map(ConfigDifference::to_string).collect();
            others
        });
        Ok(self.refuse(
            differences,
            "was trained with another configuration",
            "Set these keys back, or choose another checkpoint_path (and init_path to start from these embeddings)",
        )?)
    }

    /// Returns the names of the checkpoint's ids, if the dataset has grown since.
    fn compare_ids(&self) -> Result<Option<IdSpace>, RunError> {
        let (resolved, run) = (self.resolved, self.run);
        let now = state::dictionaries(resolved.config(), resolved.dataset());
        if run.dataset == now {
            return Ok(None);
        }
        let succession = match &run.ids {
            Some(earlier) => {
                let now = resolved.ids()?;
                resolved.dataset().compare_ids(earlier, &now)?
            }
            None => IdChange::Changed(format!("{}, now {now}", run.dataset)),
        };
        match succession {
            IdChange::Same => Ok(None),
            IdChange::Grown => Ok(run.ids.clone()),
            IdChange::Changed(difference) => Err(CheckpointMismatch::Dataset {
                checkpoint: self.path.to_owned(),
                dataset: resolved.dataset().path().to_owned(),
                difference,
            }
            .into()),
        }
    }

    /// Records which edge sets have changed.
    fn compare_edges(&self, admitted: &mut AcceptedDifferences) {
        let config = self.resolved.config();
        let now = self.resolved.edges_read();
        let other = |name: &&String| {
            let (was, is) = (self.run.edges.get(*name), now.get(*name));
            was.is_some() && is.is_some() && was != is
        };
        let trained: BTreeSet<_> = config.edge_sets.iter().filter(other).collect();
        let validated = validated(config);
        let ranked: BTreeSet<_> = match self.ranks_matter() {
            true => validated.iter().filter(other).collect(),
            false => BTreeSet::new(),
        };
        admitted.other_training |= !trained.is_empty();
        admitted.other_validation |= !ranked.is_empty();
        if let Some(other) = self.other_validation_set() {
            admitted.other_validation = true;
            admitted.changes.push(other);
        }
        for name in trained.union(&ranked) {
            let (was, is) = (self.run.edges[*name].edges, now[*name].edges);
            admitted.changes.push(match was == is {
                true => format!("the edge set `{name}` has other edges, but still {is} of them"),
                false => format!("the edge set `{name}` had {was} edges and now has {is}"),
            });
        }
    }

    /// Whether earlier ranks have consequences: both configurations validate, and the current one stops early or
    /// reduces the learning rate by validation.
    fn ranks_matter(&self) -> bool {
        let rules = &self.resolved.config().validation;
        let before = self.old.as_ref().map(|old| &old.validation.edges);
        rules.edges.is_some()
            && before.is_none_or(Option::is_some)
            && (rules.early_stop.is_some() || rules.lr_decay.is_some())
    }

    /// Returns a description of the change if another edge set is ranked. The hash of the configuration does not cover
    /// this case.
    fn other_validation_set(&self) -> Option<String> {
        let rules = &self.resolved.config().validation;
        let old = &self.old.as_ref()?.validation.edges;
        let differs = self.ranks_matter() && rules.lr_decay.is_none() && *old != rules.edges;
        let name = |edges: &Option<String>| edges.clone().unwrap_or_default();
        let (here, there) = (name(&rules.edges), name(old));
        differs.then(|| format!("validation.edges: `{here}`, not `{there}`"))
    }

    /// Describes the strategies that differ from those of the checkpoint.
    fn strategy_changes(&self, strategies: &[StrategyId]) -> Vec<String> {
        let pairs = self.run.strategies.iter().zip(strategies);
        let changed = SLOTS.iter().zip(pairs).filter(|(_, (old, new))| old != new);
        changed
            .map(|(slot, (old, new))| format!("the {slot} was {}, is {}", named(old), named(new)))
            .collect()
    }
}

/// Configuration keys that name edge sets.
const DATA: [&str; 3] = ["edge_sets", "validation.edges", "validation.filter"];

/// Returns the name of a strategy with enough of its hash to distinguish two files of the same name.
fn named(id: &StrategyId) -> String {
    match id.sha256.get(..12) {
        Some(start) => format!("{id} (sha256 {start}...)"),
        None => id.to_string(),
    }
}

/// Returns the edge sets that validation reads.
fn validated(config: &Config) -> BTreeSet<String> {
    let Some(edges) = &config.validation.edges else {
        return BTreeSet::new();
    };
    let mut names: BTreeSet<_> = config.validation_filter().into_iter().collect();
    names.insert(edges.clone());
    names
}

impl ResolvedConfig {
    /// Returns the names that the ids of this run stand for.
    ///
    /// # Errors
    /// When a dictionary is damaged.
    pub fn ids(&self) -> Result<IdSpace, RunError> {
        Ok(self.dataset().ids(self.config().entities.keys())?)
    }

    /// Returns descriptions that identify the data of a run, for results stored outside its checkpoint: the
    /// dictionaries, the trained edge sets, and the edge sets in `ranked`.
    #[must_use]
    pub fn data(&self, ranked: &[String]) -> BTreeMap<String, String> {
        let dictionaries = state::dictionaries(self.config(), self.dataset());
        let sets = &self.dataset().manifest().edge_sets;
        let names: BTreeSet<_> = self.config().edge_sets.iter().chain(ranked).collect();
        let id = |name: &&String| {
            let EdgeSetId { edges, crc32 } = sets.get(*name)?.id();
            let text = format!("{edges} edges ({crc32:08x})");
            Some((format!("edge set {name}"), text))
        };
        let mut data: BTreeMap<_, _> = names.iter().filter_map(id).collect();
        data.insert("entities and relations".to_owned(), dictionaries);
        data
    }

    /// Returns the edge sets that a run reads, as far as the dataset has them.
    pub fn edges_read(&self) -> BTreeMap<String, EdgeSetId> {
        let mut names = validated(self.config());
        names.extend(self.config().edge_sets.iter().cloned());
        let sets = &self.dataset().manifest().edge_sets;
        let id = |name: String| sets.get(&name).map(|set| (name, set.id()));
        names.into_iter().filter_map(id).collect()
    }
}
