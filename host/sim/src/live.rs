//! Live traffic between simulated trainers: messages are lost, and connections are cut in one direction.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pbg_clock::Monitor;
use pbg_core::lock::lock;
use pbg_ledger::Token;
use pbg_ledger::transport::{Heartbeat, LastHeartbeat, LiveTraffic, NoAnswer, QuestionHandler};

use crate::fault::SimFault;
use crate::world::{Process, SimWorld};

/// A question and the place for its answer.
struct Question {
    text: Vec<u8>,
    answer: Arc<Monitor<Option<Vec<u8>>>>,
}

/// What arrives at one process.
#[derive(Default)]
struct Inbox {
    beats: Mutex<BTreeMap<Token, (Heartbeat, Instant)>>,
    woken: Monitor<bool>,
    questions: Monitor<VecDeque<Question>>,
    /// Token under which the process answers questions, and its answers.
    answers: Mutex<Option<(Token, QuestionHandler)>>,
}

/// The network between the trainers of a simulation.
#[derive(Default)]
pub(crate) struct Network {
    inboxes: Mutex<BTreeMap<Process, Arc<Inbox>>>,
    /// Directions in which nothing arrives: sender and receiver.
    cuts: Mutex<BTreeSet<(Process, Process)>>,
    /// Probability that a message is lost.
    loss: Mutex<f64>,
}

impl Network {
    /// Sets the probability that a message is lost.
    pub(crate) fn set_loss(&self, probability: f64) {
        *lock(&self.loss) = probability;
    }

    /// Cuts the direction from one process to another, or restores it.
    pub(crate) fn cut(&self, from: Process, to: Process, is_cut: bool) {
        let mut cuts = lock(&self.cuts);
        match is_cut {
            true => cuts.insert((from, to)),
            false => cuts.remove(&(from, to)),
        };
    }

    /// Ends all faults.
    pub(crate) fn restore(&self) {
        lock(&self.cuts).clear();
        self.set_loss(0.0);
    }

    /// Returns the inboxes that a message of `from` reaches.
    fn reached(&self, world: &SimWorld, from: Process) -> Vec<Arc<Inbox>> {
        let inboxes = lock(&self.inboxes).clone();
        let reached = inboxes
            .into_iter()
            .filter(|(to, _)| self.delivers(world, from, *to));
        reached.map(|(_, inbox)| inbox).collect()
    }

    fn loses(&self, world: &SimWorld) -> bool {
        let loss = *lock(&self.loss);
        loss > 0.0 && world.draw(|dice| dice.chance(loss)) && world.inject(SimFault::LostMessage)
    }

    fn delivers(&self, world: &SimWorld, from: Process, to: Process) -> bool {
        world.is_alive(to) && !lock(&self.cuts).contains(&(from, to)) && !self.loses(world)
    }
}

/// A process's connection to the network.
pub(crate) struct SimTraffic {
    world: Arc<SimWorld>,
    network: Arc<Network>,
    process: Process,
    inbox: Arc<Inbox>,
}

impl SimTraffic {
    /// Connects the calling process.
    pub(crate) fn new(world: &Arc<SimWorld>, network: &Arc<Network>) -> Self {
        let (process, inbox) = (world.current(), Arc::<Inbox>::default());
        lock(&network.inboxes).insert(process, Arc::clone(&inbox));
        Self {
            world: Arc::clone(world),
            network: Arc::clone(network),
            process,
            inbox,
        }
    }
}

impl Inbox {
    /// Answers questions one after the other.
    fn answer_all(&self) {
        loop {
            let forever = Duration::from_secs(86_400);
            let mut questions = self.questions.wait_while(forever, |left| left.is_empty());
            let Some(question) = questions.pop_front() else {
                continue;
            };
            drop(questions);
            let answers = lock(&self.answers).clone();
            if let Some((_, answers)) = answers {
                let answer = answers(&question.text);
                question.answer.change(|place| *place = Some(answer));
            }
        }
    }
}

impl LiveTraffic for SimTraffic {
    fn beat(&self, beat: &Heartbeat) {
        for inbox in self.network.reached(&self.world, self.process) {
            let heard = (beat.clone(), pbg_clock::now());
            lock(&inbox.beats).insert(beat.token, heard);
        }
    }

    fn heartbeats(&self) -> Vec<LastHeartbeat> {
        let beats = lock(&self.inbox.beats);
        let heard = beats.values().map(|(beat, at)| LastHeartbeat {
            beat: beat.clone(),
            ago: pbg_clock::elapsed(*at),
        });
        heard.collect()
    }

    fn wake(&self) {
        for inbox in self.network.reached(&self.world, self.process) {
            inbox.woken.change(|woken| *woken = true);
        }
    }

    fn wait(&self, at_most: Duration) -> bool {
        let mut woken = self.inbox.woken.wait_while(at_most, |woken| !*woken);
        std::mem::take(&mut woken)
    }

    fn ask(&self, whom: Token, question: &[u8], within: Duration) -> Result<Vec<u8>, NoAnswer> {
        let answer = Arc::new(Monitor::new(None));
        let reached = self.network.reached(&self.world, self.process);
        for inbox in reached {
            let name = lock(&inbox.answers).as_ref().map(|(name, _)| *name);
            if name == Some(whom) {
                let question = Question {
                    text: question.to_owned(),
                    answer: Arc::clone(&answer),
                };
                inbox.questions.change(|left| left.push_back(question));
            }
        }
        let came = answer.wait_while(within, |came| came.is_none()).take();
        came.ok_or_else(|| NoAnswer("no answer in time".to_owned()))
    }

    fn answer(&self, me: Token, answers: QuestionHandler) -> Result<(), NoAnswer> {
        let earlier = lock(&self.inbox.answers).replace((me, answers));
        if earlier.is_some() {
            return Ok(());
        }
        let inbox = Arc::clone(&self.inbox);
        let started = pbg_clock::spawn("answers", move || inbox.answer_all());
        started
            .map(drop)
            .map_err(|error| NoAnswer(error.to_string()))
    }
}
