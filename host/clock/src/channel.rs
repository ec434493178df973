//! Bounded channels between two threads.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvError, SendError, SyncSender, TryRecvError, TrySendError};

use crate::clock::{WaitKey, simulated};

/// What both ends wait for under a clock other than the machine's.
#[derive(Debug)]
struct Changes(u8);

impl Changes {
    fn wake(&self) {
        if let Some(clock) = simulated() {
            clock.wake(WaitKey::of(&self.0));
        }
    }

    /// Repeats `attempt` until it has a result.
    fn wait<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(result) = attempt() {
                return result;
            }
            if let Some(clock) = simulated() {
                clock.wait(WaitKey::of(&self.0), None);
            }
        }
    }
}

/// Sending end of a channel.
#[derive(Debug)]
pub struct Sender<T> {
    /// Empty only while this is dropped.
    inner: Option<SyncSender<T>>,
    changes: Arc<Changes>,
}

/// Receiving end of a channel.
#[derive(Debug)]
pub struct Receiver<T> {
    /// Empty only while this is dropped.
    inner: Option<mpsc::Receiver<T>>,
    changes: Arc<Changes>,
}

/// Creates a channel that holds up to `bound` messages, which must not be zero.
#[must_use]
pub fn channel<T>(bound: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::sync_channel(bound.max(1));
    let changes = Arc::new(Changes(0));
    let sender = Sender {
        inner: Some(sender),
        changes: Arc::clone(&changes),
    };
    let receiver = Receiver {
        inner: Some(receiver),
        changes,
    };
    (sender, receiver)
}

impl<T> Sender<T> {
    /// Sends a message, and waits while the channel is full.
    ///
    /// # Errors
    /// The message, if the receiver was dropped.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        let Some(inner) = &self.inner else {
            return Err(SendError(message));
        };
        if simulated().is_none() {
            return inner.send(message);
        }
        let mut unsent = Some(message);
        self.changes.wait(|| match inner.try_send(unsent.take()?) {
            Ok(()) => {
                self.changes.wake();
                Some(Ok(()))
            }
            Err(TrySendError::Full(message)) => {
                unsent = Some(message);
                None
            }
            Err(TrySendError::Disconnected(message)) => Some(Err(SendError(message))),
        })
    }

    /// Sends a message if the channel has room.
    ///
    /// # Errors
    /// The message, if the channel is full or the receiver was dropped.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let Some(inner) = &self.inner else {
            return Err(TrySendError::Disconnected(message));
        };
        inner.try_send(message).inspect(|()| self.changes.wake())
    }
}

impl<T> Receiver<T> {
    /// Waits for a message.
    ///
    /// # Errors
    /// When the sender was dropped and no message is left.
    pub fn recv(&self) -> Result<T, RecvError> {
        let Some(inner) = &self.inner else {
            return Err(RecvError);
        };
        if simulated().is_none() {
            return inner.recv();
        }
        self.changes.wait(|| match self.try_recv() {
            Ok(message) => Some(Ok(message)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(RecvError)),
        })
    }

    /// Returns a message if there is one.
    ///
    /// # Errors
    /// When there is none, with the reason.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let inner = self.inner.as_ref().ok_or(TryRecvError::Disconnected)?;
        inner.try_recv().inspect(|_| self.changes.wake())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.inner = None;
        self.changes.wake();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.inner = None;
        self.changes.wake();
    }
}
