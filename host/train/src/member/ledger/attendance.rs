//! Threads beside those that train and wait: one asks the register where nobody else does, the other tells the user when it
//! does not answer. They are two, since asking may take as long as the user should not wait for a word.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::Ledger;
use crate::error::RunError;

/// How often the user's need for a word is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Time after which a register is asked whether it is there, if nobody has asked it for anything.
const ASK_AFTER: Duration = Duration::from_secs(2);

/// The threads; dropping it ends every wait for the register, and them.
pub(crate) struct Attendance {
    ledger: Arc<Ledger>,
    threads: Vec<JoinHandle<()>>,
}

impl Attendance {
    /// Starts them.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(ledger: &Arc<Ledger>) -> Result<Self, RunError> {
        let mut attendance = Self {
            ledger: Arc::clone(ledger),
            threads: Vec::new(),
        };
        attendance.start_thread("ledger-silence", Ledger::tell_silence)?;
        attendance.start_thread("ledger-reader", Ledger::read_when_needed)?;
        Ok(attendance)
    }

    fn start_thread(&mut self, name: &str, work: fn(&Ledger)) -> Result<(), RunError> {
        let ledger = Arc::clone(&self.ledger);
        let started = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || work(&ledger));
        let thread = started.map_err(|e| RunError::Thread(e.to_string()))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        self.ledger.silence.close();
        self.ledger.needs.wake();
        for thread in self.threads.drain(..) {
            // What it panicked with was printed; there is nobody left to tell.
            let _panicked = thread.join();
        }
    }
}

impl Ledger {
    fn tell_silence(&self) {
        while !self.silence.is_closed() {
            self.silence.tell();
            thread::sleep(LOOK);
        }
    }

    /// Reads the record when somebody needs a newer one who cannot wait for it, and when nobody has asked for anything for
    /// a while: so a register that is gone is noticed while a long bucket is trained.
    fn read_when_needed(&self) {
        while !self.silence.is_closed() {
            let is_needed = self.needs.wait(ASK_AFTER);
            if is_needed || !self.silence.was_asked_within(ASK_AFTER) {
                // A failure is met by the thread that trains.
                let _newest = self.look();
            }
        }
    }
}
