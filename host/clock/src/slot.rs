//! A value that one thread at a time uses, also while it waits.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use crate::clock::now;
use crate::monitor::Monitor;

/// Interval after which a thread that waits without a limit looks again.
const LOOK: Duration = Duration::from_secs(3600);

/// Holder of a value that one thread at a time uses. The thread takes the value out, so that no lock is held while it
/// waits for other machines.
#[derive(Debug)]
pub struct Slot<T: Default>(Monitor<Option<T>>);

impl<T: Default> Default for Slot<T> {
    fn default() -> Self {
        Self(Monitor::new(Some(T::default())))
    }
}

impl<T: Default> Slot<T> {
    /// Takes the value as soon as no other thread uses it.
    pub fn take(&self) -> SlotGuard<'_, T> {
        loop {
            if let Some(guard) = self.take_within(LOOK) {
                return guard;
            }
        }
    }

    /// Takes the value as soon as no other thread uses it. Returns `None` if that does not happen before `until`.
    pub fn take_until(&self, until: Instant) -> Option<SlotGuard<'_, T>> {
        self.take_within(until.saturating_duration_since(now()))
    }

    fn take_within(&self, at_most: Duration) -> Option<SlotGuard<'_, T>> {
        let mut place = self.0.wait_while(at_most, |value| value.is_none());
        let value = place.take()?;
        Some(SlotGuard { value, slot: self })
    }
}

/// The value of a [`Slot`] while a thread uses it. It is returned when this is dropped.
#[derive(Debug)]
pub struct SlotGuard<'a, T: Default> {
    value: T,
    slot: &'a Slot<T>,
}

impl<T: Default> Deref for SlotGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Default> DerefMut for SlotGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Default> Drop for SlotGuard<'_, T> {
    fn drop(&mut self) {
        let value = std::mem::take(&mut self.value);
        self.slot.0.change(|place| *place = Some(value));
    }
}
