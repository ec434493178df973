//! Interface of the displays.

use pbg_core::event::Event;

/// Consumer of the events of a run, in order.
pub(crate) trait ProgressReporter {
    /// Handles an event.
    fn event(&mut self, event: &Event);

    /// Returns a function with which other threads show an event at once, since the thread that handles the events of
    /// the run may be waiting.
    fn teller(&self) -> Teller;

    /// Returns a function with which other threads print a line without disturbing the display.
    fn announcer(&self) -> Announcer;

    /// Returns a function that shows the status of all trainers of a run below this trainer's progress; `None` if this
    /// display has no room for it.
    fn status_board(&self) -> Option<Board> {
        None
    }

    /// Removes the display.
    fn close(&mut self) {}
}

/// Function that replaces the lines shown below the progress bar.
pub(crate) type Board = Box<dyn Fn(&str) + Send>;

/// Function that shows an event, from any thread.
pub(crate) type Teller = Box<dyn Fn(&Event) + Send + Sync>;

/// Function that prints a line for the user.
pub(crate) type Announcer = Box<dyn Fn(&str) + Send>;
