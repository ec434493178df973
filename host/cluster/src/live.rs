//! Live traffic, which may be lost: heartbeats, wake-ups, questions.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::connection::State;
use futures_util::StreamExt;
use pbg_core::cluster::{Answers, Beat, Heard, Live, NoAnswer};
use pbg_core::ledger::Token;
use tokio::sync::mpsc;

use crate::answers::{Answering, question_subject};
use crate::connection::Connection;
use crate::error::ClusterError;
use crate::heard::Beats;
use crate::options::RunName;
use crate::wire::Line;

/// Most messages queued for sending; further ones are dropped.
const OUTBOX: usize = 64;
/// Timeout of subscribing.
const SUBSCRIBE_WITHIN: Duration = Duration::from_secs(5);
/// Longest time for sending the last messages when a connection ends.
const LEAVE_WITHIN: Duration = Duration::from_millis(500);

enum Told {
    Beat(Vec<u8>),
    Wake,
    Leave(tokio::sync::oneshot::Sender<()>),
}

/// Live traffic of a run.
pub(crate) struct Traffic {
    line: Line,
    run: RunName,
    beats: Arc<Beats>,
    outbox: mpsc::Sender<Told>,
    answering: Mutex<Option<Answering>>,
}

impl Traffic {
    /// Subscribes to the heartbeats and wake-ups of all trainers of the run.
    ///
    /// # Errors
    /// Fails if the client accepts no subscription.
    pub(crate) fn open(line: Line, run: &RunName) -> Result<Self, ClusterError> {
        let beats = Arc::new(Beats::default());
        let subjects = [subject(run, "beat"), subject(run, "wake")];
        let subscribe = async {
            let [beat, wake] = subjects.clone();
            let heard = line.client.subscribe(beat).await?;
            let woken = line.client.subscribe(wake).await?;
            line.settled(run).await?;
            Ok::<_, async_nats::Error>((heard, woken))
        };
        let failed =
            |why: String| ClusterError::System(format!("subscribe to other trainers: {why}"));
        let (mut heard, mut woken) = match line.dialer.block(SUBSCRIBE_WITHIN, subscribe) {
            Some(Ok(both)) => both,
            Some(Err(error)) => return Err(failed(error.to_string())),
            None => return Err(failed("no connection".into())),
        };
        let into = Arc::clone(&beats);
        line.dialer.spawn(async move {
            while let Some(message) = heard.next().await {
                into.take(&message.payload, Instant::now());
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
    fn tell(&self, what: Told) {
        self.outbox.try_send(what).ok();
    }

    /// Stops answering, and waits a short time until the queued messages are sent.
    pub(crate) fn leave(&self) {
        self.answering
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let (done, left) = tokio::sync::oneshot::channel();
        self.tell(Told::Leave(done));
        let _ = self.line.dialer.block(LEAVE_WITHIN, left);
    }
}

fn subject(run: &RunName, what: &str) -> String {
    format!("pbg.{}.{what}", run.as_str())
}

async fn send(client: async_nats::Client, subjects: [String; 2], mut told: mpsc::Receiver<Told>) {
    let [beat, wake] = subjects;
    while let Some(what) = told.recv().await {
        // An error means that the client, and therefore the connection, has ended.
        let sent = match what {
            // The client would send the heartbeat after it has reconnected, when it is out of date.
            Told::Beat(_) if client.connection_state() != State::Connected => Ok(()),
            Told::Beat(bytes) => client.publish(beat.clone(), bytes.into()).await,
            Told::Wake => client.publish(wake.clone(), Vec::new().into()).await,
            Told::Leave(done) => {
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

impl Live for Connection {
    fn beat(&self, beat: &Beat) {
        // Other trainers would reject a heartbeat with a number that JSON cannot represent.
        if let Ok(bytes) = serde_json::to_vec(beat) {
            self.traffic.tell(Told::Beat(bytes));
        }
    }

    fn heard(&self) -> Vec<Heard> {
        self.traffic.beats.all(Instant::now())
    }

    fn wake(&self) {
        self.traffic.tell(Told::Wake);
    }

    /// A reconnection counts as a wake-up, because wake-ups may have been missed.
    fn wait(&self, at_most: Duration) -> bool {
        self.traffic.line.signals.wait(at_most)
    }

    fn ask(&self, whom: Token, question: &[u8], within: Duration) -> Result<Vec<u8>, NoAnswer> {
        let line = &self.traffic.line;
        let request = async_nats::Request::new()
            .payload(question.to_vec().into())
            .timeout(None);
        let subject = question_subject(&self.traffic.run, whom);
        let asked = async {
            line.connected().await;
            line.client.send_request(subject, request).await
        };
        match line.dialer.block(within, asked) {
            Some(Ok(answer)) => Ok(answer.payload.to_vec()),
            Some(Err(error)) => Err(NoAnswer(format!("asking {whom}: {error}"))),
            None => Err(NoAnswer(format!("asking {whom}: no answer"))),
        }
    }

    fn answer(&self, me: Token, answers: Answers) -> Result<(), NoAnswer> {
        let traffic = &self.traffic;
        let line = traffic.line.clone();
        let mut answering = traffic
            .answering
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *answering = None;
        *answering = Some(Answering::start(line, &traffic.run, me, answers)?);
        Ok(())
    }
}
