//! Possible steps in a world: those of the trainers, in any order, and faults while the budget lasts.
//!
//! A trainer pauses by taking no step while others do; it may resume at any later moment.

use pbg_core::graph::{Bucket, SidePartition};
use pbg_core::schedule::PassId;
use stateright::Property;

use super::super::*;
use super::rankings::Part;
use super::requests::Mode;
use super::world::{Decision, Manifest, Mistake, Model, Stage, Thread, World};
use super::{canonical, invariants};

/// Step of a world.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// A trainer decides and writes to the register at once.
    Send(usize, Request, Mode),
    /// A trainer decides, and pauses before it writes.
    Decide(usize, Request),
    /// A trainer that paused writes what it has decided.
    Act(usize, Mode),
    /// A trainer that has received no reply reads the register.
    ReadAgain(usize),
    /// A trainer that is not waiting for a reply reads the register, and finds its entry changed.
    Look(usize),
    /// A trainer that is not, or no longer, part of the run joins.
    Join(usize),
    /// A trainer reads the record to join it, and pauses before it does.
    DecideToJoin(usize),
    /// A trainer trains a bucket and writes its partitions.
    Train(usize),
    /// A trainer writes the manifest of its checkpoint.
    WriteManifest(usize),
    /// A trainer removes the files that its checkpoint has made superfluous.
    Collect(usize),
    /// A trainer finds the record invalid, and creates a new one from the newest manifest.
    Found,
    Fault(super::faults::Fault),
}

/// Request of a trainer, without the details that follow from the world.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    Open,
    Advance,
    Lease(Bucket),
    Settle(Option<Bucket>),
    GiveUp(Bucket),
    Leave,
    Revoke(Token),
    Checkpoint,
    Committed(CheckpointCut),
    Ranking(Part),
}

impl Request {
    /// Returns the thread of a trainer that sends the request.
    const fn thread(&self) -> Thread {
        match self {
            Self::Settle(_) => Thread::Storage,
            Self::Revoke(_) => Thread::Watch,
            _ => Thread::Training,
        }
    }

    /// Whether another trainer sends the request if this one does not.
    const fn is_anybodys(&self) -> bool {
        matches!(
            self,
            Self::Open | Self::Advance | Self::Revoke(_) | Self::Ranking(Part::Begin | Part::End)
        )
    }
}

/// Like [`Request::is_anybodys`].
const fn is_anybodys(action: &LedgerAction) -> bool {
    matches!(
        action,
        LedgerAction::Open { .. }
            | LedgerAction::Advance { .. }
            | LedgerAction::Revoke(_)
            | LedgerAction::BeginRanking { .. }
            | LedgerAction::EndRanking(_)
    )
}

impl stateright::Model for Model {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![canonical::of(self, self.start())]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.broken.is_some() {
            return;
        }
        self.faults(world, steps);
        for member in 0..world.members.len() {
            self.steps_of(world, member, steps);
        }
        let newest = world.newest().map(|manifest| manifest.cut);
        let record = world.register.as_ref();
        if record.is_none_or(|record| !self.stands(record, newest)) {
            steps.push(Step::Found);
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let next = self.step(world, step)?;
        Some(canonical::of(self, next))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        invariants::properties()
    }
}

impl Model {
    pub(super) fn stands(&self, record: &LedgerRecord, newest: Option<CheckpointCut>) -> bool {
        self.mistake == Some(Mistake::AnyRecordStands) || record.matches_manifest(newest).is_ok()
    }

    /// Whether a trainer can begin a checkpoint. It compares the record with the newest manifest before, because the
    /// files named by a restored register may be gone.
    pub(super) fn may_checkpoint(&self, world: &World) -> bool {
        self.mistake == Some(Mistake::CheckpointOfAnyRecord)
            || invariants::standing(self, world).is_some()
    }

    fn steps_of(&self, world: &World, member: usize, steps: &mut Vec<Step>) {
        let of = &world.members[member];
        let Some(record) = &world.register else {
            return;
        };
        if !of.is_member() {
            return match of.decided {
                Some(_) => steps.push(Step::Act(member, Mode::Answered)),
                None => self.ways_to_join(world, member, steps),
            };
        }
        if of.waiting.is_some() {
            return steps.push(Step::ReadAgain(member));
        }
        if self.may_learn(world, member) {
            steps.push(Step::Look(member));
        }
        let still = of.decided.as_ref().map(|decision| decision.thread);
        for request in self.requests(world, member, record) {
            if still == Some(request.thread()) {
                continue;
            }
            if still.is_none() && world.budget.paused > 0 {
                steps.push(Step::Decide(member, request.clone()));
            }
            for mode in self.modes(world, request.is_anybodys()) {
                steps.push(Step::Send(member, request.clone(), mode));
            }
        }
        if let Some(Decision { action, .. }) = &of.decided {
            let modes = self.modes(world, is_anybodys(action)).into_iter();
            steps.extend(modes.map(|mode| Step::Act(member, mode)));
        }
        if still == Some(Thread::Training) {
            return;
        }
        if of.trained.is_none() && !of.leases.is_empty() {
            steps.push(Step::Train(member));
        }
        match of.writing.as_ref().map(|writing| writing.stage) {
            Some(Stage::Begun) => steps.push(Step::WriteManifest(member)),
            Some(Stage::Committed) if self.collects => steps.push(Step::Collect(member)),
            _ => {}
        }
    }

    fn ways_to_join(&self, world: &World, member: usize, steps: &mut Vec<Step>) {
        // A trainer that finds an invalid record creates a new one first.
        if invariants::standing(self, world).is_some() {
            steps.push(Step::Join(member));
            if world.budget.paused > 0 {
                steps.push(Step::DecideToJoin(member));
            }
        }
    }

    fn requests(&self, world: &World, member: usize, record: &LedgerRecord) -> Vec<Request> {
        let of = &world.members[member];
        let token = of.token.unwrap();
        let mut requests = Vec::new();
        let first = world
            .members
            .iter()
            .position(|m| m.is_member() && m.waiting.is_none());
        match record.phase() {
            // It makes no difference which trainer does it.
            Phase::Opening if first == Some(member) => requests.push(Request::Open),
            Phase::PassDone if first == Some(member) => requests.push(Request::Advance),
            Phase::Ranking => self.ranking_requests(world, member, first, &mut requests),
            _ if self.mistake == Some(Mistake::EarlyAdvance) => requests.push(Request::Advance),
            _ => {}
        }
        let free = || self.free(record, token).into_iter();
        let most = if self.ahead { 2 } else { 1 };
        if of.leases.len() < most {
            requests.extend(free().map(Request::Lease));
        }
        if of.trained.is_some() {
            requests.push(Request::Settle(None));
            if !self.ahead {
                requests.extend(free().map(|bucket| Request::Settle(Some(bucket))));
            }
        }
        if world.budget.given_up > 0
            && let Some(&last) = of.leases.last()
            && of.trained.is_none()
        {
            requests.push(Request::GiveUp(last));
        }
        if world.budget.left > 0 {
            requests.push(Request::Leave);
        }
        requests.extend(self.revocations(world, member, record).map(Request::Revoke));
        match &of.writing {
            None if world.budget.checkpoints > 0 && self.may_checkpoint(world) => {
                requests.push(Request::Checkpoint);
            }
            Some(writing) if writing.stage == Stage::Written => {
                requests.push(Request::Committed(writing.cut));
            }
            _ => {}
        }
        requests
    }

    /// Returns the trainers that `member` may revoke: those that are gone, and live ones as the budget allows.
    fn revocations(
        &self,
        world: &World,
        member: usize,
        record: &LedgerRecord,
    ) -> impl Iterator<Item = Token> {
        let mine = world.members[member].token;
        let lives = |token: Token| {
            let mut members = world.members.iter().filter(|m| m.is_member());
            members.any(|m| m.token == Some(token))
        };
        let may =
            |token: &Token| Some(*token) != mine && (world.budget.evictions > 0 || !lives(*token));
        record
            .trainers
            .keys()
            .copied()
            .filter(may)
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// Returns the possible deliveries of a transaction. If anybody can send it, others repeat it when it is lost.
    fn modes(&self, world: &World, is_anybodys: bool) -> Vec<Mode> {
        let mut modes = vec![Mode::Answered];
        if is_anybodys {
            return modes;
        }
        let flies = world.flight.is_some();
        for (left, mode) in [
            (world.budget.lost > 0, Mode::Unanswered),
            (world.budget.late > 0 && !flies, Mode::Late),
            (world.budget.doubled > 0 && !flies, Mode::Doubled),
        ] {
            modes.extend(left.then_some(mode));
        }
        modes
    }

    pub(super) fn step(&self, world: &World, step: Step) -> Option<World> {
        match step {
            Step::Send(member, request, mode) => self.request(world, member, request, mode),
            Step::Decide(member, request) => {
                let mut next = world.clone();
                next.budget.paused -= 1;
                let decision = self.decide(&mut next, member, request)?;
                next.members[member].decided = Some(decision);
                Some(next)
            }
            Step::Act(member, mode) => self.act(world, member, mode),
            Step::ReadAgain(member) => self.read_again(world, member),
            Step::Look(member) => self.look(world, member),
            Step::Join(member) => self.join_now(world, member),
            Step::DecideToJoin(member) => {
                let mut next = world.clone();
                next.budget.paused -= 1;
                let action = self.decide_to_join(world, member)?;
                next.members[member].decided = Some(Decision {
                    thread: Thread::Training,
                    action,
                    listed: Vec::new(),
                });
                Some(next)
            }
            Step::Train(member) => self.train(world, member),
            Step::WriteManifest(member) => self.write_manifest(world, member),
            Step::Collect(member) => self.collect(world, member),
            Step::Found => {
                let mut next = world.clone();
                let record = self.found(world.newest(), world.next_token().0);
                next.register = Some(std::sync::Arc::new(record));
                Some(next)
            }
            Step::Fault(fault) => Some(self.fault(world, fault)),
        }
    }

    /// Makes a decision and sends its transaction, without any step in between.
    fn request(&self, world: &World, member: usize, request: Request, mode: Mode) -> Option<World> {
        let mut next = world.clone();
        next.budget.pay(mode);
        let decision = self.decide(&mut next, member, request)?;
        self.send(&next, member, decision, mode)
    }

    /// Sends the transaction that `member` decided on earlier. If it is refused, the trainer decides again.
    fn act(&self, world: &World, member: usize, mode: Mode) -> Option<World> {
        let mut next = world.clone();
        let decision = next.members[member].decided.take()?;
        if let LedgerAction::Join(join) = &decision.action {
            return self.send_join(&next, member, join.clone()).or(Some(next));
        }
        let mut paid = next.clone();
        paid.budget.pay(mode);
        self.send(&paid, member, decision, mode).or(Some(next))
    }

    /// Returns the decision of `member` by the current record.
    fn decide(&self, world: &mut World, member: usize, request: Request) -> Option<Decision> {
        let record = world.register.clone()?;
        let newest = world.newest().map(|manifest| manifest.cut);
        let thread = request.thread();
        let listed = match request {
            Request::Checkpoint => world.disk.keys().copied().collect(),
            _ => Vec::new(),
        };
        let of = &world.members[member];
        let budget = &mut world.budget;
        let pass = record.work.pass;
        let action = match request {
            Request::Open => LedgerAction::Open {
                pass,
                plan: 1,
                empty: Vec::new(),
            },
            Request::Advance => LedgerAction::Advance { from: pass },
            Request::Ranking(part) => self.ranking_action(budget, &record, of, part)?,
            Request::Lease(bucket) => LedgerAction::Lease { pass, bucket },
            Request::Settle(bucket) => {
                let mut settlement = of.trained.clone()?;
                settlement.next = bucket.into_iter().collect();
                LedgerAction::Settle(Box::new(settlement))
            }
            Request::GiveUp(bucket) => {
                budget.given_up -= 1;
                let buckets = vec![bucket];
                LedgerAction::GiveUp { pass, buckets }
            }
            Request::Leave => {
                budget.left -= 1;
                LedgerAction::Leave
            }
            Request::Revoke(token) => {
                let mut lives = world.members.iter().filter(|m| m.is_member());
                budget.evictions -= u8::from(lives.any(|m| m.token == Some(token)));
                LedgerAction::Revoke(SilentTrainer::of(&record, token)?)
            }
            Request::Checkpoint => {
                // The checkpoint that a ranking waits for costs nothing.
                budget.checkpoints = budget.checkpoints.saturating_sub(1);
                LedgerAction::Checkpoint {
                    pass,
                    newest: match self.mistake {
                        // As if the record matched any manifest.
                        Some(Mistake::CheckpointOfAnyRecord | Mistake::AnyRecordStands) => {
                            record.checkpoints.base
                        }
                        _ => newest,
                    },
                }
            }
            Request::Committed(cut) => LedgerAction::Committed(cut),
        };
        Some(Decision {
            thread,
            action,
            listed,
        })
    }

    /// Trains the oldest lease into copies of its tables, and writes them as files with new names.
    pub(super) fn train(&self, world: &World, member: usize) -> Option<World> {
        let mut next = world.clone();
        let of = &mut next.members[member];
        let bucket = *of.leases.first()?;
        let bit = self.bit(of.pass, bucket);
        let mut partitions = Vec::new();
        for group in self.grid.partitions_of(bucket) {
            let index = self.grid.group_index(group)?;
            let table = of.tables.get_mut(&index)?;
            if table.content & bit != 0 {
                next.broken = Some("a bucket is trained twice into a partition");
            }
            table.content |= bit;
            of.files += 1;
            let id = FileId {
                version: 1,
                writer: of.token.map(|token| (token, of.files)),
            };
            if next.disk.insert((index, id), table.content).is_some() {
                next.broken = Some("a file's name is used twice");
            }
            let files = vec![PartitionFile {
                id,
                size: 0,
                crc32: 0,
            }];
            partitions.push(SettledPartition {
                group,
                from: table.stamp,
                files,
            });
        }
        let pass = PassId {
            edge_chunk: of.pass,
            ..PassId::default()
        };
        of.trained = Some(Settlement {
            pass,
            buckets: vec![bucket],
            partitions,
            ..Settlement::default()
        });
        Some(next)
    }

    /// Writes the manifest if none with its version exists, which the store ensures.
    fn write_manifest(&self, world: &World, member: usize) -> Option<World> {
        let mut next = world.clone();
        let writing = next.members[member].writing.as_mut()?;
        let cut = writing.cut;
        let truth = writing.record.work.released();
        let mut work = truth.clone();
        if self.mistake == Some(Mistake::MixedManifest) {
            work.buckets = world.register.as_ref()?.work.released().buckets;
        }
        let newest = world.newest().map_or(0, |manifest| manifest.cut.version);
        match world
            .manifests
            .iter()
            .any(|manifest| manifest.cut.version == cut.version)
        {
            true => next.members[member].writing = None,
            false => {
                writing.stage = Stage::Written;
                next.manifests.push(Manifest { cut, work, truth });
                if cut.version < newest {
                    next.manifests.sort_by_key(|manifest| manifest.cut.version);
                }
                let extra = next.manifests.len().saturating_sub(2);
                next.manifests.drain(..extra);
            }
        }
        Some(next)
    }

    fn collect(&self, world: &World, member: usize) -> Option<World> {
        let mut next = world.clone();
        let writing = next.members[member].writing.take()?;
        let groups: Vec<SidePartition> = self.grid.groups().collect();
        for &(index, id) in &writing.listed {
            let group = groups[index];
            // The trainer does not know of manifests that others have written since.
            let kept = |manifest: &Manifest| {
                [Some(writing.cut), writing.before].contains(&Some(manifest.cut))
                    && manifest.work.partitions[index]
                        .files
                        .iter()
                        .any(|f| f.id == id)
            };
            let is_garbage = match self.mistake {
                Some(Mistake::EagerCollection) => {
                    !world.register.as_ref()?.names_file(group, 0, id)
                }
                _ => writing.record.is_garbage(group, 0, id),
            };
            if is_garbage && !world.manifests.iter().any(kept) {
                next.disk.remove(&(index, id));
            }
        }
        Some(next)
    }
}
