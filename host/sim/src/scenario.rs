//! What a simulation does, drawn from its seed.

use std::time::Duration;

use crate::dice::Dice;
use crate::disk::DiskFaults;
use crate::graph::{SHAPES, SimSettings};
use crate::partition_memory::ServerFaults;
use crate::register::RegisterFaults;
use crate::store::StoreFaults;
use crate::world::Disturbances;

/// What a simulation does.
pub(crate) struct SimScenario {
    pub(crate) run: SimSettings,
    pub(crate) trainers: u32,
    pub(crate) lease: Duration,
    /// Longest time that training a bucket takes.
    pub(crate) bucket: Duration,
    pub(crate) lease_ahead: Option<bool>,
    pub(crate) disturbances: Disturbances,
    pub(crate) register: RegisterFaults,
    pub(crate) disk: DiskFaults,
    pub(crate) message_loss: f64,
    /// Faults of the object store that the trainers share; `None` if they share a folder, a register and a network.
    pub(crate) store: Option<StoreFaults>,
    /// Number of partition servers that each partition is sent to, and the faults of the way to them; `None` if partitions
    /// are in the folder.
    pub(crate) servers: Option<(u32, ServerFaults)>,
    /// Duration of the disturbances.
    pub(crate) disturbed: Duration,
    /// Longest interval between two disturbances of the whole run, halved.
    pub(crate) interval: Duration,
}

/// Disturbance of a whole process, or of all.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Disturbance {
    Kill,
    CutPower,
    Pause,
    CutNetwork,
    RestoreNetwork,
    CutOffRegister,
    RestoreRegister,
    SilenceRegister,
    LoseLastWrites,
    LoseAllWrites,
    Stop,
    SetCalendar,
    FillDisk,
}

impl Disturbance {
    pub(crate) const ALL: [Self; 13] = [
        Self::Kill,
        Self::CutPower,
        Self::Pause,
        Self::CutNetwork,
        Self::RestoreNetwork,
        Self::CutOffRegister,
        Self::RestoreRegister,
        Self::SilenceRegister,
        Self::LoseLastWrites,
        Self::LoseAllWrites,
        Self::Stop,
        Self::SetCalendar,
        Self::FillDisk,
    ];
}

impl SimScenario {
    /// Draws a scenario. Each kind of fault is absent in half of them, since faults can hide each other.
    pub(crate) fn draw(dice: &mut Dice) -> Self {
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
        let disk = DiskFaults {
            slow: rate(&[0.01, 0.1]),
            longest: 2 * lease,
        };
        let message_loss = rate(&[0.05, 0.3]);
        let mut scenario = Self {
            run: SimSettings {
                shape: dice.one_of(&SHAPES),
                epochs: dice.one_of(&[1, 2]),
                chunks: dice.one_of(&[1, 2]),
                checkpoint_seconds: dice.one_of(&[0.0, 5.0, 1e6]),
                shares_parameters: dice.chance(0.25),
            },
            trainers: dice.one_of(&[1, 2, 3, 4]),
            lease,
            bucket: lease.mul_f64(dice.one_of(&[0.1, 0.5, 2.0])),
            lease_ahead: dice.one_of(&[None, Some(true), Some(false)]),
            disturbances,
            register,
            disk,
            message_loss,
            disturbed: lease * dice.one_of(&[10, 40]),
            interval: lease.mul_f64(dice.one_of(&[0.5, 2.0, 8.0])),
            store: None,
            servers: None,
        };
        let is_possible = !scenario.run.shares_parameters;
        if dice.chance(0.3) && is_possible {
            let mut rate = |rates: &[f64]| match dice.chance(0.5) {
                true => dice.one_of(rates),
                false => 0.0,
            };
            scenario.store = Some(StoreFaults {
                lost_request: rate(&[0.001, 0.01]),
                lost_answer: rate(&[0.001, 0.01]),
                late: rate(&[0.001, 0.01]),
                twice: rate(&[0.01, 0.1]),
                old_listing: rate(&[0.05, 0.3]),
                oldest: 2 * lease,
                latency: Duration::from_secs_f64(rate(&[0.01, 0.2])),
            });
        }
        if dice.chance(0.3) && scenario.trainers > 1 {
            let mut rate = |rates: &[f64]| match dice.chance(0.5) {
                true => dice.one_of(rates),
                false => 0.0,
            };
            let faults = ServerFaults {
                lost_request: rate(&[0.003, 0.03]),
                lost_answer: rate(&[0.003, 0.03]),
                latency: Duration::from_secs_f64(rate(&[0.01, 0.2])),
            };
            scenario.servers = Some((dice.one_of(&[1, 2]), faults));
        }
        scenario
    }
}
