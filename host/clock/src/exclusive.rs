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
pub struct Exclusive<T: Default>(Monitor<Option<T>>);

impl<T: Default> Default for Exclusive<T> {
    fn default() -> Self {
        Self(Monitor::new(Some(T::default())))
    }
}

impl<T: Default> Exclusive<T> {
    /// Takes the value as soon as no other thread uses it.
    pub fn take(&self) -> ExclusiveGuard<'_, T> {
        loop {
            if let Some(guard) = self.take_within(LOOK) {
                return guard;
            }
        }
    }

    /// Takes the value as soon as no other thread uses it. Returns `None` if that does not happen before `until`.
    pub fn take_until(&self, until: Instant) -> Option<ExclusiveGuard<'_, T>> {
        self.take_within(until.saturating_duration_since(now()))
    }

    fn take_within(&self, at_most: Duration) -> Option<ExclusiveGuard<'_, T>> {
        let mut place = self.0.wait_while(at_most, |value| value.is_none());
        let value = place.take()?;
        Some(ExclusiveGuard { value, place: self })
    }
}

/// The value of an [`Exclusive`] while a thread uses it. It is returned when this is dropped.
#[derive(Debug)]
pub struct ExclusiveGuard<'a, T: Default> {
    value: T,
    place: &'a Exclusive<T>,
}

impl<T: Default> Deref for ExclusiveGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Default> DerefMut for ExclusiveGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Default> Drop for ExclusiveGuard<'_, T> {
    fn drop(&mut self) {
        let value = std::mem::take(&mut self.value);
        self.place.0.change(|place| *place = Some(value));
    }
}
