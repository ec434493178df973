//! Mixtures of tables, from the answers of a negative sampler and the counts of a partition.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use pbg_core::draw_table::{CandidateMixture, CountedEntities, DrawTable};
use pbg_core::strategy::{CandidateWeights, CountedEdges, DistributionPart, drawn_fraction};
use pbg_dataset::Dataset;
use pbg_model::error::RunError;

use super::counts::EntityCounts;

/// Largest number of different powers of side counts among the relations of a partition: each is a table of all its
/// entities.
pub(super) const SIDE_POWERS: usize = 4;
/// Largest number of names that the relations of a partition list.
pub(super) const LISTED_NAMES: usize = 1 << 20;
/// Largest number of bytes of these names.
pub(super) const LISTED_BYTES: usize = 16 << 20;
/// Bytes that a listed name occupies in addition to its text: the name, its weight, its place in the map and in the
/// table, and the weight while the table is built.
pub(super) const LISTED_NAME: u64 = 160;

/// Distributions of a partition's relations, in the order of the relations.
#[derive(Debug, Default)]
pub(super) struct DistributionAnswers {
    relations: Vec<Vec<DistributionPart>>,
    /// Bits of the powers of side counts.
    powers: Vec<u64>,
    names: usize,
    name_bytes: usize,
}

/// Offset of each listed name in the partition; `None` if it is in another partition.
pub(super) type ListedOffsets = HashMap<String, Option<u32>>;

impl DistributionAnswers {
    /// Adds the distribution of the next relation.
    ///
    /// # Errors
    /// Describes the limit that the answers exceed together.
    pub(super) fn add(&mut self, parts: Vec<DistributionPart>) -> Result<(), String> {
        for part in &parts {
            match &part.weights {
                CandidateWeights::Counted {
                    edges: CountedEdges::OfSide,
                    power,
                } if !self.powers.contains(&power.to_bits()) => {
                    self.powers.push(power.to_bits());
                    if self.powers.len() > SIDE_POWERS {
                        return Err(format!(
                            "the relations of a partition use more than {SIDE_POWERS} different powers of side counts"
                        ));
                    }
                }
                CandidateWeights::Listed { names, .. } => {
                    self.names += names.len();
                    self.name_bytes += names.iter().map(String::len).sum::<usize>();
                    if self.names > LISTED_NAMES || self.name_bytes > LISTED_BYTES {
                        return Err(format!(
                            "the relations of a partition list {} names with {} bytes so far; the limits are \
                             {LISTED_NAMES} and {LISTED_BYTES}",
                            self.names, self.name_bytes
                        ));
                    }
                }
                _ => {}
            }
        }
        self.relations.push(parts);
        Ok(())
    }

    /// Returns a number that other answers have with a probability of 2^-64 only.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        for parts in &self.relations {
            parts.len().hash(&mut hash);
            for DistributionPart { fraction, weights } in parts {
                fraction.to_bits().hash(&mut hash);
                match weights {
                    CandidateWeights::Uniform => 0.hash(&mut hash),
                    CandidateWeights::Counted { edges, power } => {
                        (1, edges, power.to_bits()).hash(&mut hash);
                    }
                    CandidateWeights::Listed { names, weights } => {
                        (2, names, weights.len()).hash(&mut hash);
                        let bits = weights.iter().map(|weight| weight.to_bits());
                        bits.for_each(|bits| bits.hash(&mut hash));
                    }
                    CandidateWeights::Nothing => 3.hash(&mut hash),
                }
            }
        }
        hash.finish()
    }

    /// Looks up the listed names among the entities of a type. The inner error describes a name that the type lacks.
    ///
    /// # Errors
    /// When the names of the entities cannot be read.
    pub(super) fn offsets(
        &self,
        dataset: &Dataset,
        entity_type: &str,
        partition: u32,
    ) -> Result<Result<ListedOffsets, String>, RunError> {
        let mut offsets = ListedOffsets::new();
        let parts = self.relations.iter().flatten();
        let lists = parts.filter_map(|part| match &part.weights {
            CandidateWeights::Listed { names, .. } => Some(names),
            _ => None,
        });
        for name in lists.flatten() {
            offsets.insert(name.clone(), None);
        }
        if offsets.is_empty() {
            return Ok(Ok(offsets));
        }
        let mut found = 0;
        dataset.visit_entities(entity_type, &mut |id, name| {
            if let Some(offset) = offsets.get_mut(name) {
                found += 1;
                *offset = (id.partition == partition).then_some(id.offset);
            }
        })?;
        if found == offsets.len() {
            return Ok(Ok(offsets));
        }
        let mut unknown = offsets;
        dataset.visit_entities(entity_type, &mut |_, name| {
            unknown.remove(name);
        })?;
        let first = unknown.keys().min().cloned().unwrap_or_default();
        Ok(Err(format!(
            "it lists {first:?}, but the entity type {entity_type} has no such entity; {} of the listed names are unknown",
            unknown.len()
        )))
    }
}

/// Builds the mixture of each of `relations` from its answer.
pub(super) fn build_mixtures(
    answers: &DistributionAnswers,
    offsets: &ListedOffsets,
    counts: &EntityCounts,
    relations: &[u32],
) -> Vec<CandidateMixture> {
    let uniform = Arc::new(DrawTable::Uniform(counts.entities));
    // All relations share the tables of the side.
    let mut of_side = BTreeMap::new();
    let relations = relations.iter().zip(&answers.relations);
    let mixture = |(&relation, parts): (&u32, &Vec<DistributionPart>)| {
        let drawn = drawn_fraction(parts);
        let (seen, edges) = counts.seen_with(relation);
        let own = CountedEntities {
            entities: counts.entities,
            of_side: &counts.of_side,
            seen,
            edges,
        };
        let build = |weights: &CandidateWeights| {
            let offset = |name: &str| offsets.get(name).copied().flatten();
            DrawTable::of_weights(weights, own, offset).map(Arc::new)
        };
        let parts = parts
            .iter()
            .filter_map(|DistributionPart { fraction, weights }| {
                let table = match weights {
                    CandidateWeights::Uniform => Some(Arc::clone(&uniform)),
                    CandidateWeights::Counted {
                        edges: CountedEdges::OfSide,
                        power,
                    } => of_side
                        .entry(power.to_bits())
                        .or_insert_with(|| build(weights))
                        .clone(),
                    _ => build(weights),
                };
                Some((*fraction, table?))
            });
        CandidateMixture::new(parts.collect(), counts.entities).with_drawn_fraction(drawn)
    };
    relations.map(mixture).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(fraction: f64, weights: CandidateWeights) -> DistributionPart {
        DistributionPart { fraction, weights }
    }

    #[test]
    fn equal_answers_have_one_fingerprint() {
        let answers = |power| {
            let mut answers = DistributionAnswers::default();
            let edges = CountedEdges::OfSide;
            let counted = CandidateWeights::Counted { edges, power };
            answers.add(vec![part(1.0, counted)]).unwrap();
            answers.fingerprint()
        };
        assert_eq!(answers(0.5), answers(0.5));
        assert_ne!(answers(0.5), answers(0.75));
    }

    #[test]
    fn answers_are_bounded() {
        let mut answers = DistributionAnswers::default();
        for power in 0..=SIDE_POWERS {
            let edges = CountedEdges::OfSide;
            let power = power as f64;
            let counted = CandidateWeights::Counted { edges, power };
            let added = answers.add(vec![part(1.0, counted)]);
            assert_eq!(added.is_ok(), power < SIDE_POWERS as f64, "{added:?}");
        }
        let mut answers = DistributionAnswers::default();
        let names = vec!["x".repeat(LISTED_BYTES + 1)];
        let listed = CandidateWeights::Listed {
            names,
            weights: Vec::new(),
        };
        let refused = answers.add(vec![part(1.0, listed)]).unwrap_err();
        assert!(refused.contains("the limits are 1048576"), "{refused}");
    }

    #[test]
    fn a_part_without_entities_is_left_out() {
        let mut answers = DistributionAnswers::default();
        let relation = CandidateWeights::Counted {
            edges: CountedEdges::OfRelation,
            power: 1.0,
        };
        answers.add(vec![part(1.0, relation)]).unwrap();
        let counts = EntityCounts {
            entities: 3,
            ..EntityCounts::default()
        };
        let mixtures = build_mixtures(&answers, &ListedOffsets::new(), &counts, &[0]);
        assert_eq!(mixtures, [CandidateMixture::new(Vec::new(), 3)]);
    }

    #[test]
    fn nothing_keeps_its_fraction_of_all_parts() {
        let mut answers = DistributionAnswers::default();
        // Without edges of the relation, the other draws are uniform.
        let relation = CandidateWeights::Counted {
            edges: CountedEdges::OfRelation,
            power: 1.0,
        };
        let parts = vec![part(1.0, relation), part(3.0, CandidateWeights::Nothing)];
        answers.add(parts).unwrap();
        let counts = EntityCounts {
            entities: 3,
            ..EntityCounts::default()
        };
        let mixtures = build_mixtures(&answers, &ListedOffsets::new(), &counts, &[0]);
        let uniform = CandidateMixture::new(Vec::new(), 3);
        assert_eq!(mixtures, [uniform.with_drawn_fraction(0.25)]);
    }
}
