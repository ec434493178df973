//! Relations of an import and the entity types of their sides.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use pbg_core::graph::{RelationDecl, Schema};

use super::ImportError;
use super::shorten::shorten;
use super::types::Types;
use pbg_dataset::{Dataset, Relation};

/// Name of the configuration entry for all relations without their own entry.
const ANY: &str = "*";

/// Id of a dropped relation: the entry in [`FinalRelations::ids`] of relations with too few edges.
pub(super) const DROPPED: u32 = u32::MAX;

/// All relations of an import, shared by the workers.
pub(super) struct RelationTable {
    template: Option<Template>,
    single: Option<ResolvedRelation>,
    found: RwLock<RelationRegistry>,
}

/// Entity types of relations that the configuration does not name.
struct Template {
    lhs: String,
    rhs: String,
    sides: (u32, u32),
}

#[derive(Default)]
struct RelationRegistry {
    ids: HashMap<String, u32>,
    list: Vec<Relation>,
    sides: Vec<(u32, u32)>,
    counts: Vec<u64>,
    /// The first `fixed` relations are kept in this order, even with few edges.
    fixed: usize,
}

/// Relations of the dataset.
pub(super) struct FinalRelations {
    /// Final ids by provisional id; [`DROPPED`] for dropped relations.
    pub(super) ids: Vec<u32>,
    pub(super) list: Vec<Relation>,
    /// Number of dropped relations.
    pub(super) dropped: u64,
}

/// Relation as workers use it: provisional id, and the indices of its entity types.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResolvedRelation {
    pub(super) id: u32,
    pub(super) lhs: u32,
    pub(super) rhs: u32,
}

impl RelationTable {
    pub(super) fn new(
        schema: &Schema,
        types: &Types,
        old: Option<&Dataset>,
    ) -> Result<Self, ImportError> {
        let side = |relation: &str, name: &str| match types.index(name) {
            Some(index) => Ok(index as u32),
            None => Err(ImportError::usage(format!(
                "the relation `{relation}` names the entity type `{name}`, which does not exist"
            ))),
        };
        let sides = |name: &str, lhs: &str, rhs: &str| {
            Ok::<_, ImportError>((side(name, lhs)?, side(name, rhs)?))
        };
        let is_template = |r: &&RelationDecl| schema.dynamic_relations || r.name == ANY;
        let template = schema.relations.iter().find(is_template);
        let template = template.map(|RelationDecl { name, lhs, rhs }| {
            Ok::<_, ImportError>(Template {
                lhs: lhs.clone(),
                rhs: rhs.clone(),
                sides: sides(name, lhs, rhs)?,
            })
        });
        let template = template.transpose()?;
        let mut found = RelationRegistry::default();
        for relation in old.map(Dataset::relations).unwrap_or_default() {
            let sides = sides(&relation.name, &relation.lhs, &relation.rhs)?;
            found.push(relation.clone(), sides);
        }
        for named in schema.relations.iter().filter(|r| !is_template(r)) {
            let relation = Relation {
                name: named.name.clone(),
                lhs: named.lhs.clone(),
                rhs: named.rhs.clone(),
            };
            let sides = sides(&named.name, &named.lhs, &named.rhs)?;
            found.add_named(relation, sides)?;
        }
        found.fixed = found.list.len();
        let single = match (&template, &found.list[..], &found.sides[..]) {
            (None, [_], &[(lhs, rhs)]) => Some(ResolvedRelation { id: 0, lhs, rhs }),
            _ => None,
        };
        Ok(Self {
            template,
            single,
            found: RwLock::new(found),
        })
    }

    /// Returns the relation of files without a column of relations, if there is exactly one.
    pub(super) fn single(&self) -> Option<ResolvedRelation> {
        self.single
    }

    /// Returns the name of that relation.
    pub(super) fn single_name(&self) -> Option<String> {
        let found = self.found.read().unwrap_or_else(PoisonError::into_inner);
        let id = self.single?.id as usize;
        let single = found.list.get(id);
        single.map(|relation| relation.name.clone())
    }

    fn resolve(&self, name: &str) -> Result<ResolvedRelation, String> {
        let found = self.found.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(&id) = found.ids.get(name) {
            return Ok(found.resolved(id));
        }
        let Some(template) = &self.template else {
            return Err(found.unknown(name));
        };
        drop(found);
        let mut found = self.found.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(&id) = found.ids.get(name) {
            return Ok(found.resolved(id));
        }
        if found.list.len() >= DROPPED as usize {
            return Err("there are more relations than can be numbered".to_owned());
        }
        let relation = Relation {
            name: name.to_owned(),
            lhs: template.lhs.clone(),
            rhs: template.rhs.clone(),
        };
        let id = found.push(relation, template.sides);
        Ok(found.resolved(id))
    }

    /// Determines the relations of the dataset and their order: first the relations that are already known or named in
    /// the configuration, then the others by name.
    pub(super) fn place(&self, min_count: u32) -> FinalRelations {
        let found = self.found.read().unwrap_or_else(PoisonError::into_inner);
        let is_frequent = |id: &usize| found.counts[*id] >= u64::from(min_count);
        let others = (found.fixed..found.list.len()).filter(is_frequent);
        let mut others: Vec<usize> = others.collect();
        others.sort_unstable_by(|&a, &b| found.list[a].name.cmp(&found.list[b].name));
        let order: Vec<usize> = (0..found.fixed).chain(others).collect();
        let mut ids = vec![DROPPED; found.list.len()];
        for (place, &id) in order.iter().enumerate() {
            ids[id] = place as u32;
        }
        let list: Vec<_> = order.iter().map(|&id| found.list[id].clone()).collect();
        let dropped = (found.list.len() - list.len()) as u64;
        FinalRelations { ids, list, dropped }
    }

    /// Returns the indices of the entity types of both sides, by provisional id.
    pub(super) fn sides(&self) -> Vec<(u32, u32)> {
        let found = self.found.read().unwrap_or_else(PoisonError::into_inner);
        found.sides.clone()
    }

    fn add_counts(&self, counts: &[u64]) {
        let mut found = self.found.write().unwrap_or_else(PoisonError::into_inner);
        for (total, count) in found.counts.iter_mut().zip(counts) {
            *total += count;
        }
    }
}

impl RelationRegistry {
    fn push(&mut self, relation: Relation, sides: (u32, u32)) -> u32 {
        let id = self.list.len() as u32;
        self.ids.insert(relation.name.clone(), id);
        self.list.push(relation);
        self.sides.push(sides);
        self.counts.push(0);
        id
    }

    /// Adds a relation that the configuration names. If it is already known, its types must be the same.
    fn add_named(&mut self, relation: Relation, sides: (u32, u32)) -> Result<(), ImportError> {
        let Some(&id) = self.ids.get(&relation.name) else {
            self.push(relation, sides);
            return Ok(());
        };
        let known = &self.list[id as usize];
        if *known == relation {
            return Ok(());
        }
        Err(ImportError::usage(format!(
            "the relation `{}` goes from `{}` to `{}`, but from `{}` to `{}` in the dataset whose ids are to be kept",
            relation.name, relation.lhs, relation.rhs, known.lhs, known.rhs
        )))
    }

    fn resolved(&self, id: u32) -> ResolvedRelation {
        let (lhs, rhs) = self.sides[id as usize];
        ResolvedRelation { id, lhs, rhs }
    }

    fn unknown(&self, name: &str) -> String {
        let similar = |known: &Relation| strsim::jaro_winkler(&known.name, name);
        let known = self.list.iter().map(|known| (similar(known), &known.name));
        let hint = match known.max_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((similar, known)) if similar > 0.8 => format!("did you mean `{known}`? Or "),
            _ => String::new(),
        };
        format!(
            "the relation `{}` is not in the configuration; {hint}add an entry for it, or one \
             named `{ANY}` for all relations without an entry",
            shorten(name)
        )
    }
}

/// Cache of relations of one worker, which avoids locking the shared table.
pub(super) struct RelationCache<'t> {
    table: &'t RelationTable,
    known: HashMap<Vec<u8>, ResolvedRelation, foldhash::fast::RandomState>,
    counts: Vec<u64>,
}

impl<'t> RelationCache<'t> {
    pub(super) fn new(table: &'t RelationTable) -> Self {
        Self {
            table,
            known: HashMap::default(),
            counts: Vec::new(),
        }
    }

    /// Returns the relation of this name, and counts an edge.
    pub(super) fn resolve(&mut self, name: &[u8]) -> Result<ResolvedRelation, String> {
        let resolved = match self.known.get(name) {
            Some(&resolved) => resolved,
            None => {
                let text = std::str::from_utf8(name).map_err(|_| "not UTF-8".to_owned())?;
                let resolved = self.table.resolve(text)?;
                self.known.insert(name.to_owned(), resolved);
                resolved
            }
        };
        let at = resolved.id as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        Ok(resolved)
    }
}

impl Drop for RelationCache<'_> {
    fn drop(&mut self) {
        self.table.add_counts(&self.counts);
    }
}
