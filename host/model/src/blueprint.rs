//! The model that a configuration and a dataset describe: entity types, relations, and which entities are compared.

use std::collections::BTreeMap;

use pbg_config::{Config, RelationConfig};
use pbg_core::graph::Side;
use pbg_core::model::Operator;
use pbg_dataset::{Dataset, IdSpace, Relation};
use pbg_rows::spec::{EntitySpec, ModelSpec, RelationSpec};
use pbg_rows::table::FeatureBags;

use crate::error::{CheckpointMismatch, RunError, SettingError};
use crate::layout::{Layout, TypeLayout};

/// Model and layout of a configuration resolved against its dataset.
#[derive(Clone, Debug)]
pub struct Blueprint {
    /// Layout of tables and grid.
    pub layout: Layout,
    /// Model that the kernels compute. With static relations, relation `i` is relation `i` of the dataset.
    pub spec: ModelSpec,
    /// Names of the relations by id.
    pub relation_names: Vec<String>,
}

impl Blueprint {
    /// Resolves `config` against `dataset`.
    ///
    /// # Errors
    /// When the two do not match. The message says what to change.
    pub fn new(config: &Config, dataset: &Dataset) -> Result<Self, RunError> {
        check_entities(config, dataset)?;
        let manifest = dataset.manifest();
        let layout = Layout::new(config, |name| {
            let info = &manifest.entities[name];
            (0..info.num_partitions)
                .map(|p| u64::from(info.table_rows(p)))
                .collect()
        });
        let spec = model_spec(config, dataset, &layout)?;
        spec.validate()?;
        Ok(Self {
            layout,
            spec,
            relation_names: dataset.relation_names().to_vec(),
        })
    }

    /// Returns the same model with only the rows and relations of an earlier, smaller dataset.
    #[must_use]
    pub fn as_of(&self, earlier: &IdSpace) -> Self {
        let mut blueprint = self.clone();
        for layout in &mut blueprint.layout.types {
            if let Some(known) = earlier.rows.get(&layout.name) {
                layout.rows = known.counts.iter().map(|&rows| u64::from(rows)).collect();
            }
        }
        let relations = earlier.relations.total() as usize;
        blueprint.relation_names.truncate(relations);
        match &mut blueprint.spec.dynamic_relations {
            Some(count) => *count = relations,
            None => blueprint.spec.relations.truncate(relations),
        }
        blueprint
    }

    /// Returns the index of the entity type `name`.
    #[must_use]
    pub fn entity_type(&self, name: &str) -> Option<usize> {
        self.layout.types.iter().position(|t| t.name == name)
    }

    /// Returns the index of the entity type on `side` of relation `relation`.
    #[must_use]
    pub fn type_of(&self, relation: u32, side: Side) -> usize {
        self.spec.relation(relation).entity(side)
    }

    /// Returns the features of every featurized type, by type, without features that have no row in the model.
    ///
    /// # Errors
    /// When the features cannot be read or do not fit.
    pub fn features(&self, dataset: &Dataset) -> Result<Vec<Option<FeatureBags>>, RunError> {
        let of_type = |(layout, entity): (&TypeLayout, &EntitySpec)| {
            if !entity.featurized {
                return Ok(None);
            }
            let stored = dataset.features(&layout.name)?;
            let (mut offsets, mut ids) = (vec![0], Vec::new());
            for offset in 0..stored.len() as u32 {
                let known = |id: &u32| u64::from(*id) < layout.rows[0];
                ids.extend(stored.of(offset).iter().copied().filter(known));
                offsets.push(ids.len() as u64);
            }
            let features = FeatureBags::new(offsets, ids, layout.rows[0] as usize);
            let features = features.map_err(|source| CheckpointMismatch::Features {
                entity_type: layout.name.clone(),
                source,
            })?;
            Ok(Some(features))
        };
        let types = self.layout.types.iter().zip(&self.spec.entities);
        types.map(of_type).collect()
    }
}

fn check_entities(config: &Config, dataset: &Dataset) -> Result<(), SettingError> {
    for (name, entity) in &config.entities {
        let Some(info) = dataset.manifest().entities.get(name) else {
            return Err(SettingError::EntityType {
                entity_type: name.clone(),
                dataset: dataset.path().to_owned(),
            });
        };
        same_as_imported(
            dataset,
            || format!("entities.{name}.num_partitions"),
            (entity.num_partitions, info.num_partitions),
            "change the key, or import again into another folder",
        )?;
        same_as_imported(
            dataset,
            || format!("entities.{name}.featurized"),
            (entity.featurized, info.featurized),
            "import again",
        )?;
    }
    let imported = dataset.manifest().dynamic_relations;
    same_as_imported(
        dataset,
        || "dynamic_relations".to_owned(),
        (config.dynamic_relations, imported),
        "change the key, or import again",
    )?;
    Ok(())
}

fn model_spec(config: &Config, dataset: &Dataset, layout: &Layout) -> Result<ModelSpec, RunError> {
    let entities = layout.types.iter().map(|t| EntitySpec {
        name: t.name.clone(),
        dimension: t.dimension,
        featurized: config.entities[&t.name].featurized,
        frozen: t.frozen,
    });
    let operators = operators(config)?;
    let entries: Vec<&RelationConfig> = match config.dynamic_relations {
        true => config.relations.iter().collect(),
        false => {
            let relations = dataset.relations().iter();
            let entries = relations.map(|relation| configured(config, relation, dataset));
            entries.collect::<Result<_, _>>()?
        }
    };
    let relations = entries.into_iter();
    let relations = relations.map(|entry| relation_spec(entry, &operators, layout));
    Ok(ModelSpec {
        entities: entities.collect(),
        relations: relations.collect::<Result<_, _>>()?,
        dynamic_relations: config
            .dynamic_relations
            .then_some(dataset.relations().len()),
        comparator: config.comparator().map_err(SettingError::from)?,
        bias: config.bias,
        global_emb: config.global_emb.unwrap_or(!config.dynamic_relations),
        max_norm: config.max_norm,
        operator_init_scale: config.operator_init_scale,
        regularizer: config.regularizer,
        regularization_coef: config.regularization_coef,
        relation_prediction: config.relation_prediction,
        lr: config.lr,
        relation_lr: config.relation_lr.unwrap_or(config.lr),
        num_batch_negs: config.num_batch_negs as usize,
        num_uniform_negs: config.num_uniform_negs as usize,
        chunk_size: config.chunk_size.map(|n| n as usize),
        disable_lhs_negs: config.disable_lhs_negs,
        disable_rhs_negs: config.disable_rhs_negs,
    })
}

/// Checks that a key has the value that the dataset was imported with.
fn same_as_imported<T: PartialEq + ToString>(
    dataset: &Dataset,
    key: impl FnOnce() -> String,
    (configured, imported): (T, T),
    remedy: &'static str,
) -> Result<(), SettingError> {
    if configured == imported {
        return Ok(());
    }
    Err(SettingError::Imported {
        key: key(),
        configured: configured.to_string(),
        imported: imported.to_string(),
        dataset: dataset.path().to_owned(),
        remedy,
    })
}

/// Returns the configuration's entry for a relation of the dataset: its own entry, or `*`.
fn configured<'a>(
    config: &'a Config,
    relation: &Relation,
    dataset: &Dataset,
) -> Result<&'a RelationConfig, SettingError> {
    let named = config.relations.iter().find(|r| r.name == relation.name);
    let any = || config.relations.iter().find(|r| r.name == "*");
    let entry = named.or_else(any).ok_or_else(|| SettingError::Relation {
        relation: relation.name.clone(),
        dataset: dataset.path().to_owned(),
    })?;
    if entry.lhs != relation.lhs || entry.rhs != relation.rhs {
        return Err(SettingError::Ends {
            relation: relation.name.clone(),
            configured: [entry.lhs.clone(), entry.rhs.clone()],
            imported: [relation.lhs.clone(), relation.rhs.clone()],
        });
    }
    Ok(entry)
}

/// Returns the operators that the configuration names, by name.
fn operators(config: &Config) -> Result<BTreeMap<&str, Operator>, SettingError> {
    let mut operators = BTreeMap::new();
    for relation in &config.relations {
        let name = relation.operator.as_str();
        if !operators.contains_key(name) {
            let operator = config.operator(name);
            let operator = operator.map_err(|source| SettingError::Operator {
                relation: relation.name.clone(),
                source,
            })?;
            operators.insert(name, operator);
        }
    }
    Ok(operators)
}

fn relation_spec(
    relation: &RelationConfig,
    operators: &BTreeMap<&str, Operator>,
    layout: &Layout,
) -> Result<RelationSpec, SettingError> {
    let index = |name: &str| {
        let found = layout.types.iter().position(|t| t.name == name);
        found.ok_or_else(|| SettingError::End {
            relation: relation.name.clone(),
            entity_type: name.to_owned(),
        })
    };
    Ok(RelationSpec {
        lhs: index(&relation.lhs)?,
        rhs: index(&relation.rhs)?,
        operator: operators[relation.operator.as_str()],
        weight: relation.weight,
        all_negs: relation.all_negs,
    })
}
