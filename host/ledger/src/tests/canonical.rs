//! Canonical form of worlds. Tokens, counts and revisions are renamed in a fixed way, because only their equality and
//! order have an effect, and trainers that differ only in their tokens are sorted.
//!
//! Without that, the same situation would occur in one state for each way that leads to it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::super::*;
use super::world::{Content, Decision, Manifest, Member, Model, Name, World};

/// Tokens from this one on represent files for which the writer makes no difference.
const WRITERS: u64 = 1000;

/// Visitor of all names in a world, which may change them.
trait Walk {
    fn token(&mut self, token: &mut Token);
    /// Visits a transaction number of `of`, where `of` is the token before any renaming.
    fn number(&mut self, of: Token, number: &mut u64);
    /// Visits a count of settled files of `of`.
    fn count(&mut self, of: Token, count: &mut u64);
    /// Visits a file of the partition at `index`. `is_pending` says whether it is written but not known to be settled.
    fn file(&mut self, index: usize, id: &mut FileId, is_pending: bool);
}

pub(super) fn of(model: &Model, world: World) -> World {
    let mut world = super::symmetry::sorted(model, world);
    if model.wakes_at_once {
        forget_fenced(&mut world);
    }
    world.members.sort_by_cached_key(role);
    let mut seen = Seen::default();
    walk(model, &mut world, &mut seen);
    if !model.collects {
        world.disk.retain(|name, _| seen.files.contains(name));
    }
    let mut names = Names::new(model, &seen, &world.disk);
    walk(model, &mut world, &mut names);
    let disk = std::mem::take(&mut world.disk);
    world.disk = disk
        .into_iter()
        .map(|(name, content)| (names.renamed(name), content))
        .collect();
    world
}

/// A trainer that is in no record can only find that out. Where the time makes no difference, it finds out at once.
fn forget_fenced(world: &mut World) {
    let flight = world.flight.iter().flat_map(|f| [&f.from, &f.to]);
    let records = || {
        world
            .register
            .iter()
            .chain(&world.old)
            .chain(flight.clone())
    };
    for member in &mut world.members {
        let joins = matches!(&member.waiting, Some((_, LedgerAction::Join(_))));
        let is_known = |token| records().any(|record| record.trainers.contains_key(&token));
        if member.is_member() && !joins && !member.token.is_some_and(is_known) {
            member.forget();
        }
    }
}

/// A fast hash (Fowler, Noll, Vo: FNV-1a, by whole words).
pub(super) fn hash(value: &impl Hash) -> u64 {
    struct Fnv(u64);
    impl Hasher for Fnv {
        fn write(&mut self, bytes: &[u8]) {
            bytes
                .iter()
                .for_each(|byte| self.write_u64(u64::from(*byte)));
        }
        fn write_u32(&mut self, word: u32) {
            self.write_u64(u64::from(word));
        }
        fn write_u64(&mut self, word: u64) {
            self.0 = (self.0 ^ word)
                .wrapping_mul(0x0100_0000_01b3)
                .rotate_left(23);
        }
        fn write_u128(&mut self, word: u128) {
            self.write_u64(word as u64);
            self.write_u64((word >> 64) as u64);
        }
        fn write_usize(&mut self, word: usize) {
            self.write_u64(word as u64);
        }
        fn finish(&self) -> u64 {
            self.0
        }
    }
    let mut state = Fnv(0xcbf2_9ce4_8422_2325);
    value.hash(&mut state);
    state.finish()
}

/// Returns a hash of a trainer's situation, without names.
fn role(member: &Member) -> u64 {
    let tables: Vec<_> = member
        .tables
        .iter()
        .map(|(index, table)| (index, table.content))
        .collect();
    let asks = |action: &Option<(u64, LedgerAction)>| {
        action.as_ref().map(|(_, a)| std::mem::discriminant(a))
    };
    let at = (
        member.is_member(),
        member.token.is_some(),
        &member.leases,
        tables,
    );
    let asks = (
        member.block,
        member.trained.is_some(),
        asks(&member.waiting),
        asks(&member.missed),
        member
            .decided
            .as_ref()
            .map(|decision| std::mem::discriminant(&decision.action)),
    );
    hash(&(
        at,
        asks,
        member.cutting.is_some(),
        member.writing.as_ref().map(|w| w.stage),
    ))
}

fn walk(model: &Model, world: &mut World, with: &mut impl Walk) {
    for member in &mut world.members {
        walk_member(model, member, with);
    }
    let flight = world
        .flight
        .iter_mut()
        .flat_map(|f| [&mut f.from, &mut f.to]);
    for record in world
        .register
        .iter_mut()
        .chain(&mut world.old)
        .chain(flight)
    {
        walk_record(Arc::make_mut(record), with);
    }
    for Manifest { cut, work, truth } in &mut world.manifests {
        walk_cut(cut, with);
        walk_work(work, with);
        walk_work(truth, with);
    }
}

fn walk_member(model: &Model, member: &mut Member, with: &mut impl Walk) {
    let mut name = Token(0);
    if let Some(token) = &mut member.token {
        name = *token;
        with.token(token);
    }
    if member.is_member() {
        with.number(name, &mut member.after);
        with.number(name, &mut member.number);
        with.count(name, &mut member.files);
    }
    for (number, action) in member.waiting.iter_mut().chain(&mut member.missed) {
        with.number(name, number);
        walk_action(model, action, with);
    }
    if let Some(Decision { action, listed, .. }) = &mut member.decided {
        walk_action(model, action, with);
        for (index, id) in listed {
            with.file(*index, id, false);
        }
    }
    for (index, table) in &mut member.tables {
        walk_stamp(*index, &mut table.stamp, with);
    }
    if let Some(trained) = &mut member.trained {
        walk_settlement(model, trained, with);
    }
    let writings = [&mut member.cutting, &mut member.writing];
    for writing in writings.into_iter().flatten() {
        walk_cut(&mut writing.cut, with);
        writing
            .before
            .iter_mut()
            .for_each(|cut| walk_cut(cut, with));
        writing
            .listed
            .iter_mut()
            .for_each(|(index, id)| with.file(*index, id, false));
        walk_record(Arc::make_mut(&mut writing.record), with);
    }
}

fn walk_action(model: &Model, action: &mut LedgerAction, with: &mut impl Walk) {
    match action {
        LedgerAction::Settle(settlement) => walk_settlement(model, settlement, with),
        LedgerAction::Revoke(silent) => {
            with.number(silent.token, &mut silent.last);
            with.token(&mut silent.token);
        }
        LedgerAction::Committed(cut) => walk_cut(cut, with),
        LedgerAction::Checkpoint { newest, .. } => {
            newest.iter_mut().for_each(|cut| walk_cut(cut, with))
        }
        LedgerAction::Join(join) => {
            join.instead_of
                .iter_mut()
                .for_each(|token| with.token(token));
            with.token(&mut join.incarnation);
            join.newest.iter_mut().for_each(|cut| walk_cut(cut, with));
        }
        _ => {}
    }
}

fn walk_settlement(model: &Model, settlement: &mut Settlement, with: &mut impl Walk) {
    for settled in &mut settlement.partitions {
        let index = model.grid.group_index(settled.group).unwrap();
        walk_stamp(index, &mut settled.from, with);
        settled
            .files
            .iter_mut()
            .for_each(|file| with.file(index, &mut file.id, true));
    }
}

fn walk_stamp(index: usize, stamp: &mut CopyVersion, with: &mut impl Walk) {
    stamp.generation = u64::from(stamp.first.is_some());
    stamp
        .first
        .iter_mut()
        .for_each(|id| with.file(index, id, false));
}

fn walk_cut(cut: &mut CheckpointCut, with: &mut impl Walk) {
    if let Some(begun) = &mut cut.begun {
        with.number(begun.token, &mut begun.number);
        with.token(&mut begun.token);
        with.token(&mut begun.incarnation);
        begun.revision = 0;
    }
}

fn walk_work(work: &mut TrainedState, with: &mut impl Walk) {
    for (index, partition) in work.partitions.iter_mut().enumerate() {
        partition.generation = u64::from(!partition.files.is_empty());
        partition
            .files
            .iter_mut()
            .for_each(|file| with.file(index, &mut file.id, false));
    }
}

fn walk_record(record: &mut LedgerRecord, with: &mut impl Walk) {
    record.revision = 1;
    record.changed = 0;
    with.token(&mut record.incarnation);
    walk_work(&mut record.work, with);
    let trainers = std::mem::take(&mut record.trainers);
    record.trainers = trainers
        .into_iter()
        .map(|(mut token, mut trainer)| {
            with.number(token, &mut trainer.last);
            with.count(token, &mut trainer.files);
            with.token(&mut token);
            (token, trainer)
        })
        .collect();
    let Checkpoints { base, cuts, .. } = &mut record.checkpoints;
    base.iter_mut()
        .chain(cuts)
        .for_each(|cut| walk_cut(cut, with));
}

/// The names in a world, the tokens in order of occurrence.
#[derive(Default)]
struct Seen {
    tokens: Vec<Token>,
    numbers: BTreeMap<Token, BTreeSet<u64>>,
    counts: BTreeMap<Token, BTreeSet<u64>>,
    files: BTreeSet<Name>,
    pending: BTreeSet<Name>,
}

impl Walk for Seen {
    fn token(&mut self, token: &mut Token) {
        if !self.tokens.contains(token) {
            self.tokens.push(*token);
        }
    }

    fn number(&mut self, of: Token, number: &mut u64) {
        self.numbers.entry(of).or_default().insert(*number);
    }

    fn count(&mut self, of: Token, count: &mut u64) {
        self.counts.entry(of).or_default().insert(*count);
    }

    fn file(&mut self, index: usize, id: &mut FileId, is_pending: bool) {
        self.files.insert((index, *id));
        if is_pending {
            self.pending.insert((index, *id));
        }
    }
}

/// The new names.
struct Names {
    tokens: BTreeMap<Token, Token>,
    numbers: BTreeMap<Token, Vec<u64>>,
    counts: BTreeMap<Token, Vec<u64>>,
    files: BTreeMap<Name, FileId>,
}

impl Names {
    fn new(model: &Model, seen: &Seen, disk: &BTreeMap<Name, Content>) -> Self {
        let (mut names, mut counts) = (BTreeSet::new(), BTreeMap::new());
        for name in seen.files.iter().chain(disk.keys()) {
            let (token, count) = name.1.writer.unwrap_or((Token(WRITERS), 0));
            if model.collects || seen.pending.contains(name) {
                let known = seen.counts.get(&token).cloned().unwrap_or_default();
                counts.entry(token).or_insert(known).insert(count);
            } else {
                names.insert((name.0, disk.get(name).copied(), name.1));
            }
        }
        let mut files = BTreeMap::new();
        let mut last = (usize::MAX, 0);
        for (index, _, id) in names {
            last = (index, if index == last.0 { last.1 + 1 } else { 1 });
            let writer = Some((Token(WRITERS + index as u64), last.1));
            files.insert((index, id), FileId { version: 1, writer });
        }
        let mut tokens: Vec<Token> = seen.tokens.clone();
        let writers = seen
            .files
            .iter()
            .chain(disk.keys())
            .filter(|n| !files.contains_key(*n));
        let writers: BTreeSet<Token> = writers.filter_map(|(_, id)| Some(id.writer?.0)).collect();
        tokens.extend(
            writers
                .into_iter()
                .filter(|token| !seen.tokens.contains(token)),
        );
        Self {
            tokens: (1..)
                .zip(tokens)
                .map(|(name, token)| (token, Token(name)))
                .collect(),
            numbers: sorted(seen.numbers.clone()),
            counts: sorted(counts),
            files,
        }
    }

    fn renamed(&mut self, (index, mut id): Name) -> Name {
        self.file(index, &mut id, false);
        (index, id)
    }
}

fn sorted(values: BTreeMap<Token, BTreeSet<u64>>) -> BTreeMap<Token, Vec<u64>> {
    let sorted = |mut values: BTreeSet<u64>| {
        values.insert(0);
        values.into_iter().collect()
    };
    values
        .into_iter()
        .map(|(token, values)| (token, sorted(values)))
        .collect()
}

fn rank(values: Option<&Vec<u64>>, value: u64) -> u64 {
    let rank = values.map_or(0, |values| values.partition_point(|other| *other < value));
    rank as u64
}

impl Walk for Names {
    fn token(&mut self, token: &mut Token) {
        *token = self.tokens[token];
    }

    fn number(&mut self, of: Token, number: &mut u64) {
        *number = rank(self.numbers.get(&of), *number);
    }

    fn count(&mut self, of: Token, count: &mut u64) {
        *count = rank(self.counts.get(&of), *count);
    }

    fn file(&mut self, index: usize, id: &mut FileId, _: bool) {
        if let Some(new) = self.files.get(&(index, *id)) {
            *id = *new;
        } else if let Some((token, count)) = &mut id.writer {
            *count = rank(self.counts.get(token), *count);
            *token = self.tokens[token];
        }
    }
}
