//! Tables from which entities are drawn in constant time.
//!
//! A table of weights is an alias table (Walker 1977, Vose 1991): each slot has a threshold and another slot, so a draw
//! reads one slot whatever the number of entities. All arithmetic is exact or rounded alike on every machine, so trainers
//! with the same counts have the same tables.

use std::sync::Arc;

use rand::Rng;

use crate::strategy::{CandidateWeights, CountedEdges};

/// Numbers of edges of a partition's entities, from which weights follow.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountedEntities<'a> {
    /// Number of entities.
    pub entities: u32,
    /// Edges of each entity with any relation.
    pub of_side: &'a [u32],
    /// Entities seen with the relation.
    pub seen: &'a [u32],
    /// Edges of each of these entities with the relation.
    pub edges: &'a [u32],
}

/// Entities of a partition with their relative probabilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrawTable {
    /// As many entities as given, all equally likely.
    Uniform(u32),
    /// The listed entities, all equally likely; not empty.
    Even(Vec<u32>),
    /// Entities with weights.
    Weighted {
        /// Entity of each slot; `None`: slot `i` is entity `i`.
        entities: Option<Vec<u32>>,
        /// Alias table; not empty.
        slots: Vec<AliasSlot>,
    },
}

/// Slot of an alias table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AliasSlot {
    /// A random number below this keeps the slot.
    threshold: u32,
    /// Slot that is drawn otherwise.
    other: u32,
}

/// Bytes of an entry of a [`DrawTable::Weighted`] with listed entities.
pub const WEIGHTED_BYTES: u64 = (size_of::<AliasSlot>() + size_of::<u32>()) as u64;
/// Bytes of an entry while [`DrawTable::weighted`] builds its table, besides the table: its weight before and after
/// scaling, and its place in the list of slots that are not full.
pub const BUILDING_BYTES: u64 = (2 * size_of::<f64>() + size_of::<u32>()) as u64;

impl DrawTable {
    /// Creates the table of `weights`; `offset` returns the offset of a named entity, if the partition has it. Returns
    /// `None` if no entity has a positive weight.
    #[must_use]
    pub fn of_weights(
        weights: &CandidateWeights,
        counts: CountedEntities<'_>,
        offset: impl Fn(&str) -> Option<u32>,
    ) -> Option<Self> {
        match weights {
            CandidateWeights::Nothing => None,
            CandidateWeights::Uniform => Some(Self::Uniform(counts.entities)),
            CandidateWeights::Counted { edges, power } => match edges {
                CountedEdges::OfSide => Self::of_all(counts.of_side, *power),
                CountedEdges::OfRelation => {
                    Self::listed(counts.seen.to_vec(), &powers(counts.edges, *power))
                }
            },
            CandidateWeights::Listed { names, weights } => {
                let (mut entities, mut kept) = (Vec::new(), Vec::new());
                for (at, name) in names.iter().enumerate() {
                    let weight = weights.get(at).copied().unwrap_or(1.0);
                    if let Some(offset) = offset(name).filter(|_| weight > 0.0) {
                        entities.push(offset);
                        kept.push(f64::from(weight));
                    }
                }
                Self::listed(entities, &kept)
            }
        }
    }

    /// Creates the table of all entities by their edges.
    fn of_all(edges: &[u32], power: f64) -> Option<Self> {
        if power != 0.0 {
            return Self::weighted(None, &powers(edges, power));
        }
        let some = (0..).zip(edges).filter(|&(_, &edges)| edges > 0);
        let some: Vec<u32> = some.map(|(entity, _)| entity).collect();
        (!some.is_empty()).then_some(Self::Even(some))
    }

    /// Creates the table of `entities` with `weights`.
    fn listed(entities: Vec<u32>, weights: &[f64]) -> Option<Self> {
        let (first, others) = weights.split_first()?;
        match others.iter().all(|weight| weight == first) {
            true => Some(Self::Even(entities)),
            false => Self::weighted(Some(entities), weights),
        }
    }

    /// Creates a table of weights, all of them at least 0 and their sum finite. Slot `i` is `entities[i]`, or entity `i`
    /// without a list. Returns `None` if no weight is positive.
    #[must_use]
    pub fn weighted(entities: Option<Vec<u32>>, weights: &[f64]) -> Option<Self> {
        let total: f64 = weights.iter().sum();
        if total <= 0.0 {
            return None;
        }
        let slots = alias_slots(weights, total);
        Some(Self::Weighted { entities, slots })
    }

    /// Draws an entity with 64 random bits.
    #[must_use]
    pub fn draw(&self, bits: u64) -> u32 {
        match self {
            Self::Uniform(entities) => scaled(bits, *entities as usize).0 as u32,
            Self::Even(entities) => entities[scaled(bits, entities.len()).0],
            Self::Weighted { entities, slots } => {
                let (index, coin) = scaled(bits, slots.len());
                let slot = slots[index];
                let index = match coin < slot.threshold {
                    true => index as u32,
                    false => slot.other,
                };
                match entities {
                    Some(entities) => entities[index as usize],
                    None => index,
                }
            }
        }
    }

    /// Returns the bytes of the table.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Uniform(_) => 0,
            Self::Even(entities) => size_of_val(entities.as_slice()),
            Self::Weighted { entities, slots } => {
                entities.as_deref().map_or(0, size_of_val) + size_of_val(slots.as_slice())
            }
        };
        bytes as u64
    }
}

/// Returns numbers of edges to a power; 0 stays 0. `libm` rounds alike on every machine.
fn powers(edges: &[u32], power: f64) -> Vec<f64> {
    let weight = |&edges: &u32| match (edges, power) {
        (0, _) => 0.0,
        (edges, 1.0) => f64::from(edges),
        (edges, power) => libm::pow(f64::from(edges), power),
    };
    edges.iter().map(weight).collect()
}

/// Returns a number below `len`, and 32 random bits that are independent of it.
fn scaled(bits: u64, len: usize) -> (usize, u32) {
    let product = u128::from(bits) * len as u128;
    ((product >> 64) as usize, (product as u64 >> 32) as u32)
}

/// Returns the alias table of weights with the sum `total`.
fn alias_slots(weights: &[f64], total: f64) -> Vec<AliasSlot> {
    let len = weights.len();
    let scale = len as f64 / total;
    let mut left: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
    let mut slots: Vec<AliasSlot> = (0..len as u32)
        .map(|other| AliasSlot {
            threshold: u32::MAX,
            other,
        })
        .collect();
    // Slots with less than their share at the front, the others at the back.
    let mut open: Vec<u32> = vec![0; len];
    let (mut poor, mut rich) = (0, len);
    for (slot, &share) in left.iter().enumerate() {
        if share < 1.0 {
            open[poor] = slot as u32;
            poor += 1;
        } else {
            rich -= 1;
            open[rich] = slot as u32;
        }
    }
    while poor > 0 && rich < len {
        let (small, large) = (open[poor - 1] as usize, open[rich] as usize);
        slots[small] = AliasSlot {
            threshold: (left[small] * 4_294_967_296.0) as u32,
            other: large as u32,
        };
        left[large] -= 1.0 - left[small];
        poor -= 1;
        if left[large] < 1.0 {
            open[poor] = large as u32;
            poor += 1;
            rich += 1;
        }
    }
    // By rounding, slots may be left over, whose share is 1 but for the last bits. A weight of 0 is never drawn.
    for &slot in &open[..poor] {
        let slot = slot as usize;
        if weights[slot] == 0.0 {
            let drawn = weights.iter().position(|&weight| weight > 0.0);
            slots[slot] = AliasSlot {
                threshold: 0,
                other: drawn.unwrap_or(slot) as u32,
            };
        }
    }
    slots
}

/// Mixture of tables: each draw chooses a table first.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateMixture {
    parts: Vec<MixturePart>,
    /// Fraction of the draws that are made; the others are left out.
    drawn: f64,
}

#[derive(Clone, Debug, PartialEq)]
struct MixturePart {
    /// Random numbers up to this choose this part, or one before it.
    up_to: u64,
    table: Arc<DrawTable>,
}

impl CandidateMixture {
    /// Creates the mixture of tables with fractions, which are positive and relative to each other. Without parts, it is
    /// uniform over `entities` entities.
    #[must_use]
    pub fn new(parts: Vec<(f64, Arc<DrawTable>)>, entities: u32) -> Self {
        if parts.is_empty() {
            return Self::new(
                vec![(1.0, Arc::new(DrawTable::Uniform(entities)))],
                entities,
            );
        }
        let total: f64 = parts.iter().map(|(fraction, _)| fraction).sum();
        let last = parts.len() - 1;
        let mut sum = 0.0;
        let parts = parts.into_iter().enumerate();
        let parts = parts.map(|(index, (fraction, table))| {
            sum += fraction / total;
            let up_to = match index == last {
                true => u64::MAX,
                false => (sum * 2.0_f64.powi(64)) as u64,
            };
            MixturePart { up_to, table }
        });
        Self {
            parts: parts.collect(),
            drawn: 1.0,
        }
    }

    /// Sets the fraction of the draws that are made, from 0 to 1.
    #[must_use]
    pub fn with_drawn_fraction(self, drawn: f64) -> Self {
        Self { drawn, ..self }
    }

    /// Whether some draws are left out.
    #[must_use]
    pub fn leaves_out(&self) -> bool {
        self.drawn < 1.0
    }

    /// Draws how many of `wanted` draws are made: their fraction, rounded up or down at random, so that the mean is exact.
    pub fn drawn(&self, wanted: usize, rng: &mut impl Rng) -> usize {
        // A number below 1 has 53 random bits.
        let coin = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let drawn = (self.drawn * wanted as f64 + coin) as usize;
        drawn.min(wanted)
    }

    /// Draws an entity.
    pub fn draw(&self, rng: &mut impl Rng) -> u32 {
        let [.., last] = self.parts.as_slice() else {
            return 0;
        };
        let part = match self.parts.len() {
            1 => last,
            _ => {
                let chosen = rng.next_u64();
                let mut parts = self.parts.iter();
                parts.find(|part| chosen <= part.up_to).unwrap_or(last)
            }
        };
        part.table.draw(rng.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the probability with which each slot is drawn.
    fn probabilities(table: &DrawTable) -> Vec<f64> {
        let DrawTable::Weighted { slots, .. } = table else {
            panic!("{table:?}");
        };
        let mut found = vec![0.0; slots.len()];
        for (index, slot) in slots.iter().enumerate() {
            let keeps = f64::from(slot.threshold) / 4_294_967_296.0;
            found[index] += keeps / slots.len() as f64;
            found[slot.other as usize] += (1.0 - keeps) / slots.len() as f64;
        }
        found
    }

    proptest! {
        #[test]
        fn a_table_has_the_probabilities_of_its_weights(
            weights in proptest::collection::vec(prop_oneof![Just(0.0), 0.0_f64..10.0, 1e-9_f64..1e9], 1..200),
        ) {
            let total: f64 = weights.iter().sum();
            let table = DrawTable::weighted(None, &weights);
            prop_assert_eq!(table.is_some(), total > 0.0);
            let Some(table) = table else { return Ok(()) };
            for (found, weight) in probabilities(&table).into_iter().zip(&weights) {
                let expected = weight / total;
                prop_assert!((found - expected).abs() < 1e-9, "{} {}", found, expected);
                prop_assert_eq!(found > 0.0, found > 0.0 && *weight > 0.0);
            }
        }
    }

    #[test]
    fn entities_without_edges_have_no_weight() {
        assert_eq!(powers(&[0, 1, 4], 0.5), [0.0, 1.0, 2.0]);
        assert_eq!(powers(&[0, 3], -1.0), [0.0, 1.0 / 3.0]);
        let counts = CountedEntities {
            entities: 3,
            of_side: &[0, 5, 7],
            seen: &[],
            edges: &[],
        };
        let weights = |edges, power| CandidateWeights::Counted { edges, power };
        let table = |weights: &CandidateWeights| {
            DrawTable::of_weights(weights, counts, |name| (name == "b").then_some(1))
        };
        assert_eq!(
            table(&weights(CountedEdges::OfSide, 0.0)),
            Some(DrawTable::Even(vec![1, 2]))
        );
        assert_eq!(table(&weights(CountedEdges::OfRelation, 1.0)), None);
        let listed = |weights: &[f32]| CandidateWeights::Listed {
            names: vec!["a".to_owned(), "b".to_owned()],
            weights: weights.to_vec(),
        };
        assert_eq!(table(&listed(&[1.0, 2.0])), Some(DrawTable::Even(vec![1])));
        assert_eq!(table(&listed(&[1.0, 0.0])), None);
    }

    #[test]
    fn every_bit_pattern_draws_an_entity() {
        let tables = [
            DrawTable::Uniform(7),
            DrawTable::Even(vec![3, 9]),
            DrawTable::weighted(Some(vec![3, 9]), &[1.0, 2.0]).unwrap(),
        ];
        for table in &tables {
            for bits in [0, 1, u64::MAX / 2, u64::MAX] {
                let drawn = table.draw(bits);
                let known = match table {
                    DrawTable::Uniform(entities) => drawn < *entities,
                    _ => [3, 9].contains(&drawn),
                };
                assert!(known, "{table:?}: {drawn}");
            }
        }
        assert_eq!(
            tables.map(|table| table.bytes()),
            [0, 8, 2 * WEIGHTED_BYTES]
        );
    }

    #[test]
    fn a_mixture_without_parts_is_uniform() {
        let mixture = CandidateMixture::new(Vec::new(), 5);
        let mut rng = crate::seed::stream(1, crate::seed::StreamPurpose::Negatives, &[]);
        let mut seen = [0; 5];
        for _ in 0..1000 {
            seen[mixture.draw(&mut rng) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| n > 100), "{seen:?}");
    }

    #[test]
    fn fractions_decide_how_often_a_part_is_drawn() {
        let parts = vec![
            (3.0, Arc::new(DrawTable::Even(vec![0]))),
            (1.0, Arc::new(DrawTable::Even(vec![1]))),
        ];
        let mixture = CandidateMixture::new(parts, 2);
        let mut rng = crate::seed::stream(1, crate::seed::StreamPurpose::Negatives, &[]);
        let ones: u32 = (0..40_000).map(|_| mixture.draw(&mut rng)).sum();
        // The standard deviation is 87.
        assert!(ones.abs_diff(10_000) < 500, "{ones}");
    }
}
