//! Kinds of faults, and how often each was injected.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// Kind of fault that a simulation injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SimFault {
    /// A process is killed; what it has written stays.
    Kill,
    /// A machine loses its power: its process is killed, and what it has not synced is lost.
    PowerLoss,
    /// A process is paused.
    Pause,
    /// A trainer is asked to stop, as by Ctrl-C.
    Stop,
    /// The calendar of a machine is wrong.
    WrongCalendar,
    /// A request to the register does not arrive.
    LostRequest,
    /// The register's answer does not arrive.
    LostAnswer,
    /// A write arrives after the client has given up.
    LateWrite,
    /// The register refuses a write for no reason.
    RefusedWrite,
    /// A write arrives twice.
    RepeatedWrite,
    /// The register answers nobody for a while.
    SilentRegister,
    /// A process does not reach the register.
    CutOffRegister,
    /// The register loses its last writes, or all.
    LostWrites,
    /// Messages of one process no longer reach another.
    CutNetwork,
    /// A message between trainers is lost.
    LostMessage,
    /// An operation on a file takes long.
    SlowDisk,
    /// The disk is full for a while.
    FullDisk,
    /// The object store lists the objects of an earlier moment.
    OldListing,
}

impl SimFault {
    /// All kinds.
    pub const ALL: [Self; 18] = [
        Self::Kill,
        Self::PowerLoss,
        Self::Pause,
        Self::Stop,
        Self::WrongCalendar,
        Self::LostRequest,
        Self::LostAnswer,
        Self::LateWrite,
        Self::RefusedWrite,
        Self::RepeatedWrite,
        Self::SilentRegister,
        Self::CutOffRegister,
        Self::LostWrites,
        Self::CutNetwork,
        Self::LostMessage,
        Self::SlowDisk,
        Self::FullDisk,
        Self::OldListing,
    ];
}

impl fmt::Display for SimFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// How often each kind of fault was injected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultCounts(BTreeMap<SimFault, u64>);

impl FaultCounts {
    /// Returns how often a kind was injected.
    #[must_use]
    pub fn of(&self, fault: SimFault) -> u64 {
        self.0.get(&fault).copied().unwrap_or(0)
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        for (fault, count) in &other.0 {
            *self.0.entry(*fault).or_default() += count;
        }
    }
}

/// Decides which faults are injected, and counts them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Injector {
    /// Kinds that are not injected.
    without: BTreeSet<SimFault>,
    counts: FaultCounts,
}

impl Injector {
    pub(crate) fn new(without: BTreeSet<SimFault>) -> Self {
        Self {
            without,
            counts: FaultCounts::default(),
        }
    }

    /// Returns whether a fault of this kind is to happen, and counts it.
    pub(crate) fn inject(&mut self, fault: SimFault) -> bool {
        let happens = !self.without.contains(&fault);
        if happens {
            *self.counts.0.entry(fault).or_default() += 1;
        }
        happens
    }

    pub(crate) fn counts(&self) -> &FaultCounts {
        &self.counts
    }
}
