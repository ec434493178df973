//! Entity types of an import and the names found for each.

use std::collections::BTreeMap;

use pbg_core::graph::Schema;

use super::intern::Interner;
use super::{ImportError, ImportOptions, NameStorage};
use pbg_dataset::Dataset;

/// All entity types, in the order of their names.
pub(super) struct Types {
    pub(super) names: Vec<TypeNames>,
    index: BTreeMap<String, usize>,
}

/// Names of one type. If names are on disk, `interner` and `known` stay empty.
pub(super) struct TypeNames {
    pub(super) entity_type: String,
    pub(super) interner: Interner,
    /// Provisional ids of the entities of the previous dictionary, in global order.
    pub(super) known: Vec<u32>,
    /// Number of them in each partition.
    pub(super) known_counts: Vec<u32>,
}

impl Types {
    pub(super) fn new(
        schema: &Schema,
        old: Option<&Dataset>,
        options: &ImportOptions,
        storage: NameStorage,
    ) -> Result<Self, ImportError> {
        let mut names = Vec::new();
        let mut index = BTreeMap::new();
        if let Some(old) = old {
            check_types(schema, old)?;
        }
        for (name, entity) in &schema.entities {
            check_name("entity type", name)?;
            let file = options.features.iter().find(|(of, _)| of == name);
            if entity.featurized && file.is_none() {
                let what = format!(
                    "the entity type `{name}` is featurized: give its features with `--features {name}=FILE`"
                );
                return Err(ImportError::usage(what));
            }
            if entity.featurized && entity.num_partitions != 1 {
                let what = format!("the featurized entity type `{name}` must have one partition");
                return Err(ImportError::usage(what));
            }
            index.insert(name.clone(), names.len());
            let partitions = entity.num_partitions as usize;
            names.push(TypeNames::new(name, partitions, old, storage)?);
        }
        for (name, _) in &options.features {
            if !schema
                .entities
                .get(name)
                .is_some_and(|entity| entity.featurized)
            {
                let what = format!(
                    "there are features for `{name}`, which is not a featurized entity type"
                );
                return Err(ImportError::usage(what));
            }
        }
        Ok(Self { names, index })
    }

    /// Returns the index of the type of this name.
    pub(super) fn index(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }
}

impl TypeNames {
    fn new(
        name: &str,
        partitions: usize,
        old: Option<&Dataset>,
        storage: NameStorage,
    ) -> Result<Self, ImportError> {
        let mut names = Self {
            entity_type: name.to_owned(),
            interner: Interner::new(),
            known: Vec::new(),
            known_counts: vec![0; partitions],
        };
        let Some(old) = old else { return Ok(names) };
        let Some(info) = old.manifest().entities.get(name) else {
            return Ok(names);
        };
        names.known_counts.clone_from(&info.counts);
        if storage == NameStorage::Files {
            return Ok(names);
        }
        for known in old.dictionary(name)?.names() {
            names.known.push(names.interner.add(known.as_bytes())?);
        }
        Ok(names)
    }

    /// Returns the number of entities of the previous dictionary.
    pub(super) fn known_total(&self) -> u64 {
        self.known_counts.iter().map(|&n| u64::from(n)).sum()
    }

    /// Returns the number of distinct names.
    pub(super) fn len(&self) -> usize {
        self.interner.len()
    }

    /// Returns the number of known names without an edge in this import.
    pub(super) fn absent(&self) -> u64 {
        let names = self.interner.read();
        self.known
            .iter()
            .filter(|&&id| names.count(id) == 0)
            .count() as u64
    }
}

/// Returns the reason why the names of entities must be in memory, if there is one.
pub(super) fn only_in_memory(schema: &Schema) -> Option<String> {
    let mut entities = schema.entities.iter();
    if let Some((name, _)) = entities.find(|(_, entity)| entity.featurized) {
        return Some(format!("an entity type, `{name}`, is featurized"));
    }
    let most = usize::from(u16::MAX);
    (schema.entities.len() > most).then(|| format!("there are more than {most} entity types"))
}

/// Checks that types, partitions and features are those of the previous dataset, which stable ids require.
fn check_types(schema: &Schema, old: &Dataset) -> Result<(), ImportError> {
    let path = old.path().display();
    let fail = |what: String| {
        let advice = "omit it, or import with `--fresh` into its folder";
        Err(ImportError::usage(format!(
            "the dataset {path} {what}; to import without keeping its ids, {advice}"
        )))
    };
    for (name, info) in &old.manifest().entities {
        let Some(entity) = schema.entities.get(name) else {
            return fail(format!(
                "has the entity type `{name}`, but the configuration does not"
            ));
        };
        if entity.num_partitions != info.num_partitions {
            return fail(format!(
                "has {} partitions of `{name}`, but the configuration has {}",
                info.num_partitions, entity.num_partitions
            ));
        }
        if entity.featurized != info.featurized {
            return fail(format!(
                "and the configuration disagree about whether `{name}` is featurized"
            ));
        }
    }
    if old.manifest().dynamic_relations == schema.dynamic_relations {
        return Ok(());
    }
    fail("and the configuration disagree about `dynamic_relations`".to_owned())
}

/// Checks a name of an entity type or edge set, which becomes part of file names.
pub(super) fn check_name(what: &str, name: &str) -> Result<(), ImportError> {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name.is_empty() && name.len() <= 100 && name.chars().all(allowed) {
        return Ok(());
    }
    Err(ImportError::usage(format!(
        "`{}` cannot be the name of an {what}: 1 to 100 letters, digits, `_`, `-` and `.`",
        name.escape_debug()
    )))
}
