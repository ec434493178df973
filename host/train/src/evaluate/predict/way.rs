//! By which way a block of questions is answered where there is an index: a walk looks at few entities, one by one; a look
//! at all of them is so much cheaper for each that it may take less for many questions.

use std::collections::{BTreeMap, BTreeSet};

use pbg_core::graph::Side;

use super::{Asked, Indexed, Predictor, view};
use crate::error::RunError;
use crate::evaluate::block::relation_alone;
use crate::index::{AllInstead, Width};

/// How the candidates of a block are come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// All of them, partition by partition.
    All,
    /// Those that walks lead to, row by row from the disk.
    Walks,
    /// The same walks, in a partition whose rows are read into memory before.
    WalksInMemory,
}

/// What is to be said of a block's answers beforehand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Approach<'p> {
    /// What walks keep in view, by the name of the entity type that they are among; nothing without walks.
    pub widths: BTreeMap<&'p str, Width>,
    /// Why a look at all candidates is made although an index was to be asked.
    pub all_instead: Option<AllInstead>,
}

/// What is asked of the entities of a type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Load {
    /// Entities, in all partitions.
    entities: f64,
    questions: f64,
    /// Groups of questions that candidates are prepared for anew.
    groups: f64,
    /// Entities that a question's walks look at, in all partitions.
    looked_at: f64,
}

/// What the ways take, as multiples of the processor time in which a walk looks at an entity whose row it reads from the
/// disk (some microsecond): the ratios of measurements with `predict` among a hundred thousand entities of 64 numbers.
struct Costs;

impl Costs {
    /// A walk looks at an entity whose row is in memory.
    const IN_MEMORY: f64 = 0.3;
    /// A row is read and checked with its whole partition.
    const READ: f64 = 0.2;
    /// A candidate is prepared for a group of questions.
    const PREPARED: f64 = 0.05;
    /// A prepared candidate is compared with a question, beside many.
    const COMPARED: f64 = 0.004;
}

/// The way that takes least. Rows are read into memory only where there is `room`; where walks were asked for
/// by their width, they are made.
fn cheapest(loads: &[Load], room: bool, only_walks: bool) -> Way {
    let sum = |of: fn(&Load) -> f64| loads.iter().map(of).sum::<f64>();
    let reading = sum(|of| of.entities * Costs::READ);
    let looks = sum(|of| of.questions * of.looked_at);
    let compared =
        sum(|of| of.entities * (of.groups * Costs::PREPARED + of.questions * Costs::COMPARED));
    let in_memory = reading + looks * Costs::IN_MEMORY;
    match room {
        true if !only_walks && reading + compared < looks.min(in_memory) => Way::All,
        true if in_memory < looks => Way::WalksInMemory,
        _ => Way::Walks,
    }
}

impl Predictor<'_> {
    /// What is to be said of the answers to `questions` before they are looked for.
    ///
    /// # Errors
    /// When the index does not have a type.
    pub fn approach(&self, questions: &[Asked]) -> Result<Approach<'_>, RunError> {
        if self.index.is_none() {
            return Ok(Approach::default());
        }
        if self.way(questions)? == Way::All {
            let unproven = self.unproven(questions)?.map(AllInstead::Unproven);
            return Ok(Approach {
                all_instead: Some(unproven.unwrap_or(AllInstead::Cheaper)),
                ..Approach::default()
            });
        }
        let types = self.open_types(questions);
        let width = |of: usize| {
            let name = self.trained.blueprint.layout.types[of].name.as_str();
            Ok::<_, RunError>((name, self.width(of)?))
        };
        Ok(Approach {
            widths: types.into_iter().map(width).collect::<Result<_, _>>()?,
            all_instead: None,
        })
    }

    /// The width of a type among which walks do not find enough, and whose width nobody chose.
    fn unproven(&self, questions: &[Asked]) -> Result<Option<Width>, RunError> {
        let Some(Indexed { with, .. }) = &self.index else {
            return Ok(None);
        };
        for of in self.open_types(questions) {
            let width = self.width(of)?;
            if !width.suffices(*with) {
                return Ok(Some(width));
            }
        }
        Ok(None)
    }

    /// Entity types that are asked for.
    fn open_types(&self, questions: &[Asked]) -> BTreeSet<usize> {
        let blueprint = &self.trained.blueprint;
        let types = questions.iter();
        let types = types.map(|asked| blueprint.type_of(asked.relation, asked.open));
        types.collect()
    }

    /// The way by which a block of questions is answered.
    ///
    /// # Errors
    /// When the index does not have a type.
    pub(super) fn way(&self, questions: &[Asked]) -> Result<Way, RunError> {
        let Some(Indexed { index, with, .. }) = &self.index else {
            return Ok(Way::All);
        };
        if self.unproven(questions)?.is_some() {
            return Ok(Way::All);
        }
        let (view, blueprint) = (view(&self.trained), &self.trained.blueprint);
        let mut loads = Vec::new();
        for of in self.open_types(questions) {
            let name = &blueprint.layout.types[of].name;
            let links = f64::from(index.degree(name)?);
            let width = f64::from(self.width(of)?.width);
            let mut load = Load::default();
            for partition in 0..self.trained.partitions(of) {
                let entities = view.entities((of, partition)) as f64;
                load.entities += entities;
                // About half of the links of what is in view lead to what was not seen before.
                load.looked_at += entities.min(width * links / 2.0);
            }
            let mut groups = BTreeSet::new();
            for asked in questions {
                if blueprint.type_of(asked.relation, asked.open) == of {
                    let alone = relation_alone(&blueprint.spec, asked.relation, asked.open);
                    groups.insert((asked.open == Side::Lhs, alone.then_some(asked.relation)));
                    load.questions += 1.0;
                }
            }
            load.groups = groups.len() as f64;
            loads.push(load);
        }
        Ok(cheapest(&loads, self.room, with.width.is_some()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(entities: f64, questions: f64, room: bool, only_walks: bool) -> Way {
        let load = Load {
            entities,
            questions,
            groups: 1.0,
            looked_at: entities.min(2000.0),
        };
        cheapest(&[load], room, only_walks)
    }

    #[test]
    fn many_questions_among_few_are_compared_with_all() {
        assert_eq!(way(1e5, 500.0, true, false), Way::All);
        assert_eq!(way(1e5, 500.0, true, true), Way::WalksInMemory);
        assert_eq!(way(1e5, 500.0, false, false), Way::Walks);
    }

    #[test]
    fn few_questions_among_many_are_walked() {
        assert_eq!(way(1e7, 10.0, true, false), Way::Walks);
        assert_eq!(way(1e7, 5000.0, true, false), Way::WalksInMemory);
    }
}
