//! Scores and ranks against all entities.

use std::sync::Arc;

use pbg_core::graph::Side;
use pbg_core::model::{Comparator, Operator};
use pbg_kernels::rank::{CandidateBlock, PreparedQueries, RankCounts, Ranker, ReplacedSide};
use pbg_kernels::step::BatchRelations;
use pbg_reference::comparators::comparators;
use pbg_reference::formulas::{householder, paired};
use pbg_reference::twin::{Twin, spec};
use pbg_rows::spec::ModelSpec;

/// Counts candidates for queries of one relation, in blocks of `block` candidates.
fn counts(
    twin: &Twin,
    side: Side,
    relation: u32,
    block: usize,
    left_out: &[Vec<u32>],
) -> Vec<RankCounts> {
    let mut ranker = Ranker::new(Arc::new(twin.model.spec.clone())).expect("a ranker");
    let (mut queries, mut candidates) = (PreparedQueries::default(), CandidateBlock::default());
    let [known, positives] = [side.other(), side].map(|s| &twin.edges.sides[s as usize]);
    let replacement = ReplacedSide {
        side,
        relation,
        params: &twin.params,
    };
    let known_table = twin.table(side.other());
    ranker.queries(
        side,
        known,
        BatchRelations::One(relation),
        known_table,
        &twin.params,
        &mut queries,
    );
    let positives = ranker.pair_scores(replacement, &queries, positives, twin.table(side));
    let mut counts = vec![RankCounts::default(); known.len()];
    let entities = twin.model.entities(side);
    for first in (0..entities).step_by(block) {
        ranker.candidates(
            replacement,
            first..(first + block).min(entities),
            twin.table(side),
            &mut candidates,
        );
        ranker.count(
            &queries,
            &candidates,
            &positives,
            |i| &left_out[i],
            &mut counts,
        );
    }
    counts
}

#[test]
fn ranks_equal_a_naive_count_in_blocks_of_any_size() {
    for comparator in comparators() {
        let built_in = [Operator::None, Operator::Affine, Operator::ComplexDiagonal];
        for operator in built_in.into_iter().chain([householder(), paired()]) {
            for (dynamic, bias) in [(false, false), (true, true)] {
                if dynamic && operator.on_lhs() != Operator::None {
                    continue;
                }
                let spec = ModelSpec {
                    bias,
                    ..spec(dynamic, false, operator, comparator)
                };
                let mut twin = Twin::new(spec, false, 20);
                let relation = 2;
                twin.edges.relations.fill(relation);
                for side in Side::BOTH {
                    let positives = &twin.edges.sides[side as usize];
                    // The positive and another entity, of which one is listed twice.
                    let left_out: Vec<Vec<u32>> = positives
                        .iter()
                        .map(|&e| vec![e.min(2), e.max(2), e.max(2)])
                        .collect();
                    let known = &twin.edges.sides[side.other() as usize];
                    let expected: Vec<RankCounts> = (0..positives.len())
                        .map(|i| naive(&twin, side, relation, known[i], positives[i], &left_out[i]))
                        .collect();
                    for block in [1, 4, 100] {
                        let found = counts(&twin, side, relation, block, &left_out);
                        assert_eq!(
                            found, expected,
                            "{comparator:?} {operator:?} {dynamic} {side:?} {block}"
                        );
                    }
                }
            }
        }
    }
}

fn naive(
    twin: &Twin,
    side: Side,
    relation: u32,
    known: u32,
    positives: u32,
    left_out: &[u32],
) -> RankCounts {
    let model = &twin.model;
    let query = model.adjusted(side.other(), side, relation, known);
    let score =
        |entity: u32| model.compare(side, &query, &model.adjusted(side, side, relation, entity));
    let candidates = (0..model.entities(side) as u32).filter(|e| !left_out.contains(e));
    let above = candidates.filter(|&e| score(e) > score(positives)).count() as u32;
    RankCounts { above, equal: 0 }
}

/// Equal embeddings have exactly equal scores wherever they occur, so a collapsed model ranks in the middle.
#[test]
fn a_collapsed_model_ranks_everything_in_the_middle() {
    for comparator in comparators() {
        let mut twin = Twin::new(
            spec(true, true, Operator::ComplexDiagonal, comparator),
            false,
            21,
        );
        let row: Vec<f32> = (0..6).map(|i| 0.1 + 0.37 * i as f32).collect();
        twin.tables[0]
            .embeddings
            .get_mut()
            .copy_from_slice(&row.repeat(9));
        let left_out: Vec<Vec<u32>> = twin.edges.sides[0].iter().map(|&e| vec![e]).collect();
        for block in [1, 2, 5, 9] {
            for count in counts(&twin, Side::Lhs, 1, block, &left_out) {
                assert_eq!(count, RankCounts { above: 0, equal: 8 });
                assert_eq!(count.rank(), 5.0);
            }
        }
    }
}

#[test]
fn a_positive_that_is_not_a_number_ranks_last() {
    let mut twin = Twin::new(spec(true, true, Operator::None, Comparator::Dot), false, 22);
    twin.tables[0].embeddings.get_mut().fill(f32::NAN);
    let left_out: Vec<Vec<u32>> = twin.edges.sides[0].iter().map(|&e| vec![e]).collect();
    for count in counts(&twin, Side::Lhs, 0, 4, &left_out) {
        assert_eq!(count.rank(), 9.0);
    }
}

/// Nine left sides of relation 1 as queries, and seven right sides as candidates.
pub(crate) struct Block<'t> {
    pub(crate) ranker: Ranker,
    pub(crate) queries: PreparedQueries,
    pub(crate) candidates: CandidateBlock,
    pub(crate) replacement: ReplacedSide<'t>,
}

impl<'t> Block<'t> {
    pub(crate) fn of(twin: &'t Twin) -> Self {
        let mut ranker = Ranker::new(Arc::new(twin.model.spec.clone())).expect("a ranker");
        let (mut queries, mut candidates) = (PreparedQueries::default(), CandidateBlock::default());
        let replacement = ReplacedSide {
            side: Side::Rhs,
            relation: 1,
            params: &twin.params,
        };
        let known: Vec<u32> = (0..9).collect();
        ranker.queries(
            Side::Rhs,
            &known,
            BatchRelations::One(1),
            twin.table(Side::Lhs),
            &twin.params,
            &mut queries,
        );
        ranker.candidates(replacement, 0..7, twin.table(Side::Rhs), &mut candidates);
        Self {
            ranker,
            queries,
            candidates,
            replacement,
        }
    }
}

/// Scores of blocks and of single pairs have the same bits, at a dimension that is no multiple of a vector's width.
#[test]
fn scores_do_not_depend_on_where_a_pair_stands() {
    for comparator in comparators() {
        let twin = Twin::new(
            spec(false, false, Operator::Translation, comparator),
            false,
            23,
        );
        let Block {
            mut ranker,
            queries,
            candidates,
            replacement,
        } = Block::of(&twin);
        assert!(ranker.candidates_depend_on_relation(Side::Rhs, 1));
        let block = ranker.scores(&queries, 0..9, &candidates).to_vec();
        assert_eq!(block.len(), 63);
        for entity in 0..7_u32 {
            let pairs =
                ranker.pair_scores(replacement, &queries, &[entity; 9], twin.table(Side::Rhs));
            for (query, pair) in pairs.iter().enumerate() {
                assert_eq!(pair.to_bits(), block[query * 7 + entity as usize].to_bits());
            }
        }
        let later = ranker.scores(&queries, 6..8, &candidates);
        assert_eq!(later, &block[42..56]);
    }
}

#[test]
fn candidates_on_the_left_depend_on_the_relation_only_with_an_operator_of_both_sides() {
    for (operator, left) in [(householder(), false), (paired(), true)] {
        let spec = spec(false, false, operator, Comparator::Dot);
        assert_eq!(spec.candidates_depend_on_relation(Side::Lhs, 1), left);
        assert!(spec.candidates_depend_on_relation(Side::Rhs, 1));
    }
    let dynamic = spec(true, false, householder(), Comparator::Dot);
    assert!(!dynamic.candidates_depend_on_relation(Side::Lhs, 1));
}
