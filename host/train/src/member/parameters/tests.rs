//! The exchange between several trainers in one process, with numbers that floats add exactly.

use pbg_core::cluster::{Answers, Beat, Entry, Heard, NoAnswer, Register, Written};
use pbg_core::ledger::{Action, Founding, Grid, Join, Order, PROTOCOL, Record, Terms, Work};
use pbg_core::model::{Comparator, Operator};
use pbg_core::schedule::Extent;
use pbg_kernels::spec::{EntitySpec, ModelSpec, RelationSpec};

use super::*;

const RELATIONS: usize = 300;
const DIMENSION: usize = 600;

fn spec() -> ModelSpec {
    let entity = EntitySpec {
        name: "e".to_owned(),
        dimension: DIMENSION,
        featurized: false,
    };
    let relation = RelationSpec {
        lhs: 0,
        rhs: 0,
        operator: Operator::Translation,
        weight: 1.0,
        all_negs: false,
    };
    ModelSpec {
        entities: vec![entity],
        relations: vec![relation],
        dynamic_relations: Some(RELATIONS),
        comparator: Comparator::Dot,
        bias: false,
        global_emb: true,
        max_norm: None,
        regularization_coef: 0.0,
        lr: 0.1,
        relation_lr: 0.1,
        num_batch_negs: 1,
        num_uniform_negs: 0,
        chunk_size: None,
        disable_lhs_negs: false,
        disable_rhs_negs: false,
    }
}

/// A register and a network of one process. Of five questions, one gets no answer, though it was heard.
#[derive(Default)]
struct Hub {
    value: Mutex<(u64, Vec<u8>)>,
    answers: Mutex<BTreeMap<Token, Answers>>,
    asked: std::sync::atomic::AtomicU64,
}

impl Register for Hub {
    fn read(&self) -> Result<Option<Entry>, NoAnswer> {
        let (revision, value) = lock(&self.value).clone();
        Ok((revision > 0).then_some(Entry { revision, value }))
    }

    fn write(&self, after: Option<u64>, value: &[u8], _: &str) -> Result<Written, NoAnswer> {
        let mut newest = lock(&self.value);
        if newest.0 != after.unwrap_or(0) {
            return Ok(Written::Refused);
        }
        *newest = (newest.0 + 1, value.to_vec());
        Ok(Written::As(newest.0))
    }
}

impl Live for Hub {
    fn beat(&self, _: &Beat) {}

    fn heard(&self) -> Vec<Heard> {
        Vec::new()
    }

    fn wake(&self) {}

    fn wait(&self, _: Duration) -> bool {
        false
    }

    fn ask(&self, whom: Token, question: &[u8], _: Duration) -> Result<Vec<u8>, NoAnswer> {
        let lost = || NoAnswer("lost".to_owned());
        let answers = lock(&self.answers).get(&whom).cloned().ok_or_else(lost)?;
        let answer = answers(question);
        // Not every fifth: a round may have as many questions, and the same one would be lost for ever.
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        match (asked.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 5 {
            4 => Err(lost()),
            _ => Ok(answer),
        }
    }

    fn answer(&self, me: Token, answers: Answers) -> Result<(), NoAnswer> {
        lock(&self.answers).insert(me, answers);
        Ok(())
    }
}

fn terms() -> Terms {
    Terms {
        protocol: PROTOCOL,
        training: String::new(),
        dataset: 0,
        plugins: Vec::new(),
        extent: Extent {
            epochs: 1,
            edge_sets: 1,
            edge_chunks: 1,
        },
        grid: Grid {
            lhs: 2,
            rhs: 2,
            shared: true,
            tables: [vec!["e".to_owned()], Vec::new()],
        },
        tree_init: false,
    }
}

struct Trainer {
    ledger: Arc<Ledger>,
    params: Arc<Params>,
    exchange: Parameters,
}

impl Trainer {
    fn join(hub: &Arc<Hub>, token: u64) -> Self {
        let (register, live) = (
            Arc::clone(hub) as Arc<dyn Register>,
            Arc::clone(hub) as Arc<dyn Live>,
        );
        let patience = Duration::from_secs(5);
        let ledger = Ledger::new(register, Arc::clone(&live), Token(token), patience);
        ledger.refresh().unwrap();
        let join = Join {
            terms: terms(),
            name: token.to_string(),
            rank: None,
            instead_of: None,
        };
        ledger.submit(Action::Join(Box::new(join))).unwrap();
        let (ledger, params) = (Arc::new(ledger), Arc::new(Params::new(&spec())));
        let pause = Duration::from_millis(1);
        let exchange = Parameters::start(&params, &ledger, &live, pause, patience).unwrap();
        Self {
            ledger,
            params,
            exchange,
        }
    }

    /// Adds 1 to `times` rows of every array, as a worker does.
    fn work(&self, times: usize, seed: usize) {
        let gate = self.exchange.gate();
        for at in 0..times {
            let _batch = gate.read().unwrap();
            for tensor in self.params.tensors() {
                for rows in [&tensor.values, &tensor.adagrad] {
                    let row = (at * 31 + seed) % rows.rows();
                    rows.add_to_row(row, 1.0, &vec![1.0; rows.width()]);
                }
            }
        }
    }

    /// Settles what it added.
    fn settle(&self) {
        self.tell();
        self.ledger.begin_settlement();
        self.ledger.end_settlement();
        self.tell();
    }

    /// Rounds until every owner has heard of what was added, and answered.
    fn tell(&self) {
        let rounds = (0..50).map(|_| self.exchange.round());
        assert_eq!(rounds.count(), 50);
    }

    fn total(&self) -> f64 {
        let sum = |values: Vec<f32>| values.iter().map(|v| f64::from(*v)).sum::<f64>();
        let tensors = self.params.tensors().iter();
        let totals =
            tensors.map(|t| (sum(t.to_vec()) + sum(t.adagrad_to_vec())) / t.values.width() as f64);
        totals.sum()
    }
}

fn hub() -> Arc<Hub> {
    let founding = Founding {
        terms: terms(),
        run: Token(1),
        incarnation: Token(2),
        wanted: 1,
        work: Work::none(&terms().grid),
        base: None,
    };
    let record = Record::found(founding).unwrap();
    let hub = Hub::default();
    *lock(&hub.value) = (1, serde_json::to_vec(&record).unwrap());
    Arc::new(hub)
}

/// Rounds until every trainer has the same: what is under way arrives.
fn agree(trainers: &[Trainer], expected: f64) {
    for _ in 0..200 {
        for trainer in trainers {
            trainer.exchange.round();
        }
        if trainers.iter().all(|t| (t.total() - expected).abs() < 1e-9) {
            return;
        }
    }
    let totals: Vec<f64> = trainers.iter().map(Trainer::total).collect();
    panic!("{totals:?} instead of {expected}");
}

#[test]
fn what_all_workers_added_is_everywhere_whoever_comes_and_goes() {
    let hub = hub();
    let mut trainers: Vec<Trainer> = (1..=3).map(|token| Trainer::join(&hub, token)).collect();
    let arrays = 2.0 * trainers[0].params.tensors().len() as f64;
    let train = |trainers: &[Trainer]| {
        thread::scope(|scope| {
            for (seed, trainer) in trainers.iter().enumerate() {
                // Two workers each, beside the exchange's own thread.
                scope.spawn(move || trainer.work(40, seed));
            }
        });
        40.0 * arrays * trainers.len() as f64
    };
    let mut expected = train(&trainers);
    agree(&trainers, expected);
    // One comes, with initial values: it takes over what is its to own.
    trainers.push(Trainer::join(&hub, 4));
    agree(&trainers, expected);
    expected += train(&trainers);
    agree(&trainers, expected);
    // One settles and leaves.
    let left = trainers.remove(0);
    left.settle();
    left.ledger.submit(Action::Leave).unwrap();
    expected += train(&trainers);
    agree(&trainers, expected);
    drop(left);
}

#[test]
fn what_one_that_is_lost_had_not_settled_is_nowhere() {
    let hub = hub();
    let mut trainers: Vec<Trainer> = (1..=3).map(|token| Trainer::join(&hub, token)).collect();
    let arrays = 2.0 * trainers[0].params.tensors().len() as f64;
    // Somebody owns each block by now, with everybody's first message.
    agree(&trainers, 0.0);
    trainers[0].work(10, 0);
    trainers[0].settle();
    agree(&trainers, 10.0 * arrays);
    trainers[0].work(5, 0);
    agree(&trainers, 15.0 * arrays);
    let Trainer { exchange, .. } = trainers.remove(0);
    drop(exchange);
    lock(&hub.answers).remove(&Token(1));
    let (revision, value) = lock(&hub.value).clone();
    let record: Record = serde_json::from_slice(&value).unwrap();
    let record = record.order(Order::Evict(Token(1))).unwrap();
    *lock(&hub.value) = (revision + 1, serde_json::to_vec(&record).unwrap());
    for trainer in &trainers {
        trainer.ledger.refresh().unwrap();
    }
    // Blocks that it owned itself go on from copies, where nobody has counted it apart.
    for _ in 0..50 {
        let rounds = trainers.iter().map(|t| t.exchange.round());
        assert_eq!(rounds.count(), 2);
    }
    let totals: Vec<f64> = trainers.iter().map(Trainer::total).collect();
    assert!((totals[0] - totals[1]).abs() < 1e-9, "{totals:?}");
    assert!(
        (10.0 * arrays..15.0 * arrays).contains(&totals[0]),
        "{totals:?}"
    );
}
