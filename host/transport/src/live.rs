//! Live traffic, which may be lost: heartbeats, wake-ups, questions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::connection::State;
use futures_util::StreamExt;
use pbg_core::lock::lock;
use tokio::sync::mpsc;

use crate::answers::AnswerThread;
use crate::client::NatsConnection;
use crate::error::ConnectError;
use crate::heartbeats::HeartbeatLog;
use crate::options::RunName;

/// Most messages queued for sending; further ones are dropped.
const OUTBOX: usize = 64;
/// Timeout of subscribing.
const SUBSCRIBE_WITHIN: Duration = Duration::from_secs(5);
/// Longest time for sending the last messages when a connection ends.
const LEAVE_WITHIN: Duration = Duration::from_millis(500);

pub(crate) enum Outgoing {
    Beat(Vec<u8>),
    Wake,
    Leave(tokio::sync::oneshot::Sender<()>),
}

/// Live traffic of a run.
pub(crate) struct LiveConnection {
    pub(crate) line: NatsConnection,
    pub(crate) run: RunName,
    pub(crate) beats: Arc<HeartbeatLog>,
    outbox: mpsc::Sender<Outgoing>,
    pub(crate) answering: Mutex<Option<AnswerThread>>,
}

impl LiveConnection {
    /// Subscribes to the heartbeats and wake-ups of all trainers of the run.
    ///
    /// # Errors
    /// Fails if the client accepts no subscription.
    pub(crate) fn open(line: NatsConnection, run: &RunName) -> Result<Self, ConnectError> {
        let beats = Arc::new(HeartbeatLog::default());
        let subjects = [subject(run, "beat"), subject(run, "wake")];
        let subscribe = async {
            let [beat, wake] = subjects.clone();
            let heard = line.client.subscribe(beat).await?;
            let woken = line.client.subscribe(wake).await?;
            line.flushed(run).await?;
            Ok::<_, async_nats::Error>((heard, woken))
        };
        let failed =
            |why: String| ConnectError::System(format!("subscribe to other trainers: {why}"));
        let (mut heard, mut woken) = match line.dialer.block(SUBSCRIBE_WITHIN, subscribe) {
            Some(Ok(both)) => both,
            Some(Err(error)) => return Err(failed(error.to_string())),
            None => return Err(failed("no connection".into())),
        };
        let into = Arc::clone(&beats);
        line.dialer.spawn(async move {
            while let Some(message) = heard.next().await {
                into.take(&message.payload, pbg_clock::now());
            }
        });
        let signals = Arc::clone(&line.signals);
        line.dialer.spawn(async move {
            while woken.next().await.is_some() {
                signals.wake();
            }
        });
        let (outbox, told) = mpsc::channel(OUTBOX);
        line.dialer.spawn(send(line.client.clone(), subjects, told));
        Ok(Self {
            line,
            run: run.clone(),
            beats,
            outbox,
            answering: Mutex::default(),
        })
    }

    /// Queues a message without waiting; if the queue is full, the message is lost.
    pub(crate) fn enqueue(&self, what: Outgoing) {
        self.outbox.try_send(what).ok();
    }

    /// Stops answering, and waits a short time until the queued messages are sent.
    pub(crate) fn leave(&self) {
        lock(&self.answering).take();
        let (done, left) = tokio::sync::oneshot::channel();
        self.enqueue(Outgoing::Leave(done));
        let _ = self.line.dialer.block(LEAVE_WITHIN, left);
    }
}

fn subject(run: &RunName, what: &str) -> String {
    format!("pbg.{}.{what}", run.as_str())
}

async fn send(
    client: async_nats::Client,
    subjects: [String; 2],
    mut told: mpsc::Receiver<Outgoing>,
) {
    let [beat, wake] = subjects;
    while let Some(what) = told.recv().await {
        // An error means that the client, and therefore the connection, has ended.
        let sent = match what {
            // The client would send the heartbeat after it has reconnected, when it is out of date.
            Outgoing::Beat(_) if client.connection_state() != State::Connected => Ok(()),
            Outgoing::Beat(bytes) => client.publish(beat.clone(), bytes.into()).await,
            Outgoing::Wake => client.publish(wake.clone(), Vec::new().into()).await,
            Outgoing::Leave(done) => {
                let flushed = client.flush().await;
                // The receiver may have stopped waiting.
                done.send(()).ok();
                if flushed.is_err() { return } else { Ok(()) }
            }
        };
        if sent.is_err() {
            return;
        }
    }
}
