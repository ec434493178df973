//! Requests for a newer record by threads that cannot wait for it.

use std::time::Duration;

use pbg_clock::Monitor;

/// Flag that is set while a newer record is requested.
#[derive(Default)]
pub(super) struct RefreshRequest(Monitor<bool>);

impl RefreshRequest {
    /// Requests a newer record without waiting for it.
    pub(super) fn wake(&self) {
        self.0.change(|is_needed| *is_needed = true);
    }

    /// Waits for a request for at most `at_most`. Clears it, and returns whether there was one.
    pub(super) fn wait(&self, at_most: Duration) -> bool {
        let mut is_needed = self.0.wait_while(at_most, |is_needed| !*is_needed);
        std::mem::take(&mut is_needed)
    }
}
