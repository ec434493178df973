//! Writes event files for TensorBoard during a run.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pbg_core::event::Event;
use pbg_report::tensorboard;

use crate::failure::{Failure, Result};

/// Open event file. A resumed run writes another file into the same folder, which TensorBoard shows as the same curve.
#[derive(Debug)]
pub(crate) struct EventFile {
    path: PathBuf,
    file: File,
    /// First write error.
    failure: Option<io::Error>,
}

impl EventFile {
    /// Creates an event file in `folder`.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub(crate) fn create(folder: &Path) -> Result<Self> {
        let now = wall_time();
        let name = format!(
            "events.out.tfevents.{:.0}.{}.pbg-host",
            now,
            std::process::id()
        );
        let path = folder.join(name);
        let open = || {
            fs::create_dir_all(folder)?;
            let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
            file.write_all(&tensorboard::header(now))?;
            Ok(file)
        };
        let file = open().map_err(|error: io::Error| Failure::io("cannot write", &path, error))?;
        Ok(Self {
            path,
            file,
            failure: None,
        })
    }

    /// Writes the figures of `event`. An error does not stop the run; [`EventFile::close`] returns it.
    pub(crate) fn event(&mut self, event: &Event) {
        let records = tensorboard::records(event, wall_time());
        if self.failure.is_none()
            && let Err(error) = self.file.write_all(&records)
        {
            self.failure = Some(error);
        }
    }

    /// Closes the file.
    ///
    /// # Errors
    /// The first write error.
    pub(crate) fn close(self) -> Result<()> {
        match self.failure {
            None => Ok(()),
            Some(error) => Err(Failure::io("cannot write", &self.path, error)),
        }
    }
}

fn wall_time() -> f64 {
    pbg_clock::unix_time().as_secs_f64()
}
