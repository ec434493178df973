//! A reader of input whose blocking reads end when the program is to stop.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// Size in bytes of one read.
const CHUNK: usize = 1 << 16;
/// Interval at which a waiting reader checks whether to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Reader of input that a separate thread reads, since a read of a terminal or a pipe cannot be interrupted.
pub(crate) struct InterruptibleReader {
    chunks: Receiver<io::Result<Vec<u8>>>,
    rest: io::Cursor<Vec<u8>>,
    stop: Arc<AtomicBool>,
}

impl InterruptibleReader {
    /// Starts a thread that reads `input`. Once `stop` is set, the reader reports the end of the input.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(crate) fn spawn(
        mut input: impl Read + Send + 'static,
        stop: &Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let (sender, chunks) = sync_channel(1);
        let read = move || {
            loop {
                let mut chunk = vec![0; CHUNK];
                let read = match input.read(&mut chunk) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    read => read,
                };
                let ended = !matches!(read, Ok(count) if count > 0);
                let read = read.map(|count| {
                    chunk.truncate(count);
                    chunk
                });
                // Sending fails if the reader was dropped.
                if sender.send(read).is_err() || ended {
                    return;
                }
            }
        };
        thread::Builder::new()
            .name("input".to_owned())
            .spawn(read)?;
        Ok(Self {
            chunks,
            rest: io::Cursor::default(),
            stop: Arc::clone(stop),
        })
    }
}

impl Read for InterruptibleReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.rest.read(buffer)?;
            if count > 0 || buffer.is_empty() || self.stop.load(Ordering::SeqCst) {
                return Ok(count);
            }
            match self.chunks.recv_timeout(LOOK) {
                Ok(chunk) => {
                    let chunk = chunk?;
                    if chunk.is_empty() {
                        return Ok(0);
                    }
                    self.rest = io::Cursor::new(chunk);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_what_there_is_and_no_more_once_it_is_to_stop() {
        let stop = Arc::default();
        let text: Vec<u8> = (0..200_000_u32).map(|n| n as u8).collect();
        let mut all = Vec::new();
        let mut input = InterruptibleReader::spawn(io::Cursor::new(text.clone()), &stop).unwrap();
        input.read_to_end(&mut all).unwrap();
        assert_eq!(all, text);
        // A pipe that stays open without data.
        let (pipe, _writer) = io::pipe().unwrap();
        let mut input = InterruptibleReader::spawn(pipe, &stop).unwrap();
        let pressed = Arc::clone(&stop);
        let press = thread::spawn(move || pressed.store(true, Ordering::SeqCst));
        assert_eq!(input.read(&mut [0; 8]).unwrap(), 0);
        press.join().unwrap();
    }
}
