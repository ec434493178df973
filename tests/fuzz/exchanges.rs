//! Fuzzing of the exchange of shared parameters: questions of other trainers and their answers, which are nearly valid.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use pbg_core::loss::{ParameterSchedule, ScheduleProgress, TracedLoss};
use pbg_core::model::{Comparator, Operator, Regularizer};
use pbg_core::strategy::{Loss as _, StrategyError, StrategyId};
use pbg_distributed::received::ExchangingTrainer;
use pbg_formula::loss::{LossDefinition, LossParameter};
use pbg_formula::node::{Binary, FormulaNode};
use pbg_fuzz::{Dice, bytes};
use pbg_ledger::transport::{
    Heartbeat, LastHeartbeat, LiveTraffic, NoAnswer, QuestionHandler, Register, RegisterEntry,
    WriteReply,
};
use pbg_ledger::{
    Genesis, Grid, Join, LedgerAction, LedgerRecord, RunTerms, Token, TrainedState, Transaction,
};
use pbg_rows::params::Params;
use pbg_rows::shared_rows::SharedRows;
use pbg_rows::spec::{EntitySpec, ModelSpec, RelationSpec};
use pbg_rows::table::Table;
use pbg_train::GuardedLoss;
use stats_alloc::Region;

use crate::{fuzz, turn};

const TRAINERS: u64 = 3;
const DIMENSION: usize = 4;
const ENTITIES: usize = 6;

fn spec() -> ModelSpec {
    ModelSpec {
        entities: vec![EntitySpec {
            name: "e".to_owned(),
            dimension: DIMENSION,
            featurized: false,
            frozen: false,
        }],
        relations: vec![RelationSpec {
            lhs: 0,
            rhs: 0,
            operator: Operator::Translation,
            weight: 1.0,
            all_negs: false,
        }],
        dynamic_relations: Some(5),
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

/// Halves the parameter.
struct Halving;

impl ParameterSchedule for Halving {
    fn update(&mut self, _: &ScheduleProgress, values: &[f32]) -> Result<Vec<f32>, StrategyError> {
        Ok(values.iter().map(|value| 0.5 * value).collect())
    }
}

fn loss() -> GuardedLoss {
    let definition = LossDefinition {
        nodes: vec![
            FormulaNode::Positive,
            FormulaNode::Parameter(0),
            FormulaNode::Binary(Binary::Mul, 0, 1),
        ],
        output: 2,
        parameters: vec![LossParameter {
            name: "scale".to_owned(),
            value: 1.0,
        }],
        update_every: 2,
    };
    let traced = TracedLoss {
        id: StrategyId {
            name: "scaled".to_owned(),
            version: "1".to_owned(),
            sha256: String::new(),
        },
        graph: definition.check(10).unwrap(),
        schedule: Some(Box::new(Halving)),
        keep: None,
    };
    GuardedLoss::new(pbg_train::traced(traced), None)
}

/// Register and network of a run within this process, which changes some of what it carries.
#[derive(Default)]
struct HostileNetwork {
    record: Vec<u8>,
    trainers: Mutex<BTreeMap<Token, Weak<ExchangingTrainer>>>,
    /// What is drawn, and how often something was carried unchanged.
    state: Mutex<Option<(Dice, u64)>>,
    /// An earlier message, parts of which replace those of others.
    earlier: Mutex<Vec<u8>>,
}

impl HostileNetwork {
    fn carry(&self, message: &[u8]) -> Vec<u8> {
        let mut state = self.state.lock().unwrap();
        let (dice, carried) = state.as_mut().unwrap();
        let mut earlier = self.earlier.lock().unwrap();
        let changed = match dice.below(6) {
            0 => bytes(dice, message, &earlier),
            1 => {
                // A number at one of the places where messages have numbers.
                let mut changed = message.to_vec();
                let at = *dice.pick(&[1, 5, 9, 13, 17, 21, 29, 33, 37, 41, 45, 49, 53]);
                let number = dice
                    .pick(&[0_u64, 1, 7, 1 << 32, u64::MAX - 1, u64::MAX])
                    .to_le_bytes();
                let size = *dice.pick(&[4, 8]);
                if let Some(part) = changed.get_mut(at..at + size) {
                    part.copy_from_slice(&number[..size]);
                }
                changed
            }
            2 => {
                let mut changed = message.to_vec();
                let at = changed.len() - changed.len().min(4 * (1 + dice.below(12)));
                let number = dice
                    .pick(&[f32::MAX, f32::MIN, 1e38, f32::NAN, -0.0])
                    .to_le_bytes();
                if let Some(part) = changed.get_mut(at..at + 4) {
                    part.copy_from_slice(&number);
                }
                changed
            }
            _ => {
                *carried += 1;
                message.to_vec()
            }
        };
        if dice.once_in(3) {
            *earlier = message.to_vec();
        }
        changed
    }

    fn chance(&self) -> usize {
        self.state.lock().unwrap().as_mut().unwrap().0.below(10)
    }
}

impl Register for HostileNetwork {
    fn read(&self) -> Result<Option<RegisterEntry>, NoAnswer> {
        let value = self.record.clone();
        Ok(Some(RegisterEntry { revision: 1, value }))
    }

    fn write(&self, _: Option<u64>, _: &[u8], _: &str) -> Result<WriteReply, NoAnswer> {
        Ok(WriteReply::Refused)
    }
}

impl LiveTraffic for HostileNetwork {
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
        if self.chance() == 0 {
            return Err(lost());
        }
        let trainer = self.trainers.lock().unwrap().get(&whom).cloned();
        let trainer = trainer.and_then(|trainer| trainer.upgrade());
        let answer = trainer.ok_or_else(lost)?.answer(&self.carry(question));
        Ok(self.carry(&answer))
    }

    fn answer(&self, _: Token, _: QuestionHandler) -> Result<(), NoAnswer> {
        Ok(())
    }
}

/// Returns the record of a run that all trainers have joined.
fn record() -> LedgerRecord {
    let terms = RunTerms::of_one_pass(Grid {
        lhs: 2,
        rhs: 2,
        shared: true,
        tables: [vec!["e".to_owned()], Vec::new()],
    });
    let mut record = LedgerRecord::create(Genesis {
        work: TrainedState::none(&terms.grid),
        terms: terms.clone(),
        run: Token(100),
        incarnation: Token(101),
        wanted: 0,
        base: None,
        servers: Default::default(),
    })
    .unwrap();
    for token in 1..=TRAINERS {
        let join = Join {
            terms: terms.clone(),
            name: token.to_string(),
            rank: None,
            instead_of: None,
            incarnation: Token(101),
            newest: None,
        };
        let joins = Transaction {
            token: Token(token),
            number: 1,
            after: 0,
            action: LedgerAction::Join(Box::new(join)),
        };
        record = record.apply(&joins).unwrap();
    }
    record
}

/// Returns the numbers that trainers exchange.
fn shared_rows<'a>(params: &'a Params, table: &'a Table) -> impl Iterator<Item = &'a SharedRows> {
    let tensors = params.tensors().iter();
    let tensors = tensors.flat_map(|tensor| [&tensor.values, &tensor.adagrad]);
    tensors.chain([&table.embeddings, &table.state])
}

#[test]
fn exchanges() {
    let turn = turn();
    let record = serde_json::to_vec(&record()).unwrap();
    let most = Cell::new(0);
    fuzz(turn, "exchanges", 200, 256 << 20, |dice, _| {
        let network = Arc::new(HostileNetwork {
            record: record.clone(),
            ..HostileNetwork::default()
        });
        *network.state.lock().unwrap() = Some((Dice::new(dice.bits()), 0));
        let mut trainers = Vec::new();
        for token in 1..=TRAINERS {
            let params = Arc::new(Params::new(&spec(), 0));
            let table = Arc::new(Table::new(vec![0.0; ENTITIES * DIMENSION], DIMENSION));
            let (register, live) = (Arc::clone(&network), Arc::clone(&network));
            let (loss, token) = (loss(), Token(token));
            let arrays = (Arc::clone(&params), vec![Arc::clone(&table)]);
            let trainer =
                ExchangingTrainer::new(register, live, token, arrays, loss.clone()).unwrap();
            let trainer = Arc::new(trainer);
            let mut all = network.trainers.lock().unwrap();
            all.insert(token, Arc::downgrade(&trainer));
            trainers.push((trainer, params, table, loss));
        }
        let region = Region::new(crate::ALLOCATOR);
        for _ in 0..dice.from(1, 30) {
            let (trainer, params, table, loss) = dice.pick(&trainers);
            for rows in shared_rows(params, table) {
                let row = dice.below(rows.rows());
                rows.add_to_row(row, 1.0, &vec![0.5; rows.width()]);
            }
            loss.observe(10, 5.0).unwrap();
            trainer.round();
        }
        // What is kept follows from the size of the model, and not from what was sent.
        let change = region.change();
        let kept = change
            .bytes_allocated
            .saturating_sub(change.bytes_deallocated);
        most.set(most.get().max(kept));
        assert!(kept < 256 << 10, "{kept} bytes are kept");
        for (_, params, table, _) in &trainers {
            for rows in shared_rows(params, table) {
                let mut values = vec![0.0; rows.rows() * rows.width()];
                rows.read_rows(0, &mut values);
                assert!(values.iter().all(|value| value.is_finite()), "{values:?}");
            }
        }
        let carried = network.state.lock().unwrap().as_ref().unwrap().1;
        carried > 0
    });
    eprintln!("exchanges keep at most {} bytes", most.get());
}
