//! Status of a distributed run, as a table for `cluster status` and below the progress bar of every trainer.

use std::collections::BTreeMap;
use std::time::Duration;

use pbg_config::Config;
use pbg_ledger::transport::{LastHeartbeat, LiveTraffic as _, TrainerActivity};
use pbg_ledger::{BucketState, LedgerRecord, Phase, Token};
use pbg_transport::Connection;
use serde::Serialize;

use crate::cluster_waits::WaitStatus;
use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::{cluster_options, format, tables};

/// Maximum number of trainers with a line below a progress bar.
const MOST_LINES: usize = 20;

/// Durations without a heartbeat after which a trainer is shown as silent or expires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeartbeatTimes {
    /// Interval of heartbeats. A trainer is silent after three of them without one.
    pub(crate) heartbeat: Duration,
    /// Time without a heartbeat after which the other trainers remove a trainer from the run.
    lease: Duration,
}

impl HeartbeatTimes {
    /// Returns the times of a configuration.
    pub(crate) fn of(config: &Config) -> Self {
        let rules = &config.distributed;
        Self {
            heartbeat: Duration::from_secs_f64(rules.heartbeat),
            lease: Duration::from_secs_f64(rules.lease),
        }
    }
}

/// Current status of a distributed run.
#[derive(Debug, Serialize)]
pub(crate) struct ClusterStatus {
    run: Token,
    phase: String,
    epoch: u32,
    epochs: u32,
    buckets_done: usize,
    buckets: usize,
    /// Version of the newest checkpoint in the ledger; 0 before the first.
    checkpoint: u64,
    /// Number of transactions of the ledger so far.
    revision: u64,
    /// Server that carries heartbeats; `None` if trainers read them from the object store.
    server: Option<String>,
    /// Folder in an object store with the ledger; `None` if it is on the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    ledger_url: Option<String>,
    /// Response time of the ledger, in seconds.
    answer_seconds: f64,
    trainers: Vec<TrainerStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<ServerStatus>,
}

/// Current status of a partition server.
#[derive(Debug, Serialize)]
struct ServerStatus {
    token: Token,
    address: String,
    /// Size of its memory in bytes.
    memory: u64,
    /// Seconds since the server's last heartbeat; `None` if none was received.
    silent_seconds: Option<f64>,
}

impl ServerStatus {
    fn text(&self) -> String {
        let heard = match self.silent_seconds.map(Duration::try_from_secs_f64) {
            Some(Ok(silent)) => format!("heard {} ago", format::duration(silent)),
            _ => "never heard".to_owned(),
        };
        let memory = format::bytes(self.memory);
        format!("{} (up to {memory}, {heard})", self.address)
    }
}

/// Current status of a trainer.
#[derive(Debug, Serialize)]
struct TrainerStatus {
    token: Token,
    name: String,
    rank: Option<u32>,
    state: Option<TrainerActivity>,
    /// Buckets that the trainer has leased.
    buckets: Vec<String>,
    edges_per_second: f64,
    /// Fraction of time that training waited.
    waited: f64,
    /// Duration in seconds of the trainer's last exchange of parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<f64>,
    /// Seconds since the trainer's last heartbeat; `None` if none was received.
    silent_seconds: Option<f64>,
    /// What the trainer waits for, and which trainers; `None` if it works, or if the ledger does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<WaitStatus>,
}

impl ClusterStatus {
    /// Reads the status from the ledger and the heartbeats received so far.
    ///
    /// # Errors
    /// When the ledger does not answer or is empty.
    pub(crate) fn of(connection: &Connection) -> Result<Self> {
        let asked = pbg_clock::now();
        let Some(record) = cluster_options::record(connection)? else {
            let what = "there is no run: the ledger is empty";
            return Err(Failure::message(FailureKind::Cluster, what));
        };
        let answer_seconds = asked.elapsed().as_secs_f64();
        let heard = connection.heartbeats().into_iter();
        let heard: BTreeMap<Token, LastHeartbeat> =
            heard.map(|heard| (heard.beat.token, heard)).collect();
        let (work, extent) = (record.work(), record.terms().extent);
        let is_done = |state: &BucketState| matches!(state, BucketState::Done | BucketState::Empty);
        let base = record.checkpoints().base();
        Ok(Self {
            run: record.run(),
            phase: phase(&record),
            epoch: work.pass.epoch + 1,
            epochs: extent.epochs,
            buckets_done: work.buckets.iter().filter(is_done).count(),
            buckets: work.buckets.len(),
            checkpoint: base.map_or(0, |base| base.version),
            revision: record.revision(),
            server: connection.server().map(str::to_owned),
            ledger_url: connection.ledger_url().map(str::to_owned),
            answer_seconds,
            trainers: trainers(&record, &heard),
            servers: servers(&record, &heard),
        })
    }

    /// Formats the status of the run in one line.
    pub(crate) fn head(&self) -> String {
        format!(
            "run {}  {}  epoch {}/{}  buckets {}/{}  checkpoint {}  ledger {} {} ({:.1} ms)",
            self.run,
            self.phase,
            self.epoch.min(self.epochs),
            self.epochs,
            self.buckets_done,
            self.buckets,
            self.checkpoint,
            self.revision,
            self.place(),
            1e3 * self.answer_seconds,
        )
    }

    /// Says where the ledger is, and what carries the heartbeats if that is something else.
    fn place(&self) -> String {
        match (&self.ledger_url, &self.server) {
            (None, server) => format!("on {}", server.as_deref().unwrap_or("no server")),
            (Some(url), Some(server)) => format!("in {url}, heartbeats through {server}"),
            (Some(url), None) => format!("in {url}, heartbeats by polling"),
        }
    }

    /// Formats a table with a header and a line for each trainer. The caller must escape it for the terminal, because
    /// trainers choose their names freely.
    pub(crate) fn table(&self, rules: &HeartbeatTimes) -> String {
        if self.trainers.is_empty() {
            return "no trainers".to_owned();
        }
        let header = [
            "trainer",
            "state",
            "buckets",
            "edges/s",
            "waited",
            "parameters",
            "last heartbeat",
            "",
        ];
        let rows = self.trainers.iter().map(|trainer| trainer.row(rules));
        let table = tables::plain(header, rows, |column| (3..7).contains(&column));
        match self.servers.is_empty() {
            true => table,
            false => {
                let servers: Vec<String> = self.servers.iter().map(ServerStatus::text).collect();
                format!(
                    "{}\npartition servers: {}",
                    table.trim_end(),
                    servers.join(", ")
                )
            }
        }
    }
}

/// Returns the lines of a table that are shown below a progress bar, and the number of lines left out.
pub(crate) fn truncated_table(table: &str) -> String {
    let mut lines: Vec<&str> = table.lines().collect();
    let hidden = lines.len().saturating_sub(1 + MOST_LINES);
    lines.truncate(1 + MOST_LINES);
    let mut text = lines.join("\n");
    if hidden > 0 {
        text.push_str(&format!(
            "\n and {hidden} more: `pbg-host cluster status` shows all"
        ));
    }
    text
}

impl TrainerStatus {
    fn row(&self, rules: &HeartbeatTimes) -> [String; 8] {
        let silent = self.silent_seconds.map(Duration::try_from_secs_f64);
        let silent = silent.and_then(std::result::Result::ok);
        let is_silent = silent.is_none_or(|silent| silent > 3 * rules.heartbeat);
        let state = match self.state.filter(|_| !is_silent) {
            None => "silent".to_owned(),
            Some(state) => format!("{state:?}").to_lowercase(),
        };
        let unless_silent = |text: String| if is_silent { "-".to_owned() } else { text };
        [
            self.name.clone(),
            state,
            self.buckets.join(" "),
            unless_silent(format::count(self.edges_per_second)),
            unless_silent(format!("{:.1} %", 100.0 * self.waited)),
            unless_silent(match self.parameters {
                Some(seconds) => format!("{:.0} ms", 1e3 * seconds),
                None => "-".to_owned(),
            }),
            silent.map_or_else(|| "never".to_owned(), format::duration),
            match silent.filter(|_| is_silent) {
                Some(silent) => self.expiry_note(rules.lease.saturating_sub(silent)),
                None => match &self.waits_for {
                    Some(wait) if !is_silent => format!("waits for {}", wait.what),
                    _ => String::new(),
                },
            },
        ]
    }

    /// Describes what happens `left` from now if the trainer stays silent.
    fn expiry_note(&self, left: Duration) -> String {
        let buckets = format::plural(self.buckets.len() as u64, "bucket");
        format!("expires in {} s; {buckets} to train again", left.as_secs())
    }
}

/// Describes the phase of a run.
fn phase(record: &LedgerRecord) -> String {
    match record.phase() {
        Phase::Gathering(wanted) => {
            let here = record.trainers().len();
            match here >= wanted as usize {
                true => format!(
                    "waiting for partition servers, {} are there",
                    record.servers().len()
                ),
                false => format!("waiting for trainers, {here} of {wanted} have joined"),
            }
        }
        Phase::Opening => "planning".to_owned(),
        Phase::Training => "training".to_owned(),
        Phase::PassDone => "between two passes".to_owned(),
        Phase::Ranking => {
            let blocks = record.ranking().map_or(&[][..], |ranking| &ranking.blocks);
            let (ranked, all) = (blocks.iter().flatten().count(), blocks.len());
            format!("validating, {ranked} of {all} blocks ranked")
        }
        Phase::Stopping => "stopping".to_owned(),
        Phase::Finished => "finished".to_owned(),
    }
}

/// Returns the status of each trainer, by rank, then by name.
fn trainers(record: &LedgerRecord, heard: &BTreeMap<Token, LastHeartbeat>) -> Vec<TrainerStatus> {
    let status = |(token, trainer): (&Token, &pbg_ledger::Trainer)| {
        let heard = heard.get(token);
        TrainerStatus {
            token: *token,
            name: trainer.name.clone(),
            rank: trainer.rank,
            state: heard.map(|heard| heard.beat.state),
            buckets: trainer.leases.iter().map(ToString::to_string).collect(),
            edges_per_second: heard.map_or(0.0, |heard| heard.beat.edges_per_second),
            waited: heard.map_or(0.0, |heard| heard.beat.waited),
            parameters: heard.and_then(|heard| heard.beat.parameters),
            silent_seconds: heard.map(|heard| heard.ago.as_secs_f64()),
            waits_for: WaitStatus::of(record, *token),
        }
    };
    let mut trainers: Vec<TrainerStatus> = record.trainers().iter().map(status).collect();
    trainers.sort_by_key(|trainer| (trainer.rank.is_none(), trainer.rank, trainer.name.clone()));
    trainers
}

/// Returns the status of each partition server, by address.
fn servers(record: &LedgerRecord, heard: &BTreeMap<Token, LastHeartbeat>) -> Vec<ServerStatus> {
    let servers = record.servers().iter().map(|(token, server)| ServerStatus {
        token: *token,
        address: server.address.clone(),
        memory: server.memory,
        silent_seconds: heard.get(token).map(|heard| heard.ago.as_secs_f64()),
    });
    let mut servers: Vec<ServerStatus> = servers.collect();
    servers.sort_by(|a, b| a.address.cmp(&b.address));
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trainer(name: &str, silent_seconds: Option<f64>) -> TrainerStatus {
        TrainerStatus {
            token: Token(1),
            name: name.to_owned(),
            rank: None,
            state: silent_seconds.map(|_| TrainerActivity::Training),
            buckets: vec!["(3, 7)".to_owned(), "(7, 3)".to_owned()],
            edges_per_second: 402_000.0,
            waited: 0.012,
            parameters: Some(0.0123),
            silent_seconds,
            waits_for: None,
        }
    }

    #[test]
    fn who_is_silent_is_told_apart() {
        let status = ClusterStatus {
            run: Token(1),
            phase: "training".to_owned(),
            epoch: 3,
            epochs: 10,
            buckets_done: 118,
            buckets: 256,
            checkpoint: 2,
            revision: 1204,
            server: Some("here:1".to_owned()),
            ledger_url: None,
            answer_seconds: 0.0019,
            trainers: vec![
                trainer("node-a (0)", Some(0.4)),
                trainer("node-c (2)", Some(19.2)),
                trainer("node-d (3)", None),
            ],
            servers: Vec::new(),
        };
        let rules = HeartbeatTimes {
            heartbeat: Duration::from_secs(2),
            lease: Duration::from_secs(30),
        };
        let waiting = WaitStatus {
            what: "partition 3 of node-c (2)".to_owned(),
            trainers: vec![Token(1)],
        };
        let mut status = status;
        status.trainers[0].waits_for = Some(waiting.clone());
        status.trainers[2].waits_for = Some(waiting);
        let table = status.table(&rules);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 4, "{table}");
        for words in [
            "node-a (0)",
            "training",
            "(3, 7) (7, 3)",
            "402 k",
            "1.2 %",
            "0.4 s",
        ] {
            assert!(lines[1].contains(words), "{table}");
        }
        assert!(
            lines[1].ends_with("waits for partition 3 of node-c (2)"),
            "{table}"
        );
        assert!(lines[2].contains("silent"), "{table}");
        assert!(
            lines[2].contains("expires in 10 s; 2 buckets to train again"),
            "{table}"
        );
        assert!(
            lines[3].contains("never") && !lines[3].contains("waits"),
            "{table}"
        );
        assert!(
            status.head().contains("epoch 3/10  buckets 118/256"),
            "{}",
            status.head()
        );
    }

    #[test]
    fn a_bar_has_room_for_some() {
        let few = "trainer\n a\n b";
        assert_eq!(truncated_table(few), few);
        let many = "line\n".repeat(70);
        let cut = truncated_table(&many);
        assert_eq!(cut.lines().count(), 22);
        assert!(
            cut.ends_with("and 49 more: `pbg-host cluster status` shows all"),
            "{cut}"
        );
    }
}
