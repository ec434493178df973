//! The exchange between several trainers in one process, with numbers that floats add exactly.

use std::collections::BTreeMap;
use std::thread;

use pbg_core::lock::lock;
use pbg_core::model::{Comparator, Operator, Regularizer};
use pbg_ledger::transport::{
    Heartbeat, LastHeartbeat, NoAnswer, QuestionHandler, Register, RegisterEntry, WriteReply,
};
use pbg_ledger::{Genesis, Join, LedgerAction, LedgerRecord, OperatorCommand, Token, TrainedState};
use pbg_rows::params::Params;
use pbg_rows::shared_rows::SharedRows;
use pbg_rows::spec::{EntitySpec, ModelSpec, RelationSpec};
use pbg_rows::table::Table;

use super::message::{PeerRequest, SignedRequest};
use super::*;
use crate::ledger::LedgerThreads;
use crate::ledger::tests::terms;

mod leaving;
mod losses;
mod sums;

const RELATIONS: usize = 300;
const DIMENSION: usize = 600;
const ENTITIES: usize = 500;
const LIMITS: SyncLimits = SyncLimits {
    rounds: 1000.0,
    bytes: 1e9,
};

fn spec() -> ModelSpec {
    let entity = EntitySpec {
        name: "e".to_owned(),
        dimension: DIMENSION,
        featurized: false,
        frozen: false,
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
        operator_init_scale: None,
        regularizer: Regularizer::N3,
        regularization_coef: 0.0,
        relation_prediction: 0.0,
        lr: 0.1,
        relation_lr: 0.1,
        num_batch_negs: 1,
        num_uniform_negs: 0,
        chunk_size: None,
        disable_lhs_negs: false,
        disable_rhs_negs: false,
    }
}

/// A register and a network within one process. Of five answers, one is lost, although the question was handled.
#[derive(Default)]
struct Hub {
    value: Mutex<(u64, Vec<u8>)>,
    answers: Mutex<BTreeMap<Token, QuestionHandler>>,
    asked: std::sync::atomic::AtomicU64,
}

impl Hub {
    /// Asks the trainer that has asked `question` about all of its blocks. It would never answer if it held a lock of one
    /// while it asks.
    fn asks_back(&self, question: &[u8]) {
        let from = u64::from_le_bytes(question[1..9].try_into().unwrap());
        let Some(answers) = lock(&self.answers).get(&Token(from)).cloned() else {
            return;
        };
        let all = SignedRequest {
            from: Token(from),
            question: PeerRequest::WhichHeld((0..64).collect()),
        };
        answers(&all.encode());
        for block in 0..4 {
            let question = PeerRequest::State { block, piece: 0 };
            let from = Token(from);
            answers(&SignedRequest { from, question }.encode());
        }
    }
}

impl Register for Hub {
    fn read(&self) -> Result<Option<RegisterEntry>, NoAnswer> {
        let (revision, value) = lock(&self.value).clone();
        Ok((revision > 0).then_some(RegisterEntry { revision, value }))
    }

    fn write(&self, after: Option<u64>, value: &[u8], _: &str) -> Result<WriteReply, NoAnswer> {
        let mut newest = lock(&self.value);
        if newest.0 != after.unwrap_or(0) {
            return Ok(WriteReply::Refused);
        }
        *newest = (newest.0 + 1, value.to_vec());
        Ok(WriteReply::Accepted(newest.0))
    }
}

impl LiveTraffic for Hub {
    fn beat(&self, _: &Heartbeat) {}

    fn heartbeats(&self) -> Vec<LastHeartbeat> {
        Vec::new()
    }

    fn wake(&self) {}

    fn wait(&self, _: Duration) -> bool {
        false
    }

    fn ask(&self, whom: Token, question: &[u8], _: Duration) -> Result<Vec<u8>, NoAnswer> {
        let lost = || NoAnswer("lost".to_owned());
        self.asks_back(question);
        let answers = lock(&self.answers).get(&whom).cloned().ok_or_else(lost)?;
        let answer = answers(question);
        // Not simply every fifth: if the number of questions in a round is a multiple of 5, the same one would always
        // be lost.
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        match (asked.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 5 {
            4 => Err(lost()),
            _ => Ok(answer),
        }
    }

    fn answer(&self, me: Token, answers: QuestionHandler) -> Result<(), NoAnswer> {
        lock(&self.answers).insert(me, answers);
        Ok(())
    }
}

/// Returns parameters of several blocks.
pub(super) fn params() -> Arc<Params> {
    Arc::new(Params::new(&spec(), 0))
}

/// Joins the run of `register` as the trainer `token`.
fn join_run(
    register: Arc<dyn Register>,
    live: &Arc<dyn LiveTraffic>,
    token: u64,
) -> Arc<LedgerClient> {
    let patience = Duration::from_secs(5);
    let ledger = LedgerClient::new(register, Arc::clone(live), Token(token), patience);
    let record = ledger.refresh().unwrap().expect("a record");
    let join = Join {
        terms: terms(),
        name: token.to_string(),
        rank: None,
        instead_of: None,
        incarnation: record.incarnation(),
        newest: None,
    };
    ledger.submit(LedgerAction::Join(Box::new(join))).unwrap();
    Arc::new(ledger)
}

struct Trainer {
    ledger: Arc<LedgerClient>,
    params: Arc<Params>,
    /// Table of a type with one partition.
    table: Arc<Table>,
    loss: GuardedLoss,
    exchange: ParameterExchange,
    /// Dropped after the exchange, whose last questions need the ledger.
    _attendance: LedgerThreads,
}

impl Trainer {
    fn join(hub: &Arc<Hub>, token: u64) -> Self {
        Self::join_with(hub, token, losses::without_parameters())
    }

    fn join_with(hub: &Arc<Hub>, token: u64, loss: GuardedLoss) -> Self {
        let (register, live) = (
            Arc::clone(hub) as Arc<dyn Register>,
            Arc::clone(hub) as Arc<dyn LiveTraffic>,
        );
        let patience = Duration::from_secs(5);
        let (ledger, params) = (join_run(register, &live, token), params());
        let attendance = LedgerThreads::start(&ledger).unwrap();
        let table = Arc::new(Table::new(vec![0.0; ENTITIES * DIMENSION], DIMENSION));
        let arrays = SharedArrays::new(Arc::clone(&params), vec![Arc::clone(&table)]);
        let exchange =
            ParameterExchange::start(arrays, Some(loss.clone()), &ledger, &live, LIMITS, patience)
                .unwrap();
        Self {
            ledger,
            params,
            table,
            loss,
            exchange,
            _attendance: attendance,
        }
    }

    /// Returns every array.
    fn rows(&self) -> impl Iterator<Item = &SharedRows> {
        let tensors = self.params.tensors().iter();
        let tensors = tensors.flat_map(|tensor| [&tensor.values, &tensor.adagrad]);
        tensors.chain([&self.table.embeddings, &self.table.state])
    }

    /// Adds 1 to all numbers of `times` rows of every array, as a worker does.
    fn work(&self, times: usize, seed: usize) {
        let gate = self.exchange.gate();
        for at in 0..times {
            let _batch = gate.read().unwrap();
            for rows in self.rows() {
                let row = (at * 31 + seed) % rows.rows();
                rows.add_to_row(row, 1.0, &vec![1.0; rows.width()]);
            }
        }
    }

    /// Settles everything that it has added.
    fn settle(&self) {
        self.tell();
        self.ledger.begin_settlement();
        self.ledger.end_settlement();
        self.tell();
    }

    /// Runs rounds until every owner has counted all additions.
    fn tell(&self) {
        assert!(self.exchange.flush(Duration::from_secs(60)));
    }

    /// Leaves like a trainer that was asked to stop.
    fn leave(self) {
        assert!(self.exchange.transfer_all(Duration::from_secs(60)));
        self.ledger.submit(LedgerAction::Leave).unwrap();
    }

    /// Dies: it answers no questions, and is removed from the run.
    fn die(self, hub: &Hub) {
        let Self {
            exchange, ledger, ..
        } = self;
        drop(exchange);
        lock(&hub.answers).remove(&ledger.token());
        let mut newest = lock(&hub.value);
        let record: LedgerRecord = serde_json::from_slice(&newest.1).unwrap();
        let record = record
            .apply_command(OperatorCommand::Evict(ledger.token()))
            .unwrap();
        *newest = (newest.0 + 1, serde_json::to_vec(&record).unwrap());
    }

    fn total(&self) -> f64 {
        let sum = |rows: &SharedRows| {
            let mut values = vec![0.0; rows.rows() * rows.width()];
            rows.read_rows(0, &mut values);
            let sum: f64 = values.iter().map(|v| f64::from(*v)).sum();
            sum / rows.width() as f64
        };
        self.rows().map(sum).sum()
    }
}

/// Returns by how much one more row in every array increases the total.
fn arrays() -> f64 {
    2.0 * params().tensors().len() as f64 + 2.0
}

fn hub() -> Arc<Hub> {
    let founding = Genesis {
        terms: terms(),
        run: Token(1),
        incarnation: Token(2),
        wanted: 1,
        work: TrainedState::none(&terms().grid),
        base: None,
        servers: Default::default(),
    };
    let record = LedgerRecord::create(founding).unwrap();
    let hub = Hub::default();
    *lock(&hub.value) = (1, serde_json::to_vec(&record).unwrap());
    Arc::new(hub)
}

/// Runs rounds until every trainer has the same total, so that messages under way arrive.
fn agree(trainers: &[Trainer], expected: f64) {
    for _ in 0..200 {
        for trainer in trainers {
            trainer.tell();
        }
        if trainers.iter().all(|t| (t.total() - expected).abs() < 1e-9) {
            return;
        }
    }
    let totals: Vec<f64> = trainers.iter().map(Trainer::total).collect();
    panic!("{totals:?} instead of {expected}");
}

/// Runs a worker of each trainer, in parallel with the exchange thread. Returns by how much they increase the total.
fn train(trainers: &[Trainer], times: usize) -> f64 {
    thread::scope(|scope| {
        for (seed, trainer) in trainers.iter().enumerate() {
            scope.spawn(move || trainer.work(times, seed));
        }
    });
    times as f64 * arrays() * trainers.len() as f64
}
