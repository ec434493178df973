//! What a model is made of: a register, files, manifests, and trainers with what they remember.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::super::*;
use crate::graph::Bucket;
use crate::schedule::Extent;

/// Which buckets were trained into a file or a table: a bit per pass and bucket.
pub(super) type Content = u128;

/// A file: its partition's index and its name.
pub(super) type Name = (usize, FileId);

/// How often each fault may happen; that bounds the states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// A trainer's process ends and starts again, without its memory.
    pub(super) crashes: u8,
    /// A trainer that lives is revoked: it paused, or others did not hear it.
    pub(super) evictions: u8,
    /// An answer is lost after its transaction was applied.
    pub(super) lost: u8,
    /// A transaction arrives later, or not at all, after its answer was given up.
    pub(super) late: u8,
    /// A transaction that was answered arrives once more.
    pub(super) doubled: u8,
    /// The register loses its last writes, as many as it likes.
    pub(super) set_back: u8,
    /// The register loses everything.
    pub(super) wiped: u8,
    /// A trainer gives its buckets back.
    pub(super) given_up: u8,
    /// A trainer leaves.
    pub(super) left: u8,
    /// Checkpoints that begin. No fault, but as costly.
    pub(super) checkpoints: u8,
    /// A trainer stands still between a decision and its transaction, while anything else happens.
    pub(super) paused: u8,
}

/// A ledger with a mistake that the invariants must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    /// A transaction of a token that the record lacks is applied.
    NoFencing,
    /// One partition of a bucket gets its new file, the other one keeps its old one.
    HalfSettled,
    /// A bucket is leased whoever holds its partitions.
    NobodyHolds,
    /// A revoked trainer's buckets stay leased.
    LeasesStay,
    /// A pass ends before all of its buckets are done.
    EarlyAdvance,
    /// Neither the last known transaction nor what a file was made from is compared.
    NothingCompared,
    /// A manifest says where the run is when it is written, but names the files of its cut.
    MixedManifest,
    /// Files go as soon as the record does not name them.
    EagerCollection,
    /// A record is used whatever manifest there is.
    AnyRecordStands,
    /// A checkpoint begins whatever manifest there is.
    CheckpointOfAnyRecord,
    /// The ranks of a block are added, whoever has it and however often.
    RankedUnasked,
    /// Any checkpoint is ranked.
    AnyCheckpointRanked,
    /// Conclusions are drawn before every block is ranked.
    EarlyConclusion,
    /// A bucket is leased in whatever pass the run is.
    LeaseOfAnyPass,
}

/// What is modelled.
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
    /// Whether files are collected; names must then keep their writers, which makes for more states.
    pub(super) collects: bool,
    /// Whether a trainer that no record knows any more finds that out at once, instead of at any later moment.
    pub(super) wakes_at_once: bool,
    pub(super) mistake: Option<Mistake>,
    /// Blocks that are ranked after the epoch; 0 of a run that does not validate.
    pub(super) blocks: u32,
}

/// A write that is on its way to the register.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Flight {
    pub(super) from: Arc<Record>,
    pub(super) to: Arc<Record>,
    /// Whether the register was set back since, so that its sequence numbers may come again.
    pub(super) fell_back: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Manifest {
    pub(super) cut: Cut,
    pub(super) work: Work,
    /// What the register had at the cut.
    pub(super) truth: Work,
}

/// A checkpoint that a trainer writes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Writing {
    pub(super) cut: Cut,
    /// What the checkpoint began with.
    pub(super) record: Arc<Record>,
    /// Files that were there before.
    pub(super) listed: Vec<Name>,
    /// The manifest that it follows.
    pub(super) before: Option<Cut>,
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
    pub(super) stamp: Stamp,
    pub(super) content: Content,
}

/// A thread of a trainer: each takes one decision at a time, and carries it out before the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Thread {
    Training,
    Storage,
    Watch,
}

/// A decision whose transaction is still to come.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decision {
    /// Who has taken it.
    pub(super) thread: Thread,
    pub(super) action: Action,
    /// Files that were there: for a checkpoint.
    pub(super) listed: Vec<Name>,
}

/// A trainer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Member {
    /// Its token; none before it joined.
    pub(super) token: Option<Token>,
    /// Number of the last transaction that it knows to be applied.
    pub(super) after: u64,
    /// The last number that it used.
    pub(super) number: u64,
    /// A transaction without an answer.
    pub(super) waiting: Option<(u64, Action)>,
    /// A transaction that was taken for lost, though it may still arrive.
    pub(super) missed: Option<(u64, Action)>,
    /// What one of its threads has decided on and not asked for yet.
    pub(super) decided: Option<Decision>,
    pub(super) leases: Vec<Bucket>,
    /// The block of a ranking that it has.
    pub(super) block: Option<u32>,
    /// The pass that the trainer takes its leases to be of, as an edge chunk.
    pub(super) pass: u32,
    pub(super) tables: BTreeMap<usize, Table>,
    /// What is trained and written, but not settled.
    pub(super) trained: Option<Settlement>,
    /// Files that it has named.
    pub(super) files: u64,
    /// The checkpoint that it asked for last, before it knows whether it has begun.
    pub(super) cutting: Option<Writing>,
    pub(super) writing: Option<Writing>,
}

/// A state of a model.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct World {
    pub(super) register: Option<Arc<Record>>,
    /// What the register is going to fall back to.
    pub(super) old: Option<Arc<Record>>,
    pub(super) flight: Option<Flight>,
    pub(super) disk: BTreeMap<Name, Content>,
    /// The newest two, the older one first.
    pub(super) manifests: Vec<Manifest>,
    pub(super) members: Vec<Member>,
    pub(super) budget: Budget,
    /// An invariant that a step broke.
    pub(super) broken: Option<&'static str>,
}

impl Model {
    /// `lhs` x `rhs` partitions of one entity type on both sides, or of one on each.
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

    pub(super) fn terms(&self) -> Terms {
        let terms = Terms::of_one_pass(self.grid.clone());
        Terms {
            extent: Extent {
                edge_chunks: self.passes,
                ..terms.extent
            },
            tree_init: self.tree_init,
            validation: (self.blocks > 0).then(super::rankings::validation),
            ..terms
        }
    }

    /// Joins `record`, which was found to go with its own checkpoint.
    pub(super) fn join(&self, record: &Record, instead_of: Option<Token>) -> Action {
        Action::Join(Box::new(Join {
            terms: self.terms(),
            name: String::new(),
            rank: None,
            instead_of,
            incarnation: record.incarnation,
            newest: record.checkpoints.base,
        }))
    }

    /// A new record, from the newest manifest where there is one.
    pub(super) fn found(&self, newest: Option<&Manifest>, incarnation: u64) -> Record {
        Record::found(Founding {
            terms: self.terms(),
            run: Token(0),
            incarnation: Token(incarnation),
            wanted: 0,
            work: newest.map_or_else(|| Work::none(&self.grid), |m| m.work.clone()),
            base: newest.map(|m| m.cut),
        })
        .unwrap()
    }

    /// The world in which every trainer has joined and nothing is trained.
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

    /// What `token` settles when it has trained `bucket`.
    pub(super) fn settlement(&self, record: &Record, token: Token, bucket: Bucket) -> Settlement {
        let mut count = record.trainers[&token].files;
        let settled = |group| {
            count += 1;
            let writer = Some((token, count));
            let id = FileId { version: 1, writer };
            let from = record.partition(group).unwrap().stamp();
            let files = vec![File {
                id,
                size: 0,
                crc32: 0,
            }];
            Settled { group, from, files }
        };
        Settlement {
            pass: record.work.pass,
            buckets: vec![bucket],
            partitions: self.grid.needs(bucket).map(settled).collect(),
            ..Settlement::default()
        }
    }

    pub(super) fn bit(&self, pass: u32, bucket: Bucket) -> Content {
        1 << (pass as usize * self.grid.buckets() + self.grid.index(bucket).unwrap())
    }
}

impl World {
    /// A token that nobody has: names of a world that [`super::canonical`] has seen are much smaller.
    pub(super) fn next_token(&self) -> Token {
        Token(900)
    }

    pub(super) fn newest(&self) -> Option<&Manifest> {
        self.manifests.last()
    }
}

impl Eq for World {}

/// Numbers of training take no part: models train nothing.
pub(super) fn hash_work(work: &Work, state: &mut impl Hasher) {
    (work.pass.edge_chunk, work.pass.epoch, work.plan).hash(state);
    work.progress.plateau.seen.hash(state);
    work.buckets.hash(state);
    for partition in &work.partitions {
        partition.stamp().hash(state);
    }
}

pub(super) fn hash_record(record: &Record, state: &mut impl Hasher) {
    (record.incarnation, record.revision, record.stopping).hash(state);
    hash_work(&record.work, state);
    for (token, trainer) in &record.trainers {
        (token, trainer.last, trainer.files, &trainer.leases).hash(state);
        trainer.block.hash(state);
    }
    (record.checkpoints.base, &record.checkpoints.cuts).hash(state);
    super::rankings::hash(record, state);
}

fn hash_action(action: &Action, state: &mut impl Hasher) {
    std::mem::discriminant(action).hash(state);
    match action {
        Action::Join(join) => (join.instead_of, join.incarnation, join.newest).hash(state),
        Action::Open { pass, .. } | Action::Advance { from: pass } => pass.hash(state),
        Action::Lease { pass, bucket } => (pass, bucket).hash(state),
        Action::Settle(s) => (&s.pass, &s.buckets, &s.next).hash(state),
        Action::GiveUp { pass, buckets } => (pass, buckets).hash(state),
        Action::Checkpoint { pass, newest } => (pass, newest).hash(state),
        Action::Committed(cut) => cut.hash(state),
        Action::Revoke(silent) => (silent.token, silent.last).hash(state),
        Action::BeginRanking {
            epochs, version, ..
        } => (epochs, version).hash(state),
        Action::LeaseBlock { ranking, block }
        | Action::GiveUpBlock { ranking, block }
        | Action::Ranked { ranking, block, .. } => (ranking, block).hash(state),
        Action::EndRanking(ranking) => ranking.hash(state),
        Action::Leave | Action::LeaveSaved | Action::Stop => {}
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
