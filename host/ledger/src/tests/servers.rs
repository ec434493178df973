//! Partition servers in the record: the first bucket waits for them, and no settlement relies on one that was removed.

use std::collections::BTreeSet;

use pbg_core::graph::Bucket;

use super::super::*;
use super::asked::to_lease;
use super::refusals::{ONE, act, model, open, settle};

const FIRST: Token = Token(101);
const SECOND: Token = Token(102);

fn add(record: &LedgerRecord, token: Token) -> LedgerRecord {
    let server = PartitionServer {
        address: "127.0.0.1:7700".to_owned(),
        memory: 1 << 30,
    };
    let add = OperatorCommand::AddServer(token, server);
    record.apply_command(add).unwrap()
}

fn remove(record: &LedgerRecord, token: Token) -> Result<LedgerRecord, TransactionError> {
    record.apply_command(OperatorCommand::RemoveServer(token))
}

/// Returns a record of a run that waits for two servers.
fn founded() -> LedgerRecord {
    let model = model();
    let terms = RunTerms {
        servers: Some(ServerTerms {
            count: Some(2),
            replicas: 1,
        }),
        ..model.terms()
    };
    let founding = Genesis {
        work: TrainedState::none(&terms.grid),
        terms,
        run: Token(0),
        incarnation: Token(7),
        wanted: 1,
        base: None,
        servers: Default::default(),
    };
    LedgerRecord::create(founding).unwrap()
}

fn join(record: &LedgerRecord) -> LedgerRecord {
    let join = Join {
        terms: record.terms().clone(),
        name: "one".to_owned(),
        rank: None,
        instead_of: None,
        incarnation: record.incarnation(),
        newest: None,
    };
    act(record, ONE, LedgerAction::Join(Box::new(join))).unwrap()
}

#[test]
fn the_first_bucket_waits_for_servers_and_later_ones_do_not() {
    let record = join(&founded());
    assert_eq!(record.phase(), Phase::Gathering(1));
    let record = add(&add(&record, FIRST), FIRST);
    assert_eq!(record.phase(), Phase::Gathering(1));
    let record = add(&record, SECOND);
    assert_eq!(record.phase(), Phase::Opening);
    let record = remove(&record, FIRST).unwrap();
    assert_eq!(record.phase(), Phase::Opening);
    let token = FIRST;
    assert_eq!(
        remove(&record, FIRST).unwrap_err(),
        TransactionError::NoServer { token }
    );
    record.check().unwrap();
}

#[test]
fn a_settlement_needs_one_server_of_every_file() {
    let bucket = Bucket::new(0, 0);
    let mut record = join(&add(&add(&founded(), FIRST), SECOND));
    record = open(&record, &[]);
    record = act(&record, ONE, to_lease(&record, bucket)).unwrap();
    let on = |servers: &[&[Token]]| {
        let servers = servers.iter();
        let sets = servers.map(|servers| servers.iter().copied().collect::<BTreeSet<_>>());
        Settlement {
            kept_on: sets.collect(),
            ..model().settlement(&record, ONE, bucket)
        }
    };
    settle(&record, &on(&[&[FIRST], &[SECOND]])).unwrap();
    let without = remove(&record, FIRST).unwrap();
    settle(&without, &on(&[&[FIRST, SECOND], &[SECOND]])).unwrap();
    let token = FIRST;
    assert_eq!(
        settle(&without, &on(&[&[SECOND], &[FIRST]])).unwrap_err(),
        TransactionError::NoServer { token }
    );
    // A file in the checkpoint folder needs no server.
    settle(&remove(&without, SECOND).unwrap(), &on(&[])).unwrap();
}

#[test]
fn what_is_too_large_is_refused() {
    let record = founded();
    let server = PartitionServer {
        address: "x".repeat(MAX_ADDRESS + 1),
        memory: 0,
    };
    let long = OperatorCommand::AddServer(FIRST, server);
    let (found, most) = (MAX_ADDRESS + 1, MAX_ADDRESS);
    assert_eq!(
        record.apply_command(long).unwrap_err(),
        TransactionError::Address { found, most }
    );
    let mut full = record;
    for token in 0..MAX_SERVERS as u64 {
        full = add(&full, Token(token));
    }
    full.check().unwrap();
    let server = full.servers()[&Token(0)].clone();
    let more = OperatorCommand::AddServer(Token(u64::MAX), server);
    full.apply_command(more).unwrap_err();
    let text = serde_json::to_string(&full).unwrap();
    let replicas = text.replace("\"replicas\":1", "\"replicas\":3");
    let wrong: LedgerRecord = serde_json::from_str(&replicas).unwrap();
    wrong.check().unwrap_err();
}
