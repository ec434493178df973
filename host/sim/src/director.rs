//! The course of a simulated run: its trainers are disturbed for a while, then left alone until they end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use pbg_train::RunOutcome;

use crate::check;
use crate::fault::SimFault;
use crate::partition_memory::ServerFaults;
use crate::scenario::{Disturbance, SimScenario};
use crate::trainer::{PATIENCE, SharedRun, TrainerProcess};
use crate::world::Disturbances;

/// Time within which the trainers must end once nothing disturbs them.
const ENDS_WITHIN: Duration = Duration::from_secs(3600);

/// Starts and disturbs the trainers of a run.
pub(crate) struct Director<'a> {
    run: &'a Arc<SharedRun>,
    scenario: &'a SimScenario,
    trainers: Vec<TrainerProcess>,
    /// Ranks whose trainer has reported the end of the run.
    finished: BTreeSet<usize>,
    /// When the disturbances ended.
    quiet_since: Option<Duration>,
}

impl<'a> Director<'a> {
    pub(crate) fn new(run: &'a Arc<SharedRun>, scenario: &'a SimScenario) -> Self {
        Self {
            run,
            scenario,
            trainers: Vec::new(),
            finished: BTreeSet::new(),
            quiet_since: None,
        }
    }

    /// Runs the trainers until all have ended, or something is violated. Returns when the disturbances ended.
    ///
    /// # Errors
    /// When a trainer cannot be started.
    pub(crate) fn direct(mut self) -> Result<Duration> {
        let Self { run, scenario, .. } = self;
        run.register.set_faults(scenario.register);
        run.network.set_loss(scenario.message_loss);
        run.world.set_disk(scenario.disk);
        if let (Some(opened), Some(faults)) = (&run.store, scenario.store) {
            opened.store.set_faults(faults);
        }
        if let Some((_, faults)) = scenario.servers {
            run.servers.set_faults(faults);
        }
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
        let quiet_since = run.world.time();
        self.quiet_since = Some(quiet_since);
        let until = quiet_since + ENDS_WITHIN;
        while !self.is_over() {
            if run.world.time() > until {
                run.violate("the run does not end although nothing disturbs it");
            }
            self.start_again(Disturbances::default())?;
            pbg_clock::sleep(Duration::from_secs(1));
        }
        Ok(quiet_since)
    }

    fn is_over(&self) -> bool {
        let has_failed = self.run.is_violated() || self.run.world.panics() > 0;
        has_failed || self.finished.len() == self.trainers.len()
    }

    /// Whether a trainer may still suffer from a disturbance: from one now, or from one that it has not got over yet.
    fn is_disturbed(&self) -> bool {
        let recovers_within = PATIENCE + self.scenario.lease;
        let now = self.run.world.time();
        self.quiet_since
            .is_none_or(|since| now < since + recovers_within)
    }

    fn narrate(&self, what: &str) {
        (self.run.narrator)(self.run.world.time(), what);
    }

    /// Disturbs the run once.
    fn disturb(&self) {
        let Self { run, scenario, .. } = self;
        let (world, register) = (&run.world, &run.register);
        let drawn = |count: usize| world.draw(|dice| dice.below(count));
        let disturbance = world.draw(|dice| dice.one_of(&Disturbance::ALL));
        let process = self.trainers[drawn(self.trainers.len())].process;
        let other = self.trainers[drawn(self.trainers.len())].process;
        let time = world.draw(|dice| dice.duration(4 * scenario.lease));
        let number = drawn(5);
        let kills = scenario.disturbances.kill > 0.0;
        self.narrate(&format!("{disturbance:?} of {process:?}, {other:?}"));
        match disturbance {
            Disturbance::Kill if kills => world.kill(process),
            Disturbance::CutPower if kills => world.cut_power(process),
            Disturbance::Pause => world.pause(process, time),
            Disturbance::CutNetwork if world.inject(SimFault::CutNetwork) => {
                run.network.cut(process, other, true);
            }
            Disturbance::RestoreNetwork => run.network.cut(process, other, false),
            Disturbance::CutOffRegister if world.inject(SimFault::CutOffRegister) => {
                run.cut_off(process, true);
            }
            Disturbance::RestoreRegister => run.cut_off(process, false),
            Disturbance::SilenceRegister if world.inject(SimFault::SilentRegister) => {
                run.silence_until(world.time() + time);
            }
            Disturbance::LoseLastWrites if kills && world.inject(SimFault::LostWrites) => {
                register.lose_last(1 + number);
            }
            Disturbance::LoseAllWrites
                if kills && number == 0 && world.inject(SimFault::LostWrites) =>
            {
                register.lose_last(usize::MAX);
            }
            Disturbance::Stop if world.inject(SimFault::Stop) => {
                self.trainers
                    .iter()
                    .filter(|trainer| trainer.process == process)
                    .for_each(TrainerProcess::ask_to_stop);
            }
            Disturbance::SetCalendar => {
                let seconds = world.draw(|dice| 7200.0 * dice.share() - 3600.0);
                world.set_calendar(process, seconds);
            }
            Disturbance::FillDisk => world.fill_disk_until(world.time() + time),
            _ => {}
        }
    }

    /// Ends all disturbances.
    fn restore(&self) {
        self.run.restore_register();
        self.run.network.restore();
        self.run.servers.set_faults(ServerFaults::default());
        self.run.world.restore_disk();
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
            let what = match &ended {
                None => "was killed".to_owned(),
                Some(Ok(outcome)) => format!("ended: {outcome:?}"),
                Some(Err(error)) => format!("failed: {error:?}"),
            };
            self.narrate(&format!("trainer {rank} {what}"));
            match ended {
                Some(Ok(RunOutcome::Finished { .. })) => {
                    self.finished.insert(rank);
                }
                Some(Err(error)) if !check::is_expected(&error, self.is_disturbed()) => {
                    let error = anyhow::Error::from(error);
                    self.run
                        .violate(&format!("trainer {rank} failed: {error:#}"));
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
