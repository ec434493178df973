//! Single questions to a trained model: nearest neighbours of an entity, the score of a triple.

use pbg_core::config::Config;
use pbg_core::graph::Side;
use pbg_kernels::scoring::{self, Ranker, ScoreBlock};
use pbg_kernels::table::Table;
use pbg_store::dataset::{Dictionary, EntityId};
use serde::Serialize;

use crate::error::RunError;
use crate::trained::Trained;

/// Candidates that are compared together.
const BLOCK: usize = 1 << 14;

/// An entity and how near it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Neighbor {
    /// Its name.
    pub name: String,
    /// Its score by the model's comparator: higher is nearer.
    pub score: f32,
}

/// A model to ask. Tables are read as questions need them and kept.
pub struct Model {
    trained: Trained,
    dictionaries: Vec<Option<Dictionary>>,
    tables: Vec<((usize, u32), Table)>,
}

impl Model {
    /// Opens what `config` trained.
    ///
    /// # Errors
    /// As [`Trained::open`].
    pub fn open(config: &Config) -> Result<Self, RunError> {
        let trained = Trained::open(config)?;
        let dictionaries = trained
            .blueprint
            .layout
            .types
            .iter()
            .map(|_| None)
            .collect();
        Ok(Self {
            trained,
            dictionaries,
            tables: Vec::new(),
        })
    }

    /// The `k` entities of the same type whose embeddings score highest with that of `name`,
    /// without the operator of any relation, highest first; the entity itself is left out.
    ///
    /// # Errors
    /// When no entity has this name, several types have it and `entity_type` does not choose, or
    /// the model cannot be read.
    pub fn neighbors(
        &mut self,
        name: &str,
        k: usize,
        entity_type: Option<&str>,
    ) -> Result<Vec<Neighbor>, RunError> {
        let (type_index, id) = self.find(name, entity_type)?;
        let ranker_rows = scoring::gather(self.table(type_index, id.partition)?, &[id.offset]);
        let spec = &self.trained.blueprint.spec;
        let ranker = Ranker::new(spec, &self.trained.params);
        let query = ranker.prepare(&ranker_rows, type_index, None)?;
        let mut block = ScoreBlock::new()?;
        let mut best: Vec<(f32, EntityId)> = Vec::new();
        for partition in 0..self.trained.partitions(type_index) {
            let table = self.trained.table(type_index, partition)?;
            let offsets: Vec<u32> = (0..table.entities() as u32).collect();
            for offsets in offsets.chunks(BLOCK) {
                let candidates =
                    ranker.prepare(&scoring::gather(&table, offsets), type_index, None)?;
                ranker.load_candidates(&candidates, 0..candidates.len(), &mut block)?;
                let scores = ranker.score_block(&query, 0..1, &mut block)?;
                let entities = offsets.iter().map(|&offset| EntityId { partition, offset });
                best.extend(
                    scores
                        .iter()
                        .copied()
                        .zip(entities)
                        .filter(|(_, e)| *e != id),
                );
                best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                best.truncate(k);
            }
        }
        let dictionary = self.dictionary(type_index)?;
        let named = |(score, entity)| Neighbor {
            name: dictionary.name_of(entity).unwrap_or_default().to_owned(),
            score,
        };
        Ok(best.into_iter().map(named).collect())
    }

    /// The score of an edge. With dynamic relations: of its right side, as when left sides are
    /// ranked.
    ///
    /// # Errors
    /// When a name is unknown or the model cannot be read.
    pub fn score(&mut self, lhs: &str, relation: &str, rhs: &str) -> Result<f32, RunError> {
        let relation = self.relation(relation)?;
        let blueprint = &self.trained.blueprint;
        let types = Side::BOTH.map(|side| blueprint.type_of(relation, side));
        let names = types.map(|t| blueprint.layout.types[t].name.clone());
        let (_, left) = self.find(lhs, Some(&names[0]))?;
        let (_, right) = self.find(rhs, Some(&names[1]))?;
        let left = scoring::gather(self.table(types[0], left.partition)?, &[left.offset]);
        let right = scoring::gather(self.table(types[1], right.partition)?, &[right.offset]);
        let ranker = Ranker::new(&self.trained.blueprint.spec, &self.trained.params);
        let relations = [relation];
        // The left side is replaced: the right one is the query, which carries the operator.
        let transform = ranker.query_transform(Side::Lhs, &relations);
        let query = ranker.prepare(&right, types[1], transform)?;
        let candidate = ranker.prepare(&left, types[0], None)?;
        Ok(ranker.score_pairs(&query, &candidate)[0])
    }

    fn relation(&self, name: &str) -> Result<u32, RunError> {
        let names = &self.trained.blueprint.relation_names;
        names
            .iter()
            .position(|n| n == name)
            .map(|i| i as u32)
            .ok_or_else(|| {
                RunError::Unknown(format!(
                    "the dataset {} has no relation `{name}`; it has {}",
                    self.trained.dataset.path().display(),
                    few(names.iter().map(String::as_str))
                ))
            })
    }

    fn find(
        &mut self,
        name: &str,
        entity_type: Option<&str>,
    ) -> Result<(usize, EntityId), RunError> {
        let types: Vec<String> = self
            .trained
            .blueprint
            .layout
            .types
            .iter()
            .map(|t| t.name.clone())
            .collect();
        if let Some(wanted) = entity_type
            && !types.iter().any(|t| t == wanted)
        {
            let known = few(types.iter().map(String::as_str));
            return Err(RunError::Unknown(format!(
                "there is no entity type `{wanted}`; there is {known}"
            )));
        }
        let mut found = Vec::new();
        for (index, type_name) in types.iter().enumerate() {
            if entity_type.is_none_or(|t| t == type_name)
                && let Some(id) = self.dictionary(index)?.find(name)
            {
                found.push((index, id));
            }
        }
        match found[..] {
            [only] => Ok(only),
            [] => Err(RunError::Unknown(format!(
                "there is no entity `{name}`{}",
                self.similar(name)?
            ))),
            _ => Err(RunError::Unknown(format!(
                "several entity types have a `{name}`: {}; choose one",
                few(found.iter().map(|(i, _)| types[*i].as_str()))
            ))),
        }
    }

    /// Names that begin as `name` does, for the message that there is none.
    fn similar(&mut self, name: &str) -> Result<String, RunError> {
        let stem: String = name.chars().take_while(|c| c.is_alphanumeric()).collect();
        let stem = if stem.is_empty() { name } else { &stem };
        let mut similar = Vec::new();
        for index in 0..self.dictionaries.len() {
            let names = self.dictionary(index)?;
            similar.extend(
                names
                    .names()
                    .filter(|n| n.starts_with(stem))
                    .take(8)
                    .map(str::to_owned),
            );
        }
        similar.sort_by_key(String::len);
        similar.truncate(5);
        Ok(if similar.is_empty() {
            String::new()
        } else {
            format!("; there is {}", similar.join(", "))
        })
    }

    fn dictionary(&mut self, type_index: usize) -> Result<&Dictionary, RunError> {
        if self.dictionaries[type_index].is_none() {
            self.dictionaries[type_index] = Some(self.trained.dictionary(type_index)?);
        }
        self.dictionaries[type_index]
            .as_ref()
            .ok_or(RunError::WorkerPanic)
    }

    fn table(&mut self, type_index: usize, partition: u32) -> Result<&Table, RunError> {
        let key = (type_index, partition);
        let index = match self.tables.iter().position(|(k, _)| *k == key) {
            Some(index) => index,
            None => {
                self.tables
                    .push((key, self.trained.table(type_index, partition)?));
                self.tables.len() - 1
            }
        };
        Ok(&self.tables[index].1)
    }
}

/// The first few of `names`, and how many more there are.
fn few<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    let shown = names
        .iter()
        .take(8)
        .map(|n| format!("`{n}`"))
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > 8 {
        format!("{shown} and {} more", names.len() - 8)
    } else {
        shown
    }
}
