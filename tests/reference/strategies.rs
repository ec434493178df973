//! Strategies without a plugin, for tests and measurements that need some order and sampler, whichever they are.

use pbg_core::graph::Bucket;
use pbg_core::strategy::{
    BucketOrder, Pass, RelationDraw, RelationSampler, SamplerFactory, StrategyError, StrategyId,
};

/// Returns the id of a strategy of version 1 that is no plugin.
pub fn id(name: &str) -> StrategyId {
    StrategyId {
        name: name.to_owned(),
        version: "1".to_owned(),
        sha256: String::new(),
    }
}

/// Returns the bucket order in the sequence of the grid.
pub fn row_by_row() -> Box<dyn BucketOrder> {
    Box::new(RowByRow(id("row-by-row")))
}

/// Returns a relation sampler that draws all edges of the first relation, then those of the next.
pub fn first_relation() -> Box<dyn SamplerFactory> {
    Box::new(FirstRelation(id("first-relation")))
}

struct RowByRow(StrategyId);

impl BucketOrder for RowByRow {
    fn id(&self) -> &StrategyId {
        &self.0
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>, StrategyError> {
        let row = |lhs| (0..pass.rhs_partitions).map(move |rhs| Bucket::new(lhs, rhs));
        Ok((0..pass.lhs_partitions).flat_map(row).collect())
    }

    fn pick(&mut self, _: &Pass, _: &[Bucket], _: &[Bucket]) -> Result<usize, StrategyError> {
        Ok(0)
    }
}

struct FirstRelation(StrategyId);

impl SamplerFactory for FirstRelation {
    fn id(&self) -> &StrategyId {
        &self.0
    }

    fn create(
        &self,
        counts: &[u64],
        batch_size: u32,
        _: u64,
    ) -> Result<Box<dyn RelationSampler>, StrategyError> {
        let mut draws = Vec::new();
        for (relation, &count) in (0..).zip(counts) {
            for at in (0..count).step_by(batch_size as usize) {
                draws.push(RelationDraw {
                    relation,
                    edges: (count - at).min(u64::from(batch_size)) as u32,
                });
            }
        }
        Ok(Box::new(Draws(draws.into_iter())))
    }
}

struct Draws(std::vec::IntoIter<RelationDraw>);

impl RelationSampler for Draws {
    fn next(&mut self) -> Result<Option<RelationDraw>, StrategyError> {
        Ok(self.0.next())
    }

    fn observe(&mut self, _: u32, _: f32) -> Result<(), StrategyError> {
        Ok(())
    }
}
