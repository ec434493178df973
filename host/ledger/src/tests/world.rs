//! The parts of a model: a register, files, manifests, and the state of the trainers.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use pbg_core::graph::Bucket;
use pbg_core::schedule::RunExtent;

use super::super::*;

/// Buckets that were trained into a file or a table: one bit per pass and bucket.
pub(super) type Content = u128;

/// A file: the index of its partition and its name.
pub(super) type Name = (usize, FileId);

/// How often each fault may happen, which bounds the number of states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Ends of a trainer's process, which starts again without its memory.
    pub(super) crashes: u8,
    /// Revocations of a live trainer, which paused or was not heard by others.
    pub(super) evictions: u8,
    /// Replies that are lost after their transaction was applied.
    pub(super) lost: u8,
    /// Transactions that arrive late, or not at all, after their trainer stopped waiting for the reply.
    pub(super) late: u8,
    /// Transactions that arrive once more after they were answered.
    pub(super) doubled: u8,
    /// Losses of any number of the register's last writes.
    pub(super) set_back: u8,
    /// Losses of the register's entire content.
    pub(super) wiped: u8,
    /// Buckets that are given back.
    pub(super) given_up: u8,
    /// Trainers that leave.
    pub(super) left: u8,
    /// Checkpoints that begin. They are not faults, but cost as many states.
    pub(super) checkpoints: u8,
    /// Pauses of a trainer between a decision and its transaction, while anything else happens.
    pub(super) paused: u8,
}

/// Deliberate mistake of a ledger, which the invariants must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    /// A transaction is applied although its token is not in the record.
    NoFencing,
    /// One partition of a bucket gets its new file, the other one keeps its old file.
    HalfSettled,
    /// A bucket is leased even if others hold its partitions.
    NobodyHolds,
    /// A revoked trainer's buckets stay leased.
    LeasesStay,
    /// A pass ends before all of its buckets are done.
    EarlyAdvance,
    /// Neither the last known transaction nor the version that a file was trained from is compared.
    NothingCompared,
    /// A manifest contains the run's position at the time when it is written, but the files of its cut.
    MixedManifest,
    /// Files are removed as soon as the record does not name them.
    EagerCollection,
    /// A record is used without a comparison with the newest manifest.
    AnyRecordStands,
    /// A checkpoint begins without a comparison with the newest manifest.
    CheckpointOfAnyRecord,
    /// The ranks of a block are added without a check of its lease, and any number of times.
    RankedUnasked,
    /// Any checkpoint may be ranked.
    AnyCheckpointRanked,
    /// A ranking ends before every block is ranked.
    EarlyConclusion,
    /// A bucket is leased in the run's current pass, not in the pass that the transaction names.
    LeaseOfAnyPass,
}

/// Parameters of a model.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) grid: Grid,
    pub(super) trainers: usize,
    /// Passes of the run, as edge chunks of one epoch.
    pub(super) passes: u32,
    pub(super) tree_init: bool,
    /// Whether the next bucket is leased before the current one is trained.
    pub(super) ahead: bool,
    pub(super) budget: Budget,
    /// Whether files are collected. Names must then keep their writers, which increases the number of states.
    pub(super) collects: bool,
    /// Whether a trainer that is no longer in any record finds that out at once, instead of at any later moment.
    pub(super) wakes_at_once: bool,
    pub(super) mistake: Option<Mistake>,
    /// Blocks ranked after the epoch; 0 if the run does not validate.
    pub(super) blocks: u32,
}

/// A delayed write to the register.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Flight {
    pub(super) from: Arc<LedgerRecord>,
    pub(super) to: Arc<LedgerRecord>,
    /// Whether the register has been restored since, so that its sequence numbers may be used again.
    pub(super) fell_back: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Manifest {
    pub(super) cut: CheckpointCut,
    pub(super) work: TrainedState,
    /// Work in the register at the cut.
    pub(super) truth: TrainedState,
}

/// A checkpoint that a trainer is writing.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Writing {
    pub(super) cut: CheckpointCut,
    /// Record that the checkpoint began with.
    pub(super) record: Arc<LedgerRecord>,
    /// Files that existed before.
    pub(super) listed: Vec<Name>,
    /// Manifest that it follows.
    pub(super) before: Option<CheckpointCut>,
    pub(super) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Begun,
    Written,
    Committed,
}

/// A partition in a trainer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Table {
    pub(super) stamp: CopyVersion,
    pub(super) content: Content,
}

/// Thread of a trainer. Each makes one decision, and carries it out before the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Thread {
    Training,
    Storage,
    Watch,
}

/// Decision whose transaction is still to be sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decision {
    /// Thread that has made it.
    pub(super) thread: Thread,
    pub(super) action: LedgerAction,
    /// Files that existed then, for a checkpoint.
    pub(super) listed: Vec<Name>,
}

/// A trainer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Member {
    /// Token; none before it joins.
    pub(super) token: Option<Token>,
    /// Number of the last transaction that it knows to be applied.
    pub(super) after: u64,
    /// Last number that it has used.
    pub(super) number: u64,
    /// Transaction whose reply it is waiting for.
    pub(super) waiting: Option<(u64, LedgerAction)>,
    /// Transaction believed lost, which may still arrive.
    pub(super) missed: Option<(u64, LedgerAction)>,
    /// Decision of one of its threads that is not sent yet.
    pub(super) decided: Option<Decision>,
    pub(super) leases: Vec<Bucket>,
    /// Block of a ranking leased to it.
    pub(super) block: Option<u32>,
    /// Pass that the trainer believes its leases to belong to, as an edge chunk.
    pub(super) pass: u32,
    pub(super) tables: BTreeMap<usize, Table>,
    /// Trained and written, but not settled.
    pub(super) trained: Option<Settlement>,
    /// Number of files that it has named.
    pub(super) files: u64,
    /// Checkpoint that it requested last, before it knows whether the checkpoint has begun.
    pub(super) cutting: Option<Writing>,
    pub(super) writing: Option<Writing>,
}

/// State of a model.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct World {
    pub(super) register: Option<Arc<LedgerRecord>>,
    /// Record that the register will be restored to.
    pub(super) old: Option<Arc<LedgerRecord>>,
    pub(super) flight: Option<Flight>,
    pub(super) disk: BTreeMap<Name, Content>,
    /// The newest two, the older one first.
    pub(super) manifests: Vec<Manifest>,
    pub(super) members: Vec<Member>,
    pub(super) budget: Budget,
    /// Invariant that a step broke.
    pub(super) broken: Option<&'static str>,
}

impl Model {
    /// Creates a model of `lhs` x `rhs` partitions: of the same entity type on both sides if `shared`, or else of one
    /// type on each side.
    pub(super) fn new(lhs: u32, rhs: u32, shared: bool, trainers: usize, budget: Budget) -> Self {
        let side = |name: &str| vec![name.to_owned()];
        let tables = match shared {
            true => [side("e"), Vec::new()],
            false => [side("l"), side("r")],
        };
        let grid = Grid {
            lhs,
            rhs,
            shared,
            tables,
        };
        Self {
            grid,
            trainers,
            passes: 1,
            tree_init: false,
            ahead: false,
            budget,
            collects: false,
            wakes_at_once: false,
            mistake: None,
            blocks: 0,
        }
    }

    pub(super) fn terms(&self) -> RunTerms {
        let terms = RunTerms::of_one_pass(self.grid.clone());
        RunTerms {
            extent: RunExtent {
                edge_chunks: self.passes,
                ..terms.extent
            },
            tree_init: self.tree_init,
            validation: (self.blocks > 0).then(super::rankings::validation),
            ..terms
        }
    }

    /// Returns a request to join `record`, which was compared with its own newest checkpoint.
    pub(super) fn join(&self, record: &LedgerRecord, instead_of: Option<Token>) -> LedgerAction {
        LedgerAction::Join(Box::new(Join {
            terms: self.terms(),
            name: String::new(),
            rank: None,
            instead_of,
            incarnation: record.incarnation,
            newest: record.checkpoints.base,
        }))
    }

    /// Creates a new record, from the newest manifest if there is one.
    pub(super) fn found(&self, newest: Option<&Manifest>, incarnation: u64) -> LedgerRecord {
        LedgerRecord::create(Genesis {
            terms: self.terms(),
            run: Token(0),
            incarnation: Token(incarnation),
            wanted: 0,
            work: newest.map_or_else(|| TrainedState::none(&self.grid), |m| m.work.clone()),
            base: newest.map(|m| m.cut),
            servers: Default::default(),
        })
        .unwrap()
    }

    /// Returns the world in which every trainer has joined and nothing is trained.
    pub(super) fn start(&self) -> World {
        let mut world = World {
            register: Some(Arc::new(self.found(None, 1))),
            old: None,
            flight: None,
            disk: BTreeMap::new(),
            manifests: Vec::new(),
            members: vec![Member::default(); self.trainers],
            budget: self.budget,
            broken: None,
        };
        for _ in 0..self.trainers {
            let member = world.members.iter().position(|m| !m.is_member()).unwrap();
            let joined = self.join_now(&world, member);
            world = super::canonical::of(self, joined.expect("the record stands"));
        }
        world
    }

    /// Returns the settlement of `token` after it has trained `bucket`.
    pub(super) fn settlement(
        &self,
        record: &LedgerRecord,
        token: Token,
        bucket: Bucket,
    ) -> Settlement {
        let mut count = record.trainers[&token].files;
        let settled = |group| {
            count += 1;
            let writer = Some((token, count));
            let id = FileId { version: 1, writer };
            let from = record.partition(group).unwrap().stamp();
            let files = vec![PartitionFile {
                id,
                size: 0,
                crc32: 0,
            }];
            SettledPartition { group, from, files }
        };
        Settlement {
            pass: record.work.pass,
            buckets: vec![bucket],
            partitions: self.grid.partitions_of(bucket).map(settled).collect(),
            ..Settlement::default()
        }
    }

    pub(super) fn bit(&self, pass: u32, bucket: Bucket) -> Content {
        1 << (pass as usize * self.grid.buckets() + self.grid.index(bucket).unwrap())
    }
}

impl World {
    /// Returns an unused token. The names in a world in canonical form ([`super::canonical`]) are much smaller.
    pub(super) fn next_token(&self) -> Token {
        Token(900)
    }

    pub(super) fn newest(&self) -> Option<&Manifest> {
        self.manifests.last()
    }
}

impl Eq for World {}

/// Hashes the work without its sums, because models train nothing.
pub(super) fn hash_work(work: &TrainedState, state: &mut impl Hasher) {
    (work.pass.edge_chunk, work.pass.epoch, work.plan).hash(state);
    work.progress.plateau.seen.hash(state);
    work.buckets.hash(state);
    for partition in &work.partitions {
        partition.stamp().hash(state);
    }
}

pub(super) fn hash_record(record: &LedgerRecord, state: &mut impl Hasher) {
    (record.incarnation, record.revision, record.stopping).hash(state);
    hash_work(&record.work, state);
    for (token, trainer) in &record.trainers {
        (token, trainer.last, trainer.files, &trainer.leases).hash(state);
        trainer.block.hash(state);
    }
    (record.checkpoints.base, &record.checkpoints.cuts).hash(state);
    super::rankings::hash(record, state);
}

fn hash_action(action: &LedgerAction, state: &mut impl Hasher) {
    std::mem::discriminant(action).hash(state);
    match action {
        LedgerAction::Join(join) => (join.instead_of, join.incarnation, join.newest).hash(state),
        LedgerAction::Open { pass, .. } | LedgerAction::Advance { from: pass } => pass.hash(state),
        LedgerAction::Lease { pass, bucket } => (pass, bucket).hash(state),
        LedgerAction::Settle(s) => (&s.pass, &s.buckets, &s.next).hash(state),
        LedgerAction::GiveUp { pass, buckets } => (pass, buckets).hash(state),
        LedgerAction::Checkpoint { pass, newest } => (pass, newest).hash(state),
        LedgerAction::Committed(cut) => cut.hash(state),
        LedgerAction::Revoke(silent) => (silent.token, silent.last).hash(state),
        LedgerAction::BeginRanking {
            epochs, version, ..
        } => (epochs, version).hash(state),
        LedgerAction::LeaseBlock { ranking, block }
        | LedgerAction::GiveUpBlock { ranking, block }
        | LedgerAction::Ranked { ranking, block, .. } => (ranking, block).hash(state),
        LedgerAction::EndRanking(ranking) => ranking.hash(state),
        LedgerAction::Leave | LedgerAction::LeaveSaved | LedgerAction::Stop => {}
    }
}

impl Hash for Member {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.token, self.after, self.number, self.files).hash(state);
        for asked in [&self.waiting, &self.missed] {
            asked.is_some().hash(state);
            if let Some((number, action)) = asked {
                number.hash(state);
                hash_action(action, state);
            }
        }
        self.decided.is_some().hash(state);
        if let Some(decision) = &self.decided {
            (decision.thread, &decision.listed).hash(state);
            hash_action(&decision.action, state);
        }
        (&self.leases, self.pass, &self.tables, self.block).hash(state);
        if let Some(trained) = &self.trained {
            trained.buckets.hash(state);
            for settled in &trained.partitions {
                (settled.group, settled.from, settled.files.first()).hash(state);
            }
        }
        for writing in [&self.cutting, &self.writing].into_iter().flatten() {
            (writing.cut, &writing.listed, writing.before, writing.stage).hash(state);
            hash_record(&writing.record, state);
        }
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let flight = self.flight.iter().flat_map(|f| [&f.from, &f.to]);
        for record in self.register.iter().chain(&self.old).chain(flight) {
            hash_record(record, state);
            0xff_u8.hash(state);
        }
        let shape = (self.register.is_some(), self.old.is_some());
        let fell_back = self.flight.as_ref().map(|f| f.fell_back);
        (
            shape,
            fell_back,
            &self.disk,
            &self.members,
            self.budget,
            self.broken,
        )
            .hash(state);
        for manifest in &self.manifests {
            manifest.cut.hash(state);
            hash_work(&manifest.work, state);
        }
    }
}
