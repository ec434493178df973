//! A simulated run: trainers that are disturbed for a while, then left alone, and what must hold at the end.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use pbg_model::resolved::ResolvedConfig;
use pbg_train::RunOutcome;
use serde::{Deserialize, Serialize};

use crate::check;
use crate::dice::Dice;
use crate::graph::{self, SHAPES, SimSettings};
use crate::register::RegisterFaults;
use crate::trainer::{PATIENCE, SharedRun, TrainerProcess};
use crate::world::{Disturbances, SimWorld};

/// Time within which the trainers must end once nothing disturbs them.
const ENDS_WITHIN: Duration = Duration::from_secs(3600);

/// What happened in a simulated run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SimOutcome {
    /// What was violated; `None` if everything held.
    pub violation: Option<String>,
    /// Digest of the run: the same seed gives the same.
    pub digest: u64,
    /// Duration of the run in virtual time.
    pub time: Duration,
    /// Number of turns that threads were given.
    pub turns: u64,
    /// Number of pauses of trainers.
    pub pauses: u64,
    /// Number of trainers that were killed.
    pub kills: u64,
    /// Number of faults of the register.
    pub register_faults: u64,
    /// Number of threads that panicked.
    pub panics: u64,
}

impl SimOutcome {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        self.time += other.time;
        self.turns += other.turns;
        self.pauses += other.pauses;
        self.kills += other.kills;
        self.register_faults += other.register_faults;
        self.panics += other.panics;
    }
}

impl fmt::Display for SimOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} hours in {} turns, {} pauses, {} kills, {} faults of the register",
            self.time.as_secs_f64() / 3600.0,
            self.turns,
            self.pauses,
            self.kills,
            self.register_faults
        )
    }
}

/// What a simulation does, drawn from its seed.
struct Scenario {
    run: SimSettings,
    trainers: u32,
    lease: Duration,
    bucket: Duration,
    lease_ahead: Option<bool>,
    disturbances: Disturbances,
    register: RegisterFaults,
    message_loss: f64,
    /// Duration of the disturbances.
    disturbed: Duration,
    /// Mean interval between faults that change the whole run.
    interval: Duration,
}

impl Scenario {
    /// Draws a scenario. Each kind of fault is absent in half of them, since faults can hide each other.
    fn draw(dice: &mut Dice) -> Self {
        let lease = Duration::from_secs(dice.one_of(&[2, 4, 8]));
        let mut rate = |rates: &[f64]| match dice.chance(0.5) {
            true => dice.one_of(rates),
            false => 0.0,
        };
        let register = RegisterFaults {
            lost_request: rate(&[0.01, 0.1]),
            lost_answer: rate(&[0.01, 0.1]),
            late: rate(&[0.01, 0.1]),
            refused: rate(&[0.01, 0.1]),
            twice: rate(&[0.01, 0.1]),
            latency: Duration::from_secs_f64(rate(&[0.01, 1.0])),
        };
        let disturbances = Disturbances {
            pause: rate(&[3e-4, 3e-3]),
            longest: 3 * lease,
            kill: rate(&[1e-4, 1e-3]),
        };
        let message_loss = rate(&[0.05, 0.3]);
        Self {
            run: SimSettings {
                shape: dice.one_of(&SHAPES),
                epochs: dice.one_of(&[1, 2]),
                chunks: dice.one_of(&[1, 2]),
                checkpoint_seconds: dice.one_of(&[0.0, 5.0, 1e6]),
            },
            trainers: dice.one_of(&[1, 2, 3, 4]),
            lease,
            bucket: lease.mul_f64(dice.one_of(&[0.1, 0.5, 2.0])),
            lease_ahead: dice.one_of(&[None, Some(true), Some(false)]),
            disturbances,
            register,
            message_loss,
            disturbed: lease * dice.one_of(&[10, 40]),
            interval: lease.mul_f64(dice.one_of(&[0.5, 2.0, 8.0])),
        }
    }
}

/// Simulates the run of a seed. `datasets` is the folder of [`crate::import_datasets`], and `folder` an empty folder for
/// the files of the run. `narrator` is told what happens and when, in virtual time.
///
/// # Errors
/// When the run cannot be simulated. What it violates is part of the outcome.
pub fn simulate(
    seed: u64,
    datasets: &Path,
    folder: &Path,
    narrator: fn(Duration, &str),
) -> Result<SimOutcome> {
    let scenario = Scenario::draw(&mut Dice::new(seed));
    let config = graph::config(&scenario.run, datasets, &folder.join("model"))?;
    let resolved = ResolvedConfig::new(config)?;
    let mut outcome = SimWorld::run(seed, |world| {
        let run = Arc::new(SharedRun {
            world: Arc::clone(world),
            register: Arc::default(),
            network: Arc::default(),
            resolved: resolved.clone(),
            trainers: scenario.trainers,
            lease: scenario.lease,
            bucket: scenario.bucket,
            lease_ahead: scenario.lease_ahead,
            narrator,
        });
        let mut director = Director {
            run: &run,
            scenario: &scenario,
            trainers: Vec::new(),
            violations: String::new(),
            finished: BTreeSet::new(),
            quiet_since: None,
        };
        director.direct()?;
        let (violations, counts) = (director.violations, world.counts());
        anyhow::Ok(SimOutcome {
            violation: (!violations.is_empty()).then_some(violations),
            digest: world.digest(),
            time: world.time(),
            turns: counts.turns,
            pauses: counts.pauses,
            kills: counts.kills,
            register_faults: run.register.faults(),
            panics: counts.panics,
        })
    })??;
    if outcome.panics > 0 {
        let panics = format!("{} threads panicked\n", outcome.panics);
        outcome.violation.get_or_insert_default().push_str(&panics);
    }
    if outcome.violation.is_none() {
        let violations = check::finished_run(&resolved, &scenario.run, folder)?;
        outcome.violation = (!violations.is_empty()).then_some(violations);
    }
    Ok(outcome)
}

/// Starts and disturbs the trainers of a run.
struct Director<'a> {
    run: &'a Arc<SharedRun>,
    scenario: &'a Scenario,
    trainers: Vec<TrainerProcess>,
    violations: String,
    /// Ranks whose trainer has reported the end of the run.
    finished: BTreeSet<usize>,
    /// When the disturbances ended.
    quiet_since: Option<Duration>,
}

impl Director<'_> {
    fn direct(&mut self) -> Result<()> {
        let Self { run, scenario, .. } = *self;
        run.register.set_faults(scenario.register);
        run.network.set_loss(scenario.message_loss);
        for rank in 0..scenario.trainers {
            self.trainers
                .push(TrainerProcess::start(run, rank, scenario.disturbances)?);
        }
        while run.world.time() < scenario.disturbed && !self.is_over() {
            pbg_clock::sleep(run.world.draw(|dice| dice.duration(2 * scenario.interval)));
            self.disturb();
            self.start_again(scenario.disturbances)?;
        }
        self.narrate("nothing disturbs the run any more");
        self.restore();
        self.quiet_since = Some(run.world.time());
        let until = run.world.time() + ENDS_WITHIN;
        while !self.is_over() {
            if run.world.time() > until {
                self.violate("the run does not end although nothing disturbs it");
                return Ok(());
            }
            self.start_again(Disturbances::default())?;
            pbg_clock::sleep(Duration::from_secs(1));
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.finished.len() == self.trainers.len() || !self.violations.is_empty()
    }

    /// Whether a trainer may still suffer from a disturbance: from one now, or from one that it has not got over yet.
    fn is_disturbed(&self) -> bool {
        let recovers_within = PATIENCE + self.scenario.lease;
        let now = self.run.world.time();
        self.quiet_since
            .is_none_or(|since| now < since + recovers_within)
    }

    fn violate(&mut self, what: &str) {
        let at = self.run.world.time().as_secs_f64();
        let _infallible = writeln!(self.violations, "at {at:.3} s: {what}");
    }

    fn narrate(&self, what: &str) {
        (self.run.narrator)(self.run.world.time(), what);
    }

    /// Does something to the run.
    fn disturb(&self) {
        let Self { run, scenario, .. } = self;
        let (world, register) = (&run.world, &run.register);
        let kind = world.draw(|dice| dice.below(12));
        let drawn = |count: usize| world.draw(|dice| dice.below(count));
        let trainer = &self.trainers[drawn(self.trainers.len())];
        let other = &self.trainers[drawn(self.trainers.len())];
        let disturbs = scenario.disturbances.kill > 0.0;
        self.narrate(&format!(
            "disturbance {kind} of {:?}, {:?}",
            trainer.process, other.process
        ));
        match kind {
            0 if disturbs => world.kill(trainer.process),
            1 => {
                let time = world.draw(|dice| dice.duration(4 * scenario.lease));
                world.pause(trainer.process, time);
            }
            2 => run.network.cut(trainer.process, other.process, true),
            3 => run.network.cut(trainer.process, other.process, false),
            4 => register.cut_off(trainer.process, true),
            5 => register.cut_off(trainer.process, false),
            6 => register
                .stop_until(world.time() + world.draw(|dice| dice.duration(4 * scenario.lease))),
            7 if disturbs => register.lose_last(1 + drawn(5)),
            8 if disturbs && drawn(4) == 0 => register.lose_last(usize::MAX),
            9 => trainer.ask_to_stop(),
            10 => world.set_calendar(
                trainer.process,
                world.draw(|dice| 7200.0 * dice.share() - 3600.0),
            ),
            _ => {}
        }
    }

    /// Ends all disturbances.
    fn restore(&self) {
        self.run.register.restore();
        self.run.network.restore();
        for trainer in &self.trainers {
            self.run.world.leave_alone(trainer.process);
        }
    }

    /// Starts trainers again that have ended before the run was over.
    fn start_again(&mut self, disturbances: Disturbances) -> Result<()> {
        for rank in 0..self.trainers.len() {
            if self.finished.contains(&rank) {
                continue;
            }
            let trainer = &self.trainers[rank];
            let ended = match trainer.take_outcome() {
                None if self.run.world.is_alive(trainer.process) => continue,
                None => None,
                Some(outcome) => Some(outcome),
            };
            let told = match &ended {
                None => "was killed".to_owned(),
                Some(Ok(outcome)) => format!("ended: {outcome:?}"),
                Some(Err(error)) => format!("failed: {error:?}"),
            };
            self.narrate(&format!("trainer {rank} {told}"));
            match ended {
                Some(Ok(RunOutcome::Finished { .. })) => {
                    self.finished.insert(rank);
                }
                Some(Err(error)) if !check::is_expected(&error, self.is_disturbed()) => {
                    let error = anyhow::Error::from(error);
                    self.violate(&format!("trainer {rank} failed: {error:#}"));
                }
                None | Some(Err(_) | Ok(RunOutcome::Interrupted { .. })) => {
                    let started = TrainerProcess::start(self.run, rank as u32, disturbances);
                    self.trainers[rank] = started.context("starting a trainer")?;
                }
            }
        }
        Ok(())
    }
}
