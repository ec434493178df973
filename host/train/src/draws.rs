//! Batches of one relation: the sampler says of which relation, the host that every edge of the
//! share is taken exactly once.

use std::ops::Range;

use pbg_core::batching::ByRelation;
use pbg_core::draws::Ledger;
use pbg_core::strategy::{Draw, RelationSampler, SamplerFactory};

use crate::error::RunError;

/// One worker's walk over its share of a bucket.
pub(crate) struct Drawing<'a> {
    factory: &'a dyn SamplerFactory,
    sampler: Box<dyn RelationSampler>,
    ledger: Ledger,
    groups: ByRelation,
    /// Where the edges of each relation that are left start in `groups.order`.
    next: Vec<u32>,
}

impl<'a> Drawing<'a> {
    /// Begins to draw `groups` in batches of at most `batch_size`.
    ///
    /// # Errors
    /// When the sampler fails.
    pub(crate) fn new(
        factory: &'a dyn SamplerFactory,
        groups: ByRelation,
        batch_size: u32,
        seed: u64,
    ) -> Result<Self, RunError> {
        let counts = groups.counts();
        Ok(Self {
            factory,
            sampler: factory.create(&counts, batch_size, seed)?,
            ledger: Ledger::new(&counts, batch_size),
            next: groups.starts.clone(),
            groups,
        })
    }

    /// The next batch, a relation and where its edges are in [`Drawing::edges`]; `None` once
    /// every edge was drawn.
    ///
    /// # Errors
    /// When the sampler fails or breaks its promise.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Range<usize>)>, RunError> {
        let draw = self.sampler.next()?;
        self.ledger.take(draw).map_err(|source| RunError::Sampler {
            strategy: self.factory.id().clone(),
            source,
        })?;
        Ok(draw.map(|Draw { relation, edges }| {
            let next = &mut self.next[relation as usize];
            let start = *next as usize;
            *next += edges;
            (relation, start..*next as usize)
        }))
    }

    /// The share's edges, grouped by relation.
    pub(crate) fn edges(&self, range: Range<usize>) -> &[u32] {
        &self.groups.order[range]
    }

    /// Tells the sampler the mean loss of the batch that was drawn last.
    ///
    /// # Errors
    /// When the sampler fails.
    pub(crate) fn observe(&mut self, relation: u32, mean_loss: f32) -> Result<(), RunError> {
        Ok(self.sampler.observe(relation, mean_loss)?)
    }
}

#[cfg(test)]
mod tests {
    use pbg_core::strategy::{StrategyError, StrategyId};

    use super::*;

    /// Answers what it is told to.
    struct Scripted {
        id: StrategyId,
        answers: Vec<Option<Draw>>,
    }

    struct Walk(std::vec::IntoIter<Option<Draw>>);

    impl SamplerFactory for Scripted {
        fn id(&self) -> &StrategyId {
            &self.id
        }

        fn create(
            &self,
            _counts: &[u64],
            _batch_size: u32,
            _seed: u64,
        ) -> Result<Box<dyn RelationSampler>, StrategyError> {
            Ok(Box::new(Walk(self.answers.clone().into_iter())))
        }
    }

    impl RelationSampler for Walk {
        fn next(&mut self) -> Result<Option<Draw>, StrategyError> {
            Ok(self.0.next().flatten())
        }

        fn observe(&mut self, _relation: u32, _mean_loss: f32) -> Result<(), StrategyError> {
            Ok(())
        }
    }

    /// Draws edges 0 to 4, of relations 1, 0, 1, 1, 0.
    fn draw(answers: &[(u32, u32)]) -> Result<Vec<(u32, Vec<u32>)>, String> {
        let answers = answers
            .iter()
            .map(|&(relation, edges)| Some(Draw { relation, edges }));
        let sampler = Scripted {
            id: StrategyId {
                name: "scripted".to_owned(),
                version: "1".to_owned(),
                sha256: String::new(),
            },
            answers: answers.collect(),
        };
        let groups = ByRelation::new(&[0, 1, 2, 3, 4], &[1, 0, 1, 1, 0], 2);
        let mut drawing = Drawing::new(&sampler, groups, 2, 0).map_err(|e| e.to_string())?;
        let mut batches = Vec::new();
        while let Some((relation, range)) = drawing.next().map_err(|e| e.to_string())? {
            batches.push((relation, drawing.edges(range).to_vec()));
        }
        Ok(batches)
    }

    #[test]
    fn every_edge_is_in_one_batch() {
        let batches = draw(&[(1, 2), (0, 1), (1, 1), (0, 1)]).unwrap();
        assert_eq!(
            batches,
            [(1, vec![0, 2]), (0, vec![1]), (1, vec![3]), (0, vec![4])]
        );
    }

    #[test]
    fn no_edge_is_skipped_or_repeated_unnoticed() {
        let early = draw(&[(1, 2), (0, 2)]).unwrap_err();
        assert!(early.starts_with("plugin scripted 1: next: it ended with 1 edges left"));
        let twice = draw(&[(0, 2), (0, 1)]).unwrap_err();
        assert!(twice.contains("1 edges of relation 0, which has 0 left"));
        let large = draw(&[(1, 3)]).unwrap_err();
        assert!(large.contains("a batch takes at most 2"), "{large}");
    }
}
