//! Owners join, leave or die while others add: every number counts exactly once.

use std::sync::Weak;
use std::sync::atomic::AtomicUsize;

use super::*;

/// Adds rows to the arrays of every trainer while `meanwhile` runs. Returns by how much they increase the total.
fn while_training(trainers: &[Trainer], meanwhile: impl FnOnce()) -> f64 {
    let (over, added) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for (seed, trainer) in trainers.iter().enumerate() {
            let (over, added) = (&over, &added);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    trainer.work(1, seed + added.fetch_add(1, Ordering::Relaxed));
                    pbg_clock::sleep(Duration::from_micros(200));
                }
            });
        }
        meanwhile();
        over.store(true, Ordering::Relaxed);
    });
    added.load(Ordering::Relaxed) as f64 * arrays()
}

#[test]
fn what_is_told_to_an_owner_while_it_leaves_counts_once() {
    for round in 0..4 {
        let hub = hub();
        let mut trainers: Vec<Trainer> = (1..=3)
            .map(|token| Trainer::join(&hub, 10 * round + token))
            .collect();
        let mut expected = train(&trainers, 5);
        let leaving = trainers.remove(0);
        expected += while_training(&trainers, || leaving.leave());
        agree(&trainers, expected);
    }
}

#[test]
fn two_leave_and_one_comes_at_the_same_time() {
    let hub = hub();
    let mut trainers: Vec<Trainer> = (1..=4).map(|token| Trainer::join(&hub, token)).collect();
    let mut expected = train(&trainers, 5);
    let leaving: Vec<Trainer> = trainers.drain(..2).collect();
    let mut came = None;
    expected += while_training(&trainers, || {
        thread::scope(|scope| {
            for trainer in leaving {
                scope.spawn(move || trainer.leave());
            }
            came = Some(scope.spawn(|| Trainer::join(&hub, 5)).join().unwrap());
        });
    });
    trainers.extend(came);
    agree(&trainers, expected);
    // The last trainer has everything.
    while trainers.len() > 1 {
        trainers.remove(0).leave();
        agree(&trainers, expected);
    }
}

#[test]
fn one_that_dies_takes_nothing_along_that_others_added() {
    for round in 0..4 {
        let hub = hub();
        let mut trainers: Vec<Trainer> = (1..=3)
            .map(|token| Trainer::join(&hub, 10 * round + token))
            .collect();
        let mut expected = train(&trainers, 5);
        // Its own additions are settled, and everybody has received them.
        trainers[0].settle();
        agree(&trainers, expected);
        let dies = trainers.remove(0);
        expected += while_training(&trainers, || {
            pbg_clock::sleep(Duration::from_millis(20));
            dies.die(&hub);
        });
        agree(&trainers, expected);
    }
}

#[test]
fn what_a_trainer_added_behind_its_last_settlement_stays_when_it_leaves() {
    let hub = hub();
    let mut trainers: Vec<Trainer> = (1..=2).map(|token| Trainer::join(&hub, token)).collect();
    let leaving = trainers.remove(0);
    // Trained before the settlement, sent after it.
    leaving.work(10, 0);
    leaving.ledger.begin_settlement();
    leaving.ledger.end_settlement();
    leaving.leave();
    agree(&trainers, 10.0 * arrays());
}

#[test]
fn where_all_leave_at_once_the_last_one_has_everything() {
    for round in 0..4 {
        let hub = hub();
        let join = |token: u64| Trainer::join(&hub, 10 * round + token);
        let trainers: Vec<Trainer> = (1..=3).map(join).collect();
        let expected = train(&trainers, 20);
        let totals = thread::scope(|scope| {
            let leaving = trainers.into_iter().map(|trainer| {
                scope.spawn(move || {
                    assert!(trainer.exchange.transfer_all(Duration::from_secs(60)));
                    trainer.tell();
                    let total = trainer.total();
                    trainer.ledger.submit(LedgerAction::Leave).unwrap();
                    total
                })
            });
            let leaving: Vec<_> = leaving.collect();
            let totals = leaving.into_iter().map(|leaves| leaves.join().unwrap());
            totals.collect::<Vec<f64>>()
        });
        assert!(totals.contains(&expected), "{totals:?} without {expected}");
    }
}

#[test]
fn whoever_comes_leaves_and_dies_meanwhile_every_number_counts_once() {
    let hub = hub();
    let mut trainers: Vec<Trainer> = (1..=3).map(|token| Trainer::join(&hub, token)).collect();
    let mut expected = train(&trainers, 5);
    for token in 4..10 {
        let leaving = trainers.remove(0);
        let mut came = None;
        expected += while_training(&trainers, || {
            thread::scope(|scope| {
                let joining = scope.spawn(|| Trainer::join(&hub, token));
                leaving.leave();
                came = Some(joining.join().unwrap());
            });
        });
        trainers.extend(came);
        agree(&trainers, expected);
        if token % 3 == 0 {
            // This one dies after its additions are settled and received by everybody.
            let dies = trainers.remove(0);
            dies.settle();
            agree(&trainers, expected);
            expected += while_training(&trainers, || dies.die(&hub));
            trainers.push(Trainer::join(&hub, 100 + token));
            agree(&trainers, expected);
        }
    }
}

/// Answers questions like a [`Hub`], and ends the rounds of the asking trainer once it has asked `ends_after` questions.
struct EndingHub {
    hub: Arc<Hub>,
    rounds: Mutex<Weak<ExchangeRounds>>,
    ends_after: u64,
    asked: AtomicU64,
}

impl LiveTraffic for EndingHub {
    fn beat(&self, _: &Heartbeat) {}

    fn heartbeats(&self) -> Vec<LastHeartbeat> {
        Vec::new()
    }

    fn wake(&self) {}

    fn wait(&self, _: Duration) -> bool {
        false
    }

    fn ask(&self, whom: Token, question: &[u8], within: Duration) -> Result<Vec<u8>, NoAnswer> {
        if self.asked.fetch_add(1, Ordering::Relaxed) + 1 == self.ends_after
            && let Some(rounds) = lock(&self.rounds).upgrade()
        {
            rounds.ends.store(true, Ordering::Relaxed);
        }
        self.hub.ask(whom, question, within)
    }

    fn answer(&self, me: Token, answers: QuestionHandler) -> Result<(), NoAnswer> {
        self.hub.answer(me, answers)
    }
}

/// A trainer that leaves waits for the answer to its last question only, however slow the others are.
#[test]
fn once_the_rounds_end_nothing_more_is_asked() {
    let hub = hub();
    let other = Trainer::join(&hub, 1);
    other.tell();
    for ends_after in 1..6 {
        let register = Arc::clone(&hub) as Arc<dyn Register>;
        let ending = Arc::new(EndingHub {
            hub: Arc::clone(&hub),
            rounds: Mutex::default(),
            ends_after,
            asked: AtomicU64::new(0),
        });
        let live = Arc::clone(&ending) as Arc<dyn LiveTraffic>;
        let ledger = join_run(register, &live, 10 + ends_after);
        let table = Arc::new(Table::new(vec![0.0; ENTITIES * DIMENSION], DIMENSION));
        let arrays = SharedArrays::new(params(), vec![table]);
        let loss = Some(losses::without_parameters());
        let rounds = Arc::new(exchange_rounds(arrays, loss, &ledger, &live, LIMITS));
        *lock(&ending.rounds) = Arc::downgrade(&rounds);
        rounds.run();
        assert_eq!(ending.asked.load(Ordering::Relaxed), ends_after);
        // What is sent with a bound of its own is still sent.
        rounds.tell(Duration::from_millis(100));
        assert!(ending.asked.load(Ordering::Relaxed) > ends_after);
        ledger.submit(LedgerAction::Leave).unwrap();
    }
}
