//! Transactions over a register that loses answers and that other trainers write to meanwhile.

use std::sync::atomic::AtomicBool;

use pbg_core::graph::{Bucket, Side, SidePartition};
use pbg_core::schedule::PassId;
use pbg_ledger::transport::{Heartbeat, LastHeartbeat, QuestionHandler, WriteReply};
use pbg_ledger::{
    FileId, Genesis, Grid, Join, PartitionFile, RunTerms, SettledPartition, TrainedState,
    plan_digest,
};

use std::sync::Mutex;

use super::*;

type Hook = Box<dyn FnOnce(&Wire) + Send>;
type Change = fn(&mut RunTerms);

/// A register and a network within one process.
#[derive(Default)]
pub(crate) struct Wire {
    value: Mutex<(u64, Vec<u8>)>,
    /// If set, the next write is applied but its answer is lost, and this hook runs before the next read.
    after_lost: Mutex<Option<Hook>>,
    /// Whether writes are not answered, and delivered later.
    is_slow: AtomicBool,
    kept: Mutex<Vec<(Option<u64>, Vec<u8>)>>,
    /// Whether writes are accepted and forgotten.
    is_forgetful: AtomicBool,
    /// Number of writes that were forgotten.
    forgotten: AtomicU64,
    /// Whether nothing is read after the next write.
    falls_silent: AtomicBool,
    is_silent: AtomicBool,
}

impl Wire {
    fn put(&self, after: Option<u64>, value: &[u8]) -> WriteReply {
        let mut newest = self.value.lock().unwrap();
        if newest.0 != after.unwrap_or(0) {
            return WriteReply::Refused;
        }
        *newest = (newest.0 + 1, value.to_vec());
        WriteReply::Accepted(newest.0)
    }

    /// Replaces the record, as another trainer does.
    fn replace(&self, record: &serde_json::Value) {
        let mut newest = self.value.lock().unwrap();
        *newest = (newest.0 + 1, serde_json::to_vec(record).unwrap());
    }

    /// Delivers the delayed writes.
    fn deliver(&self) {
        self.is_slow.store(false, Ordering::Relaxed);
        let kept = std::mem::take(&mut *self.kept.lock().unwrap());
        for (after, value) in kept {
            self.put(after, &value);
        }
    }
}

impl Register for Wire {
    fn read(&self) -> Result<Option<RegisterEntry>, NoAnswer> {
        if self.is_silent.load(Ordering::Relaxed) {
            return Err(NoAnswer("it is silent".to_owned()));
        }
        let (revision, value) = self.value.lock().unwrap().clone();
        Ok((revision > 0).then_some(RegisterEntry { revision, value }))
    }

    fn write(&self, after: Option<u64>, value: &[u8], _: &str) -> Result<WriteReply, NoAnswer> {
        if self.is_slow.load(Ordering::Relaxed) {
            self.kept.lock().unwrap().push((after, value.to_vec()));
            return Err(NoAnswer("it takes long".to_owned()));
        }
        if self.is_forgetful.load(Ordering::Relaxed) {
            let forgotten = self.forgotten.fetch_add(1, Ordering::Relaxed);
            assert!(forgotten < 20, "the writes do not pause");
            return Ok(WriteReply::Accepted(after.unwrap_or(0) + 1));
        }
        let written = self.put(after, value);
        let falls_silent = self.falls_silent.load(Ordering::Relaxed);
        self.is_silent.store(falls_silent, Ordering::Relaxed);
        let hook = self.after_lost.lock().unwrap().take();
        match hook {
            Some(hook) => {
                hook(self);
                Err(NoAnswer("the answer was lost".to_owned()))
            }
            None => Ok(written),
        }
    }
}

impl LiveTraffic for Wire {
    fn beat(&self, _: &Heartbeat) {}

    fn heartbeats(&self) -> Vec<LastHeartbeat> {
        Vec::new()
    }

    fn wake(&self) {}

    fn wait(&self, _: Duration) -> bool {
        false
    }

    fn ask(&self, _: Token, _: &[u8], _: Duration) -> Result<Vec<u8>, NoAnswer> {
        Err(NoAnswer("nobody is there".to_owned()))
    }

    fn answer(&self, _: Token, _: QuestionHandler) -> Result<(), NoAnswer> {
        Ok(())
    }
}

/// Terms of a run of one pass over two partitions.
pub(crate) fn terms() -> RunTerms {
    RunTerms::of_one_pass(Grid {
        lhs: 2,
        rhs: 2,
        shared: true,
        tables: [vec!["e".to_owned()], Vec::new()],
    })
}

/// Returns the ledger of a trainer that has joined.
fn joined(wire: &Arc<Wire>, token: u64, terms: &RunTerms) -> LedgerClient {
    let register = Arc::clone(wire) as Arc<dyn Register>;
    let live = Arc::clone(wire) as Arc<dyn LiveTraffic>;
    let ledger = LedgerClient::new(register, live, Token(token), Duration::from_secs(5));
    if ledger.refresh().unwrap().is_none() {
        let founding = Genesis {
            work: TrainedState::none(&terms.grid),
            terms: terms.clone(),
            run: Token(100),
            incarnation: Token(101),
            wanted: 0,
            base: None,
            servers: Default::default(),
        };
        let record = LedgerRecord::create(founding).unwrap();
        assert!(ledger.create(None, &record).unwrap());
    }
    let record = ledger.last_record().expect("a record");
    let join = Join {
        terms: terms.clone(),
        name: token.to_string(),
        rank: None,
        instead_of: None,
        incarnation: record.incarnation(),
        newest: None,
    };
    ledger.submit(LedgerAction::Join(Box::new(join))).unwrap();
    ledger
}

/// Returns two trainers of an open pass.
fn two() -> (Arc<Wire>, LedgerClient, LedgerClient) {
    two_with(&terms())
}

/// Returns two trainers of an open pass of a run with `terms`.
fn two_with(terms: &RunTerms) -> (Arc<Wire>, LedgerClient, LedgerClient) {
    let wire = Arc::new(Wire::default());
    let (one, two) = (joined(&wire, 1, terms), joined(&wire, 2, terms));
    let open = LedgerAction::Open {
        pass: PassId::default(),
        plan: plan_digest(&[]),
        empty: Vec::new(),
    };
    one.submit(open).unwrap();
    (wire, one, two)
}

/// Returns a lease in the first pass.
fn lease(bucket: Bucket) -> LedgerAction {
    let pass = PassId::default();
    LedgerAction::Lease { pass, bucket }
}

const GROUP: SidePartition = (Side::Lhs, 0);

/// Returns the settlement of `ledger` after it has trained a bucket of partition 0 alone.
fn settlement(ledger: &LedgerClient, bucket: Bucket) -> Settlement {
    let files = ledger.last_record().unwrap().trainers()[&ledger.token()].files;
    let writer = Some((ledger.token(), files + 1));
    let file = PartitionFile {
        id: FileId { version: 1, writer },
        size: 0,
        crc32: 0,
    };
    let settled = SettledPartition {
        group: GROUP,
        from: ledger.partition(GROUP).stamp(),
        files: vec![file],
    };
    Settlement {
        buckets: vec![bucket],
        partitions: vec![settled],
        ..Settlement::default()
    }
}

/// The answer to a settlement is lost, and another trainer settles the same partition before the first one reads again.
/// The first trainer's copy lacks the training of the other.
#[test]
fn a_copy_is_of_what_was_settled_and_not_of_what_others_settled_since() {
    let (wire, one, two) = two();
    let bucket = Bucket::new(0, 0);
    one.submit(lease(bucket)).unwrap();
    let settled = settlement(&one, bucket);
    let expected = settled.partitions[0].stamp();
    let again = move |_: &Wire| {
        // As if another trainer had settled the same bucket in the next pass.
        two.refresh().unwrap();
        let record = two.last_record().unwrap();
        let mut work = record.work().clone();
        work.partitions[0].generation += 1;
        let mut text = serde_json::to_value(&*record).unwrap();
        text["work"] = serde_json::to_value(&work).unwrap();
        let value = serde_json::to_vec(&text).unwrap();
        let revision = two.register.read().unwrap().unwrap().revision;
        two.register.write(Some(revision), &value, "two").unwrap();
    };
    *wire.after_lost.lock().unwrap() = Some(Box::new(again));
    one.settle(settled).unwrap();
    assert_eq!(one.stamp(GROUP), expected);
    assert!(!one.is_current(GROUP));
}

/// Another thread of the trainer reads the record between the write of a settlement and its answer.
#[test]
fn a_copy_is_current_though_another_thread_sees_its_settlement_first() {
    let (wire, one, _two) = two();
    let bucket = Bucket::new(0, 0);
    one.submit(lease(bucket)).unwrap();
    one.set_stamp(GROUP, one.partition(GROUP).stamp());
    let settled = settlement(&one, bucket);
    let one = Arc::new(one);
    let (reader, was_current) = (Arc::clone(&one), Arc::new(AtomicBool::new(false)));
    let told = Arc::clone(&was_current);
    let read = move |_: &Wire| {
        let record = reader.refresh().unwrap().unwrap();
        assert!(record.trainers()[&reader.token()].leases.is_empty());
        told.store(reader.is_current(GROUP), Ordering::Relaxed);
    };
    *wire.after_lost.lock().unwrap() = Some(Box::new(read));
    one.settle(settled).unwrap();
    assert!(was_current.load(Ordering::Relaxed) && one.is_current(GROUP));
}

/// A trainer picks a bucket and is paused. Meanwhile others end the pass and open the next one, in which the bucket is
/// free again.
#[test]
fn a_bucket_of_a_pass_that_has_ended_is_not_leased() {
    let mut of_two_chunks = terms();
    of_two_chunks.extent.edge_chunks = 2;
    let (wire, one, two) = two_with(&of_two_chunks);
    let record = two.refresh().unwrap().unwrap();
    let mut work = record.work().clone();
    work.pass.edge_chunk += 1;
    let mut text = serde_json::to_value(&*record).unwrap();
    text["work"] = serde_json::to_value(&work).unwrap();
    wire.replace(&text);
    let refused = one.submit(lease(Bucket::new(0, 0)));
    let is_refused = matches!(
        refused,
        Err(NotApplied::Refused(TransactionError::Pass { .. }))
    );
    assert!(is_refused, "{refused:?}");
    let next = LedgerAction::Lease {
        pass: work.pass,
        bucket: Bucket::new(0, 0),
    };
    one.submit(next).unwrap();
}

/// If several abandoned writes are delayed, the register applies the first one that arrives.
#[test]
fn what_was_given_up_may_still_arrive() {
    let (wire, one, two) = two();
    wire.is_slow.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        let tries = AtomicU64::new(0);
        // The action is wanted at the first attempt, but no longer at the second.
        let wanted = || tries.fetch_add(1, Ordering::Relaxed) == 0;
        let nothing = LedgerAction::GiveUp {
            pass: PassId::default(),
            buckets: Vec::new(),
        };
        let given_up = one.submit_while(nothing, &wanted);
        assert!(
            matches!(given_up, Err(NotApplied::Abandoned)),
            "{given_up:?}"
        );
    }
    wire.deliver();
    one.submit(lease(Bucket::new(0, 0))).unwrap();
    let record = two.refresh().unwrap().unwrap();
    assert_eq!(record.trainers()[&one.token()].leases, [Bucket::new(0, 0)]);
    one.refresh().unwrap();
}

/// A register that accepts every write and keeps serving the old record is asked with pauses, and not for ever.
#[test]
fn a_register_that_forgets_what_it_accepts_is_given_up() {
    let (wire, one, two) = two();
    let last = one.last_record().unwrap().trainers()[&two.token()].last;
    let register = Arc::clone(&wire) as Arc<dyn Register>;
    let live = Arc::clone(&wire) as Arc<dyn LiveTraffic>;
    let other = LedgerClient::new(register, live, Token(3), Duration::from_millis(200));
    wire.is_forgetful.store(true, Ordering::Relaxed);
    let token = two.token();
    let error = other.evict(SilentTrainer { token, last }).unwrap_err();
    assert!(matches!(error, JoinError::Unreachable { .. }), "{error}");
    wire.is_forgetful.store(false, Ordering::Relaxed);
    assert!(other.evict(SilentTrainer { token, last }).unwrap());
}

/// What was removed is reported, even if the record cannot be read afterwards.
#[test]
fn a_removal_that_was_accepted_counts_although_nothing_is_read_after_it() {
    let (wire, one, two) = two();
    let last = one.last_record().unwrap().trainers()[&two.token()].last;
    let register = Arc::clone(&wire) as Arc<dyn Register>;
    let live = Arc::clone(&wire) as Arc<dyn LiveTraffic>;
    let other = LedgerClient::new(register, live, Token(3), Duration::from_millis(200));
    wire.falls_silent.store(true, Ordering::Relaxed);
    let token = two.token();
    assert!(other.evict(SilentTrainer { token, last }).unwrap());
    wire.is_silent.store(false, Ordering::Relaxed);
    let record = one.refresh().unwrap().unwrap();
    assert!(!record.trainers().contains_key(&token));
}

#[test]
fn one_that_has_left_without_an_answer_has_left() {
    let (wire, one, _two) = two();
    *wire.after_lost.lock().unwrap() = Some(Box::new(|_| ()));
    one.submit(LedgerAction::Leave).unwrap();
}

#[test]
fn a_record_of_another_protocol_is_left_alone() {
    let (wire, one, _two) = two();
    let mut record = serde_json::to_value(&*one.last_record().unwrap()).unwrap();
    record["terms"]["protocol"] = 99.into();
    record["news"] = true.into();
    let value = serde_json::to_vec(&record).unwrap();
    let revision = wire.value.lock().unwrap().0;
    wire.write(Some(revision), &value, "").unwrap();
    let error = one.refresh().unwrap_err();
    assert!(
        matches!(error, JoinError::Protocol { found: 99 }),
        "{error}"
    );
}

/// Returns the record that `one` knows, with the terms that `change` makes of its own, as another trainer may write it.
fn with_other_terms(one: &LedgerClient, change: Change) -> serde_json::Value {
    let record = one.last_record().unwrap();
    let mut terms = record.terms().clone();
    change(&mut terms);
    let mut work = TrainedState::none(&terms.grid);
    work.plan = Some(plan_digest(&[]));
    // The last pass that these terms allow.
    work.pass.edge_set = terms.extent.edge_sets - 1;
    let mut text = serde_json::to_value(&*record).unwrap();
    text["terms"] = serde_json::to_value(&terms).unwrap();
    text["work"] = serde_json::to_value(&work).unwrap();
    text
}

/// A trainer looks up its edges and partitions by what the record says, so it must never see a pass or a grid that it
/// does not have.
#[test]
fn a_record_with_other_terms_is_refused_before_it_is_known() {
    let changes: [(&str, Change); 3] = [
        ("the extent of training", |terms| terms.extent.edge_sets = 8),
        ("the grid of buckets", |terms| {
            (terms.grid.lhs, terms.grid.rhs) = (9, 9);
        }),
        ("the hash of the configuration", |terms| {
            terms.training = "x".to_owned();
        }),
    ];
    for (what, change) in changes {
        let (wire, one, _two) = two();
        let foreign = with_other_terms(&one, change);
        let record: LedgerRecord = serde_json::from_value(foreign.clone()).unwrap();
        record.check().unwrap();
        wire.replace(&foreign);
        let refusals = [
            one.refresh().unwrap_err(),
            one.try_refresh().unwrap_err(),
            one.submit(lease(Bucket::new(0, 0)))
                .unwrap_err()
                .into_error(),
            one.remove_server(Token(7)).unwrap_err(),
        ];
        for refusal in refusals {
            assert!(matches!(refusal, JoinError::OtherTerms(_)), "{refusal}");
            assert!(refusal.to_string().contains(what), "{refusal}");
        }
        assert_eq!(*one.last_record().unwrap().terms(), terms());
    }
}

/// The answer to a trainer that joins is lost, and another trainer changes the terms before the first one reads again.
#[test]
fn other_terms_are_refused_while_the_answer_to_joining_is_lost() {
    let (wire, one, _two) = two();
    let foreign = with_other_terms(&one, |terms| terms.extent.edge_sets = 8);
    let register = Arc::clone(&wire) as Arc<dyn Register>;
    let live = Arc::clone(&wire) as Arc<dyn LiveTraffic>;
    let third = LedgerClient::new(register, live, Token(3), Duration::from_secs(5));
    let record = third.refresh().unwrap().unwrap();
    let change = move |wire: &Wire| {
        let value = wire.value.lock().unwrap().1.clone();
        let joined: serde_json::Value = serde_json::from_slice(&value).unwrap();
        let mut foreign = foreign.clone();
        foreign["trainers"] = joined["trainers"].clone();
        wire.replace(&foreign);
    };
    *wire.after_lost.lock().unwrap() = Some(Box::new(change));
    let join = Join {
        terms: terms(),
        name: "three".to_owned(),
        rank: None,
        instead_of: None,
        incarnation: record.incarnation(),
        newest: None,
    };
    let refusal = third.submit(LedgerAction::Join(Box::new(join)));
    let is_refused = matches!(refusal, Err(NotApplied::Fatal(JoinError::OtherTerms(_))));
    assert!(is_refused, "{refusal:?}");
}

/// Once the trainers of a run have gone, another one with other terms may replace it.
#[test]
fn one_whose_run_was_replaced_is_not_part_of_the_next() {
    for leaves in [true, false] {
        let (wire, one, _two) = two();
        let mut next = with_other_terms(&one, |terms| terms.extent.edge_sets = 8);
        next["trainers"] = serde_json::json!({});
        if leaves {
            let replace = move |wire: &Wire| wire.replace(&next);
            *wire.after_lost.lock().unwrap() = Some(Box::new(replace));
            one.submit(LedgerAction::Leave).unwrap();
        } else {
            wire.replace(&next);
            let error = one.refresh().unwrap_err();
            assert!(matches!(error, JoinError::Fenced(_)), "{error}");
        }
        assert_eq!(*one.last_record().unwrap().terms(), terms());
    }
}

/// A thread that read before another one wrote returns after the write.
#[test]
fn what_was_read_late_replaces_nothing_newer() {
    let (_wire, one, _two) = two();
    let known = LedgerView::default();
    let seen = |revision| VersionedRecord {
        revision,
        record: one.last_record().unwrap(),
    };
    let before = known.before();
    known.applied(1, Some(seen(7)), &[]);
    known.read(before, Some(&seen(6)));
    assert_eq!(known.seen().unwrap().revision, 7);
    // A read that begins afterwards and returns an older revision means that writes were lost.
    known.read(known.before(), Some(&seen(5)));
    assert_eq!(known.seen().unwrap().revision, 5);
}
