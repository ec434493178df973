//! Negatives of a bucket: asks the negative sampler for distributions, and keeps the tables from which batches draw.
//!
//! The counts of a partition are read from the dataset when a bucket first needs them, and kept while there is room for as
//! many partitions as the buffer has. They do not depend on when they are read or by which trainer, so every trainer and
//! every resumed run draws alike.

mod counts;
mod memory;
mod negative_set;
mod relation_entities;
mod tables;

use pbg_core::draw_table::CandidateMixture;
use pbg_core::graph::{Bucket, Side};
use pbg_core::schedule::PassId;
use pbg_core::strategy::{NegativeCandidates, NegativeSampler, RequiredData};
use pbg_dataset::EdgeSet;
use pbg_model::blueprint::Blueprint;
use pbg_model::error::RunError;
use pbg_model::resolved::ResolvedConfig;

use self::counts::EntityCounts;
use self::negative_set::{NegativeSet, negative_sets, relations_of};
use self::relation_entities::RelationEntities;
use self::tables::{DistributionAnswers, build_mixtures};

pub(crate) use self::memory::table_bytes;

/// Tables of the partitions that were trained last.
#[derive(Debug)]
pub(crate) struct NegativeTables {
    required: RequiredData,
    /// Whether the sampler requires nothing.
    uniform: bool,
    /// Entities of each relation, once they are counted.
    relation_entities: Option<RelationEntities>,
    /// The partition that was used last is the last one.
    kept: Vec<SetTables>,
}

/// Counts of a negative set, and the mixtures that follow from them.
#[derive(Debug)]
struct SetTables {
    set: NegativeSet,
    counts: EntityCounts,
    /// Relations with this entity type on this side that have uniform negatives.
    relations: Vec<u32>,
    /// Pass for which the sampler was asked last.
    pass: Option<PassId>,
    /// Fingerprint of its answers.
    answers: Option<u64>,
    /// Mixture of each relation, in the order of `relations`.
    mixtures: Vec<CandidateMixture>,
}

/// Distributions of the negatives of a bucket.
#[derive(Debug)]
pub(crate) struct BucketNegatives<'a> {
    /// Mixture of each relation, by side; `None` for a relation without uniform negatives on the side.
    mixtures: [Vec<Option<&'a CandidateMixture>>; 2],
}

impl BucketNegatives<'_> {
    /// Returns the distribution of the entities that replace `side` of `relation`.
    pub(crate) fn mixture(&self, side: Side, relation: u32) -> Option<&CandidateMixture> {
        let of_side = &self.mixtures[side as usize];
        of_side.get(relation as usize).copied().flatten()
    }

    /// Whether some draws of some relation are left out.
    pub(crate) fn leave_out(&self) -> bool {
        let mut mixtures = self.mixtures.iter().flatten().flatten();
        mixtures.any(|mixture| mixture.leaves_out())
    }
}

impl NegativeTables {
    /// Creates tables for samplers that require `required`.
    pub(crate) fn new(required: RequiredData) -> Self {
        Self {
            required,
            uniform: required.is_nothing(),
            relation_entities: None,
            kept: Vec::new(),
        }
    }

    /// Forgets all answers, because another sampler gives the next ones.
    pub(crate) fn forget_answers(&mut self) {
        for kept in &mut self.kept {
            (kept.pass, kept.answers) = (None, None);
        }
    }

    /// Asks for the distributions of a bucket's negatives, unless those of the pass are known.
    ///
    /// # Errors
    /// When the sampler fails, or edges or names cannot be read.
    pub(crate) fn ask(
        &mut self,
        sampler: &mut dyn NegativeSampler,
        resolved: &ResolvedConfig,
        edge_sets: &[EdgeSet],
        pass: PassId,
        bucket: Bucket,
    ) -> Result<(), RunError> {
        self.uniform = sampler.required().is_nothing();
        if self.uniform {
            return Ok(());
        }
        if self.relation_entities.is_none() && sampler.required().relation_entities {
            let counted = RelationEntities::count(resolved.blueprint(), edge_sets)?;
            self.relation_entities = Some(counted);
        }
        for set in negative_sets(resolved.blueprint(), bucket) {
            self.use_set(set, resolved, edge_sets)?;
            if let Some(tables) = self.kept.last_mut().filter(|kept| kept.pass != Some(pass)) {
                tables.ask(sampler, resolved, self.relation_entities.as_ref(), pass)?;
            }
        }
        Ok(())
    }

    /// Returns the distributions of the bucket that was asked about last; `None` if they are uniform.
    pub(crate) fn of_bucket(
        &self,
        blueprint: &Blueprint,
        bucket: Bucket,
    ) -> Option<BucketNegatives<'_>> {
        if self.uniform {
            return None;
        }
        let sets = negative_sets(blueprint, bucket);
        let relations = blueprint.relation_names.len();
        let mut mixtures = [vec![None; relations], vec![None; relations]];
        for kept in self.kept.iter().filter(|kept| sets.contains(&kept.set)) {
            let of_side = &mut mixtures[kept.set.side as usize];
            for (&relation, mixture) in kept.relations.iter().zip(&kept.mixtures) {
                of_side[relation as usize] = Some(mixture);
            }
        }
        Some(BucketNegatives { mixtures })
    }

    /// Makes the tables of `set` the last ones, after counting its edges unless they are kept.
    fn use_set(
        &mut self,
        set: NegativeSet,
        resolved: &ResolvedConfig,
        edge_sets: &[EdgeSet],
    ) -> Result<(), RunError> {
        if let Some(at) = self.kept.iter().position(|kept| kept.set == set) {
            let kept = self.kept.remove(at);
            self.kept.push(kept);
            return Ok(());
        }
        let alike = |kept: &SetTables| kept.set.entity == set.entity && kept.set.side == set.side;
        let room = resolved.config().buffer_partitions as usize;
        if self.kept.iter().filter(|kept| alike(kept)).count() >= room
            && let Some(oldest) = self.kept.iter().position(alike)
        {
            self.kept.remove(oldest);
        }
        let blueprint = resolved.blueprint();
        self.kept.push(SetTables {
            set,
            counts: EntityCounts::read(self.required, set, blueprint, edge_sets)?,
            relations: relations_of(blueprint, set.entity, set.side),
            pass: None,
            answers: None,
            mixtures: Vec::new(),
        });
        Ok(())
    }
}

impl SetTables {
    /// Asks the sampler for the distributions of `pass`, and builds the tables again if they have changed.
    fn ask(
        &mut self,
        sampler: &mut dyn NegativeSampler,
        resolved: &ResolvedConfig,
        relation_entities: Option<&RelationEntities>,
        pass: PassId,
    ) -> Result<(), RunError> {
        let blueprint = resolved.blueprint();
        let entity_type = &blueprint.layout.types[self.set.entity];
        let mut answers = DistributionAnswers::default();
        // Counts may have been read for the fallback alone, which a resumed run may lack.
        let is_counted = sampler.required().relation_counts;
        let relation_entities = relation_entities.filter(|_| sampler.required().relation_entities);
        for &relation in &self.relations {
            let counted = is_counted.then(|| self.counts.of_relation(relation));
            let (edges, seen) = counted.unwrap_or_default();
            let of_side = |side| relation_entities.map_or(0, |all| all.of(relation, side));
            let candidates = NegativeCandidates {
                relation,
                relation_name: blueprint.relation_names[relation as usize].clone(),
                side: self.set.side,
                entity_type: entity_type.name.clone(),
                partition: self.set.partition,
                entities: self.counts.entities,
                edges,
                seen,
                replaced_entities: of_side(self.set.side),
                kept_entities: of_side(self.set.side.other()),
                pass,
            };
            let parts = sampler.distribution(&candidates)?;
            answers
                .add(parts)
                .map_err(|broken| fault(sampler, broken))?;
        }
        let fingerprint = answers.fingerprint();
        if self.answers != Some(fingerprint) {
            self.mixtures = Vec::new();
            let offsets =
                answers.offsets(resolved.dataset(), &entity_type.name, self.set.partition)?;
            let offsets = offsets.map_err(|broken| fault(sampler, broken))?;
            self.mixtures = build_mixtures(&answers, &offsets, &self.counts, &self.relations);
            self.answers = Some(fingerprint);
        }
        self.pass = Some(pass);
        Ok(())
    }
}

/// Returns the error that `sampler` has returned an invalid distribution.
fn fault(sampler: &dyn NegativeSampler, reason: String) -> RunError {
    pbg_core::strategy::StrategyError {
        strategy: sampler.id().clone(),
        function: "distribution",
        reason: reason.into(),
        cause: pbg_core::strategy::FaultCause::Strategy,
    }
    .into()
}
