//! The last heartbeats received from trainers.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use pbg_core::lock::lock;
use pbg_ledger::transport::{Heartbeat, LastHeartbeat};
use pbg_ledger::{MAX_NAME, Token};

/// Largest size of a heartbeat in bytes; larger messages are ignored.
pub(crate) const MAX_BEAT: usize = 4 << 10;

/// Most trainers that are remembered. The one whose heartbeat is oldest is replaced.
const MAX_TOKENS: usize = 512;

/// The last heartbeat of each trainer.
#[derive(Default)]
pub(crate) struct HeartbeatLog(Mutex<HashMap<Token, (Heartbeat, Instant)>>);

impl HeartbeatLog {
    /// Stores a message received from the network, if it is a valid heartbeat.
    pub(crate) fn take(&self, bytes: &[u8], now: Instant) {
        let Some(beat) = read(bytes) else { return };
        let mut map = lock(&self.0);
        if map.len() >= MAX_TOKENS && !map.contains_key(&beat.token) {
            let oldest = map
                .iter()
                .min_by_key(|(_, (_, at))| *at)
                .map(|(token, _)| *token);
            if let Some(oldest) = oldest {
                map.remove(&oldest);
            }
        }
        map.insert(beat.token, (beat, now));
    }

    /// Returns all stored heartbeats, in the order of their tokens.
    pub(crate) fn all(&self, now: Instant) -> Vec<LastHeartbeat> {
        let map = lock(&self.0);
        let heard = |(beat, at): &(Heartbeat, Instant)| LastHeartbeat {
            beat: beat.clone(),
            ago: now.saturating_duration_since(*at),
        };
        let mut all: Vec<LastHeartbeat> = map.values().map(heard).collect();
        all.sort_by_key(|heard| heard.beat.token);
        all
    }
}

fn read(bytes: &[u8]) -> Option<Heartbeat> {
    if bytes.len() > MAX_BEAT {
        return None;
    }
    let beat: Heartbeat = serde_json::from_slice(bytes).ok()?;
    let is_rate = |rate: f64| rate.is_finite() && rate >= 0.0;
    let is_good = beat.name.len() <= MAX_NAME
        && is_rate(beat.edges_per_second)
        && is_rate(beat.waited)
        && beat.parameters.is_none_or(is_rate);
    is_good.then_some(beat)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pbg_ledger::transport::TrainerActivity;

    use super::*;

    fn beat(token: u64) -> Heartbeat {
        Heartbeat {
            token: Token(token),
            name: "a".into(),
            rank: None,
            state: TrainerActivity::Waiting,
            bucket: None,
            edges_per_second: 1.0,
            waited: 0.0,
            parameters: None,
        }
    }

    fn bytes(beat: &Heartbeat) -> Vec<u8> {
        serde_json::to_vec(beat).unwrap()
    }

    #[test]
    fn the_newest_beat_counts_and_the_oldest_makes_room() {
        let (beats, start) = (HeartbeatLog::default(), pbg_clock::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let n = MAX_TOKENS as u64;
        for token in 0..n {
            beats.take(&bytes(&beat(token)), at(token));
        }
        beats.take(&bytes(&beat(0)), at(n));
        beats.take(&bytes(&beat(n)), at(n));
        let all = beats.all(at(n + 1));
        assert_eq!(all.len(), MAX_TOKENS);
        assert_eq!(
            (all[0].beat.token, all[0].ago),
            (Token(0), Duration::from_secs(1))
        );
        assert_eq!(all[1].beat.token, Token(2));
    }

    #[test]
    fn what_is_no_beat_is_dropped() {
        let (beats, now) = (HeartbeatLog::default(), pbg_clock::now());
        let long = Heartbeat {
            name: "a".repeat(MAX_NAME + 1),
            ..beat(1)
        };
        let endless = Heartbeat {
            edges_per_second: -1.0,
            ..beat(1)
        };
        let early = Heartbeat {
            parameters: Some(-1.0),
            ..beat(1)
        };
        let huge = Heartbeat {
            name: "a".repeat(MAX_BEAT),
            ..beat(1)
        };
        let more = String::from_utf8(bytes(&beat(1)))
            .unwrap()
            .replacen('{', "{\"x\":1,", 1);
        for wrong in [
            &bytes(&long)[..],
            &bytes(&endless),
            &bytes(&early),
            &bytes(&huge),
            more.as_bytes(),
            b"",
            b"[]",
        ] {
            beats.take(wrong, now);
        }
        assert_eq!(beats.all(now), []);
    }
}
