//! Two background threads of a trainer. One reads the register when no other thread does; the other notifies the user
//! when the register does not answer. They are separate because a read may block for longer than the notification may
//! be late.

use std::sync::Arc;
use std::time::Duration;

use pbg_clock::JoinHandle;
use pbg_model::error::RunError;

use super::LedgerClient;

/// Interval between checks whether the user must be notified.
const LOOK: Duration = Duration::from_millis(200);
/// Time without requests after which the register is read, to check that it still answers.
const ASK_AFTER: Duration = Duration::from_secs(2);

/// The background threads. Dropping it ends every wait for the register, and joins the threads.
pub(crate) struct LedgerThreads {
    ledger: Arc<LedgerClient>,
    threads: Vec<JoinHandle>,
}

impl LedgerThreads {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the operating system cannot create a thread.
    pub(crate) fn start(ledger: &Arc<LedgerClient>) -> Result<Self, RunError> {
        let mut attendance = Self {
            ledger: Arc::clone(ledger),
            threads: Vec::new(),
        };
        attendance.start_thread("ledger-silence", LedgerClient::tell_silence)?;
        attendance.start_thread("ledger-reader", LedgerClient::read_when_needed)?;
        Ok(attendance)
    }

    fn start_thread(&mut self, name: &str, work: fn(&LedgerClient)) -> Result<(), RunError> {
        let ledger = Arc::clone(&self.ledger);
        let started = pbg_clock::spawn(name, move || work(&ledger));
        let thread = started.map_err(|e| RunError::Thread(e.to_string()))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl LedgerThreads {
    /// Ends every wait for the register, and joins the threads.
    pub(crate) fn end(&mut self) {
        self.ledger.silence.close();
        self.ledger.needs.wake();
        for thread in self.threads.drain(..) {
            // The panic message is already printed, and nobody is left to handle the error.
            let _panicked = thread.join();
        }
    }
}

impl Drop for LedgerThreads {
    fn drop(&mut self) {
        self.end();
    }
}

impl LedgerClient {
    fn tell_silence(&self) {
        while !self.silence.is_closed() {
            self.silence.notify_user();
            pbg_clock::sleep(LOOK);
        }
    }

    /// Reads the record when another thread needs a newer one and cannot wait for it, and when no request was made for
    /// a while. So a lost register is noticed even while a long bucket is trained.
    fn read_when_needed(&self) {
        while !self.silence.is_closed() {
            let is_needed = self.needs.wait(ASK_AFTER);
            if is_needed || !self.silence.was_asked_within(ASK_AFTER) {
                // The training thread will see the same failure.
                let _newest = self.try_refresh();
            }
        }
    }
}
