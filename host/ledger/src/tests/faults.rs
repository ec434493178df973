//! Faults in a world, other than lost replies and late or doubled writes.

use std::sync::Arc;

use super::steps::Step;
use super::world::{Member, Model, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A trainer's process ends; the same machine can start another one.
    Crash(usize),
    /// The register's current record is the one that it will later be restored to. This is decided in advance so that a
    /// world needs to remember one record instead of all.
    Remember,
    /// The register loses every write since [`Fault::Remember`].
    SetBack,
    /// The register loses its entire content.
    Wipe,
    /// A delayed write arrives.
    Land,
}

impl Model {
    pub(super) fn faults(&self, world: &World, steps: &mut Vec<Step>) {
        let mut add = |fault| steps.push(Step::Fault(fault));
        if world.budget.crashes > 0 {
            let members = world.members.iter().enumerate();
            members
                .filter(|(_, m)| m.token.is_some())
                .for_each(|(m, _)| add(Fault::Crash(m)));
        }
        if world.register.is_some() {
            if world.budget.set_back > 0 && world.old.is_none() {
                add(Fault::Remember);
            }
            if world.budget.wiped > 0 {
                add(Fault::Wipe);
            }
        }
        if world.old.is_some() {
            add(Fault::SetBack);
        }
        if world.flight.is_some() {
            add(Fault::Land);
        }
    }

    pub(super) fn fault(&self, world: &World, fault: Fault) -> World {
        let mut next = world.clone();
        let mut fell_back = false;
        match fault {
            Fault::Crash(member) => {
                next.budget.crashes -= 1;
                next.members[member] = Member::default();
            }
            Fault::Remember => {
                next.budget.set_back -= 1;
                next.old = next.register.clone();
            }
            Fault::SetBack => {
                next.register = next.old.take();
                fell_back = true;
            }
            Fault::Wipe => {
                next.budget.wiped -= 1;
                next.register = None;
                fell_back = true;
            }
            Fault::Land => {
                // The register compares sequence numbers. After it was restored to an earlier state, numbers are used
                // again with other records. So the write may be accepted although other records were written in
                // between.
                if let Some(flight) = next.flight.take()
                    && (flight.fell_back || world.register.as_ref() == Some(&flight.from))
                {
                    next.register = Some(Arc::clone(&flight.to));
                }
            }
        }
        if let Some(flight) = &mut next.flight {
            flight.fell_back |= fell_back;
        }
        next
    }
}
