//! Entities as points of a space in which entities with high scores are near.

use pbg_core::model::Comparator;
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::Table;
use pbg_rows::vector;

use super::{Ranker, ReplacedSide};
use crate::score_function::ScoreFunction;
use crate::subnormal::SubnormalMode;

/// A mapping of a partition's entities to points such that the points nearest to a query, by the Euclidean distance,
/// are those with the highest scores. With a bias and a distance this holds only approximately, since the bias is left
/// out.
///
/// Inner products become distances by an additional coordinate, which makes all points as long as the longest one (Y.
/// Bachrach et al. 2014, Speeding up the Xbox recommender system using a Euclidean transformation for inner-product
/// spaces).
#[derive(Clone, Copy, Debug)]
pub struct PointSpace {
    dimension: usize,
    /// Whether the bias is a coordinate, at its original place in front.
    bias: bool,
    /// Whether there is an additional coordinate, which makes all points equally long.
    lengthened: bool,
}

impl PointSpace {
    /// Creates the mapping for embeddings of `dimension` numbers.
    #[must_use]
    pub fn of(spec: &ModelSpec, dimension: usize) -> Self {
        let comparison = ScoreFunction::of(spec);
        let inner = !comparison.is_distance();
        Self {
            dimension,
            bias: inner && comparison.bias,
            // Normalised rows are equally long already.
            lengthened: inner && (comparison.bias || comparison.comparator == Comparator::Dot),
        }
    }

    /// Returns the number of coordinates of a point.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.dimension + self.lengthened as usize
    }

    /// Sets the additional coordinate, so that all points are as long as the longest of them.
    fn lengthen(&self, points: &mut [f32]) {
        if !self.lengthened {
            return;
        }
        let mut longest = 0.0_f32;
        for point in points.chunks_exact_mut(self.width()) {
            let (row, rest) = point.split_at_mut(self.dimension);
            rest[0] = vector::dot(row, row);
            longest = longest.max(rest[0]);
        }
        for point in points.chunks_exact_mut(self.width()) {
            let rest = &mut point[self.dimension];
            *rest = (longest - *rest).max(0.0).sqrt();
        }
    }
}

impl Ranker {
    /// Returns all entities of `table` as points of `space`, `[entities, width]`.
    ///
    /// # Panics
    /// If the relation does not exist, or the dimension of the space differs.
    #[must_use]
    pub fn points(
        &mut self,
        replacement: ReplacedSide<'_>,
        space: PointSpace,
        table: &Table,
    ) -> Vec<f32> {
        let _mode = SubnormalMode::flushing();
        let width = space.width();
        let mut points = vec![0.0; table.entities() * width];
        let mut extras = Vec::new();
        for (entity, point) in (0..).zip(points.chunks_exact_mut(width)) {
            let row = &mut point[..space.dimension];
            let entity = std::iter::once(entity);
            self.preparer
                .prepare_candidates(replacement, entity, table, row, &mut extras);
            if space.bias {
                row[0] = extras[0].bias;
            }
        }
        space.lengthen(&mut points);
        points
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pbg_core::graph::Side;
    use pbg_core::model::{Operator, Regularizer};
    use proptest::prelude::*;

    use super::*;
    use crate::rank::{CandidateBlock, PreparedQueries};
    use crate::step::BatchRelations;
    use pbg_rows::params::Params;
    use pbg_rows::spec::{EntitySpec, RelationSpec};

    fn spec(comparator: Comparator, bias: bool) -> ModelSpec {
        let relation = RelationSpec {
            lhs: 0,
            rhs: 0,
            operator: Operator::None,
            weight: 1.0,
            all_negs: false,
        };
        let entity = EntitySpec {
            name: "e".to_owned(),
            dimension: 4,
            featurized: false,
            frozen: false,
        };
        ModelSpec {
            entities: vec![entity],
            relations: vec![relation],
            dynamic_relations: None,
            comparator,
            bias,
            global_emb: false,
            max_norm: None,
            operator_init_scale: None,
            regularizer: Regularizer::N3,
            regularization_coef: 0.0,
            relation_prediction: 0.0,
            lr: 0.1,
            relation_lr: 0.1,
            num_batch_negs: 1,
            num_uniform_negs: 0,
            chunk_size: None,
            disable_lhs_negs: false,
            disable_rhs_negs: false,
        }
    }

    proptest! {
        /// An entity with a higher score is nearer to the query, whose bias is 1 and whose additional coordinate is 0.
        #[test]
        fn who_scores_higher_is_nearer(
            rows in prop::collection::vec(-2.0_f32..2.0, 4 * 12),
            comparator in prop::sample::select(vec![Comparator::Dot, Comparator::Cos, Comparator::L2, Comparator::SquaredL2]),
            bias: bool,
        ) {
            let spec = spec(comparator, bias && !matches!(comparator, Comparator::L2 | Comparator::SquaredL2));
            let params = &Params::new(&spec, 0);
            let space = PointSpace::of(&spec, 4);
            let table = Table::new(rows, 4);
            let mut ranker = Ranker::new(Arc::new(spec.clone())).unwrap();
            let replacement = ReplacedSide { side: Side::Lhs, relation: 0, params };
            let points = ranker.points(replacement, space, &table);
            let points: Vec<&[f32]> = points.chunks_exact(space.width()).collect();
            let (mut query, mut block) = (PreparedQueries::default(), CandidateBlock::default());
            ranker.queries(Side::Lhs, &[0], BatchRelations::One(0), &table, params, &mut query);
            ranker.candidates(replacement, 0..12, &table, &mut block);
            let scores = ranker.scores(&query, 0..1, &block).to_vec();
            let mut asked = points[0].to_vec();
            if space.lengthened {
                asked[4] = 0.0;
            }
            if space.bias {
                asked[0] = 1.0;
            }
            let distance = |i: usize| vector::squared_distance(&asked, points[i]);
            for i in 0..12 {
                for j in 0..12 {
                    if scores[i] > scores[j] + 1e-3 {
                        prop_assert!(distance(i) < distance(j) + 1e-3, "{i} {j}");
                    }
                }
            }
        }
    }
}
