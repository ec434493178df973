//! Batches of one relation each: the sampler chooses the relation, and the host ensures that every edge of the share is
//! drawn exactly once.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use pbg_core::batching::ByRelation;
use pbg_core::draws::{DrawError, UndrawnEdges};
use pbg_core::lock::lock;
use pbg_core::strategy::{
    FaultCause, RelationDraw, RelationSampler, SamplerFactory, StrategyError,
};
use pbg_model::error::RunError;
use pbg_model::resume_point::TrainedBatch;

/// Relation sampler of a bucket, with its fallback.
pub struct Samplers<'a> {
    /// The configured sampler.
    pub sampler: &'a dyn SamplerFactory,
    /// Its fallback. Without one, a failure of the sampler is an error.
    pub standard: Option<&'a dyn SamplerFactory>,
    /// Failures of the sampler so far.
    pub faults: Mutex<Vec<StrategyError>>,
}

/// Draws of one worker from its share of a bucket.
pub(crate) struct RelationDraws<'a> {
    samplers: &'a Samplers<'a>,
    sampler: Box<dyn RelationSampler>,
    /// Whether `sampler` is the fallback, after a failure of the configured one.
    fallen_back: bool,
    ledger: UndrawnEdges,
    batch_size: u32,
    seed: u64,
    groups: ByRelation,
    /// Index in `groups.order` of the first edge of each relation that is not drawn yet.
    next: Vec<u32>,
}

impl<'a> RelationDraws<'a> {
    /// Starts to draw `groups` in batches of at most `batch_size` edges.
    ///
    /// # Errors
    /// When the sampler fails and has no fallback.
    pub(crate) fn new(
        samplers: &'a Samplers<'a>,
        groups: ByRelation,
        batch_size: u32,
        seed: u64,
    ) -> Result<Self, RunError> {
        let counts = groups.counts();
        let created = samplers.sampler.create(&counts, batch_size, seed);
        let (sampler, fallen_back) = match created {
            Ok(sampler) => (sampler, false),
            Err(fault) => {
                let standard = samplers.replace(fault)?;
                (standard.create(&counts, batch_size, seed)?, true)
            }
        };
        Ok(Self {
            samplers,
            sampler,
            fallen_back,
            ledger: UndrawnEdges::new(&counts, batch_size),
            batch_size,
            seed,
            next: groups.starts.clone(),
            groups,
        })
    }

    /// Returns the account of the edges that remain after batches that are trained already.
    ///
    /// # Errors
    /// When the share has fewer edges of their relations.
    pub(crate) fn remaining_after(
        &self,
        trained: &[TrainedBatch],
    ) -> Result<UndrawnEdges, DrawError> {
        let mut left = UndrawnEdges::new(&self.groups.counts(), self.batch_size);
        let mut draws = trained.iter().map(|drawn| drawn.draw);
        draws.try_for_each(|draw| left.take(Some(draw)))?;
        Ok(left)
    }

    /// Advances the sampler past batches that are trained already, which leave `left`: it draws them again and observes
    /// their losses again. If it draws other batches, because it is another sampler or the graph has grown, it is
    /// created anew for the remaining edges.
    ///
    /// # Errors
    /// When the sampler fails and has no fallback.
    pub(crate) fn resume_after(
        &mut self,
        trained: &[TrainedBatch],
        left: UndrawnEdges,
    ) -> Result<(), RunError> {
        for &TrainedBatch { draw, loss } in trained {
            let again = self.next()?;
            let again = again.map(|(relation, range)| (relation, range.len()));
            if again != Some((draw.relation, draw.edges as usize)) {
                return self.begin_behind(trained, left);
            }
            self.observe(draw.relation, loss)?;
        }
        Ok(())
    }

    fn begin_behind(
        &mut self,
        trained: &[TrainedBatch],
        left: UndrawnEdges,
    ) -> Result<(), RunError> {
        self.ledger = left;
        self.next.clone_from(&self.groups.starts);
        for TrainedBatch { draw, .. } in trained {
            self.next[draw.relation as usize] += draw.edges;
        }
        let standard = self.samplers.standard.filter(|_| self.fallen_back);
        let factory = standard.unwrap_or(self.samplers.sampler);
        match factory.create(self.ledger.left(), self.batch_size, self.seed) {
            Ok(sampler) => self.sampler = sampler,
            Err(fault) => self.fall_back(fault)?,
        }
        Ok(())
    }

    /// Returns the next batch: a relation, and the range of its edges in [`RelationDraws::edges`]. Returns `None` once every
    /// edge was drawn.
    ///
    /// # Errors
    /// When the sampler fails or violates its contract, and has no fallback.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Range<usize>)>, RunError> {
        let draw = match self.draw() {
            Ok(draw) => draw,
            Err(fault) => {
                self.fall_back(fault)?;
                self.draw()?
            }
        };
        Ok(draw.map(|RelationDraw { relation, edges }| {
            let next = &mut self.next[relation as usize];
            let start = *next as usize;
            *next += edges;
            (relation, start..*next as usize)
        }))
    }

    fn draw(&mut self) -> Result<Option<RelationDraw>, StrategyError> {
        let draw = self.sampler.next()?;
        match self.ledger.take(draw) {
            Ok(()) => Ok(draw),
            Err(broken) => Err(StrategyError {
                strategy: self.samplers.sampler.id().clone(),
                function: "next",
                reason: broken.to_string().into(),
                cause: FaultCause::Strategy,
            }),
        }
    }

    /// Replaces the sampler by its fallback, for the remaining edges.
    fn fall_back(&mut self, fault: StrategyError) -> Result<(), RunError> {
        if self.fallen_back {
            return Err(fault.into());
        }
        let standard = self.samplers.replace(fault)?;
        self.sampler = standard.create(self.ledger.left(), self.batch_size, self.seed)?;
        self.fallen_back = true;
        Ok(())
    }

    /// Returns edges of the share, which are grouped by relation.
    pub(crate) fn edges(&self, range: Range<usize>) -> &[u32] {
        &self.groups.order[range]
    }

    /// Passes the mean loss of the last batch to the sampler.
    ///
    /// # Errors
    /// When the sampler fails.
    pub(crate) fn observe(&mut self, relation: u32, mean_loss: f32) -> Result<(), RunError> {
        match self.sampler.observe(relation, mean_loss) {
            Ok(()) => Ok(()),
            Err(fault) => self.fall_back(fault),
        }
    }
}

impl<'a> Samplers<'a> {
    /// Returns the failures of the sampler.
    pub(crate) fn into_faults(self) -> Vec<StrategyError> {
        let faults = self.faults.into_inner();
        faults.unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a failure and returns the fallback.
    fn replace(&self, fault: StrategyError) -> Result<&'a dyn SamplerFactory, RunError> {
        let own = fault.cause == FaultCause::Strategy;
        let Some(standard) = self.standard.filter(|_| own) else {
            return Err(fault.into());
        };
        lock(&self.faults).push(fault);
        Ok(standard)
    }
}

#[cfg(test)]
mod tests {
    use pbg_core::strategy::StrategyId;

    use super::*;

    /// Sampler that gives fixed answers.
    struct Scripted {
        id: StrategyId,
        answers: Vec<Option<RelationDraw>>,
    }

    struct Answering(std::vec::IntoIter<Option<RelationDraw>>);

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
            Ok(Box::new(Answering(self.answers.clone().into_iter())))
        }
    }

    impl RelationSampler for Answering {
        fn next(&mut self) -> Result<Option<RelationDraw>, StrategyError> {
            Ok(self.0.next().flatten())
        }

        fn observe(&mut self, _relation: u32, _mean_loss: f32) -> Result<(), StrategyError> {
            Ok(())
        }
    }

    fn scripted(name: &str, answers: &[(u32, u32)]) -> Scripted {
        let answers = answers
            .iter()
            .map(|&(relation, edges)| Some(RelationDraw { relation, edges }));
        Scripted {
            id: StrategyId {
                name: name.to_owned(),
                version: "1".to_owned(),
                sha256: String::new(),
            },
            answers: answers.collect(),
        }
    }

    /// Draws edges 0 to 4, of relations 1, 0, 1, 1 and 0, in batches of at most 2.
    fn draw(samplers: &Samplers<'_>) -> Result<Vec<(u32, Vec<u32>)>, String> {
        let groups = ByRelation::new(&[0, 1, 2, 3, 4], &[1, 0, 1, 1, 0], 2);
        let mut drawing = RelationDraws::new(samplers, groups, 2, 0).map_err(|e| e.to_string())?;
        let mut batches = Vec::new();
        while let Some((relation, range)) = drawing.next().map_err(|e| e.to_string())? {
            batches.push((relation, drawing.edges(range).to_vec()));
            drawing.observe(relation, 0.5).map_err(|e| e.to_string())?;
        }
        Ok(batches)
    }

    fn draw_alone(answers: &[(u32, u32)]) -> Result<Vec<(u32, Vec<u32>)>, String> {
        draw(&Samplers {
            sampler: &scripted("scripted", answers),
            standard: None,
            faults: Mutex::default(),
        })
    }

    #[test]
    fn every_edge_is_in_one_batch() {
        let batches = draw_alone(&[(1, 2), (0, 1), (1, 1), (0, 1)]).unwrap();
        assert_eq!(
            batches,
            [(1, vec![0, 2]), (0, vec![1]), (1, vec![3]), (0, vec![4])]
        );
    }

    #[test]
    fn no_edge_is_skipped_or_repeated_unnoticed() {
        let early = draw_alone(&[(1, 2), (0, 2)]).unwrap_err();
        assert!(early.starts_with("plugin scripted 1: next: it ended with 1 edges left"));
        let twice = draw_alone(&[(0, 2), (0, 1)]).unwrap_err();
        assert!(twice.contains("1 edges of relation 0, which has 0 left"));
        let large = draw_alone(&[(1, 3)]).unwrap_err();
        assert!(large.contains("a batch has at most 2"), "{large}");
    }

    /// Draws as [`draw`] does, after batches that are trained already.
    fn draw_behind(
        answers: &[(u32, u32)],
        trained: &[(u32, u32)],
    ) -> Result<Vec<(u32, Vec<u32>)>, String> {
        let samplers = Samplers {
            sampler: &scripted("scripted", answers),
            standard: None,
            faults: Mutex::default(),
        };
        let drawn = |&(relation, edges)| TrainedBatch {
            draw: RelationDraw { relation, edges },
            loss: 0.5,
        };
        let trained: Vec<TrainedBatch> = trained.iter().map(drawn).collect();
        let groups = ByRelation::new(&[0, 1, 2, 3, 4], &[1, 0, 1, 1, 0], 2);
        let mut drawing = RelationDraws::new(&samplers, groups, 2, 0).map_err(|e| e.to_string())?;
        let left = drawing
            .remaining_after(&trained)
            .map_err(|e| e.to_string())?;
        drawing
            .resume_after(&trained, left)
            .map_err(|e| e.to_string())?;
        let mut batches = Vec::new();
        while let Some((relation, range)) = drawing.next().map_err(|e| e.to_string())? {
            batches.push((relation, drawing.edges(range).to_vec()));
        }
        Ok(batches)
    }

    #[test]
    fn what_was_trained_is_not_drawn_again() {
        let answers = [(1, 2), (0, 1), (1, 1), (0, 1)];
        let all = draw_alone(&answers).unwrap();
        for trained in 0..=answers.len() {
            let behind = draw_behind(&answers, &answers[..trained]);
            assert_eq!(behind.unwrap(), all[trained..]);
        }
    }

    #[test]
    fn another_sampler_begins_with_what_is_left() {
        let behind = draw_behind(&[(0, 2), (1, 1)], &[(1, 2)]).unwrap();
        assert_eq!(behind, [(0, vec![1, 4]), (1, vec![3])]);
        // The samplers differ only after the first batch.
        let behind = draw_behind(&[(1, 1), (0, 1)], &[(1, 1), (1, 1), (0, 1)]).unwrap();
        assert_eq!(behind, [(1, vec![3]), (0, vec![4])]);
        let more = draw_behind(&[(1, 2)], &[(1, 2), (1, 2)]).unwrap_err();
        assert!(more.contains("relation 1, which has 1 left"), "{more}");
    }

    #[test]
    fn the_standard_sampler_goes_on_from_the_same_point() {
        let samplers = Samplers {
            sampler: &scripted("evil", &[(1, 2), (7, 1)]),
            standard: Some(&scripted("good", &[(0, 2), (1, 1)])),
            faults: Mutex::default(),
        };
        let batches = draw(&samplers).unwrap();
        assert_eq!(batches, [(1, vec![0, 2]), (0, vec![1, 4]), (1, vec![3])]);
        let faults = samplers.faults.into_inner().unwrap();
        assert_eq!(faults.len(), 1);
        assert!(
            faults[0]
                .to_string()
                .starts_with("plugin evil 1: next: it drew relation 7")
        );
    }

    #[test]
    fn a_standard_sampler_that_fails_too_is_the_end() {
        let error = draw(&Samplers {
            sampler: &scripted("evil", &[(7, 1)]),
            standard: Some(&scripted("good", &[(8, 1)])),
            faults: Mutex::default(),
        })
        .unwrap_err();
        assert!(error.contains("it drew relation 8"), "{error}");
    }
}
