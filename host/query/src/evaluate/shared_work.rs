//! Blocks of work that several processes share through the files of a common folder.
//!
//! | file | meaning |
//! |---|---|
//! | `here.TOKEN` | a process takes part |
//! | `claim.N` | token of the process that works on block `N` |
//! | `block.N` | result of block `N` |
//!
//! A process claims a block by creating the claim file, which succeeds for only one process. A result is written under
//! another name and then renamed, so that nobody reads half of it. A process that dies leaves a claim without a result.
//! The others take the claim over after a timeout. If the process was only slow, two processes have computed the same
//! result.
//!
//! Each process keeps a lock on its `here` file, which records the boot id of its machine. From this, processes on the
//! same machine detect that it has ended.

mod presence;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pbg_files::{self as files, FileError};
use pbg_ledger::Token;

/// Maximum size of a result file in bytes; a larger file was not written by this program.
const MAX_RESULT: u64 = 1 << 28;
/// Timeout after which a claim is taken over: at least the duration, and at least the multiple of this process's
/// slowest block.
const PATIENCE: (Duration, u32) = (Duration::from_secs(15), 3);
/// Timeout for a process that has not finished a block yet.
const UNKNOWN: Duration = Duration::from_secs(60);

/// Next step of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Work on this block.
    Block(u32),
    /// Wait: other processes work on all remaining blocks.
    Wait,
    /// Finish: every block has its result.
    Done,
}

/// One process's participation in the work.
#[derive(Debug)]
pub(super) struct SharedWork {
    folder: PathBuf,
    token: Token,
    /// Locked file that shows that this process takes part.
    _here: File,
    count: u32,
    /// Claims of other processes as first seen, with the time.
    claims: BTreeMap<u32, (Vec<u8>, Instant)>,
    /// The block that this process works on, with its start time.
    own: Option<(u32, Instant)>,
    slowest: Option<Duration>,
}

impl SharedWork {
    /// Joins the work on `count` blocks in `folder`, which is created if necessary. The token must be unique.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub(super) fn open(folder: &Path, count: u32, token: Token) -> Result<Self, FileError> {
        let mut attempts = 0;
        loop {
            files::create_folder(folder)?;
            match presence::create_presence(&folder.join(format!("here.{token}"))) {
                // The last process to leave may just have removed the folder.
                Err(error) if error.is_not_found() && attempts < 10 => attempts += 1,
                here => {
                    return here.map(|here| Self {
                        folder: folder.to_owned(),
                        token,
                        _here: here,
                        count,
                        claims: BTreeMap::new(),
                        own: None,
                        slowest: None,
                    });
                }
            }
        }
    }

    /// Removes the folders next to `folder` whose names begin with `beginning` and whose processes have all ended.
    /// Killed processes leave such folders.
    ///
    /// # Errors
    /// When the operating system reports an error.
    pub(super) fn sweep(folder: &Path, beginning: &str) -> Result<(), FileError> {
        let Some(parent) = folder.parent() else {
            return Ok(());
        };
        for name in names(parent)? {
            let other = parent.join(&name);
            if !name.starts_with(beginning) || other == folder || !other.is_dir() {
                continue;
            }
            let here: Vec<PathBuf> = present(&other)?;
            // In a folder without any process so far, one may be about to join.
            if !here.is_empty() && here.iter().all(|path| presence::is_gone(path)) {
                files::remove_folder(&other)?;
            }
        }
        Ok(())
    }

    /// Returns the next step. A returned block belongs to this process until the next call.
    ///
    /// # Errors
    /// When files cannot be read or created.
    pub(super) fn take(&mut self) -> Result<NextStep, FileError> {
        let mut all_done = true;
        for block in 0..self.count {
            if self.path("block", block).exists() {
                continue;
            }
            all_done = false;
            if self.claim(block)? || self.is_abandoned(block)? {
                self.own = Some((block, pbg_clock::now()));
                return Ok(NextStep::Block(block));
            }
        }
        match all_done {
            true => Ok(NextStep::Done),
            false => Ok(NextStep::Wait),
        }
    }

    /// Stores the result of the block that [`SharedWork::take`] last returned.
    ///
    /// # Errors
    /// When the result cannot be written.
    pub(super) fn finish(&mut self, result: &[u8]) -> Result<(), FileError> {
        let Some((block, since)) = self.own.take() else {
            return Ok(());
        };
        let staged = self.path(&format!("block.{block}"), self.token);
        files::write(&staged, result)?;
        files::rename(&staged, &self.path("block", block))?;
        self.slowest = self.slowest.max(Some(since.elapsed()));
        Ok(())
    }

    /// Returns the number of blocks that have a result.
    #[must_use]
    pub(super) fn finished(&self) -> u32 {
        let has = |block: &u32| self.path("block", *block).exists();
        (0..self.count).filter(has).count() as u32
    }

    /// Returns all results, in the order of the blocks. May be called only when all blocks have results.
    ///
    /// # Errors
    /// When a result cannot be read.
    pub(super) fn results(&self) -> Result<Vec<Vec<u8>>, FileError> {
        (0..self.count)
            .map(|block| files::read(&self.path("block", block), MAX_RESULT))
            .collect()
    }

    /// Leaves the work. The last process to leave removes the folder.
    ///
    /// # Errors
    /// When the operating system reports an error.
    pub(super) fn leave(self) -> Result<(), FileError> {
        files::remove(&self.path("here", self.token))?;
        if !self.folder.is_dir() {
            return Ok(());
        }
        let others = present(&self.folder)?;
        if others.iter().any(|path| !presence::is_gone(path)) {
            return Ok(());
        }
        // Rename first: a process that joins now creates a new folder.
        let mut gone = self.folder.clone().into_os_string();
        gone.push(format!(".{}", self.token));
        match files::rename(&self.folder, Path::new(&gone)) {
            Err(error) if error.is_not_found() => Ok(()),
            renamed => renamed.and_then(|()| files::remove_folder(Path::new(&gone))),
        }
    }

    fn path(&self, kind: &str, of: impl std::fmt::Display) -> PathBuf {
        self.folder.join(format!("{kind}.{of}"))
    }

    /// Claims a block that no process has claimed. Returns whether it succeeded.
    fn claim(&self, block: u32) -> Result<bool, FileError> {
        let path = self.path("claim", block);
        let made = File::options().write(true).create_new(true).open(&path);
        match made.and_then(|mut file| write!(file, "{}", self.token)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(FileError::new("create", &path, error)),
        }
    }

    /// Takes over a block whose claim has not changed for the timeout. Returns whether it did.
    fn is_abandoned(&mut self, block: u32) -> Result<bool, FileError> {
        let path = self.path("claim", block);
        let claim = files::read(&path, 1 << 10)?;
        let patience = match self.slowest {
            Some(slowest) => PATIENCE.0.max(slowest.saturating_mul(PATIENCE.1)),
            None => UNKNOWN,
        };
        let entry = self.claims.entry(block);
        let (seen, since) = entry.or_insert_with(|| (claim.clone(), pbg_clock::now()));
        if *seen != claim {
            (*seen, *since) = (claim, pbg_clock::now());
        }
        if since.elapsed() < patience {
            return Ok(false);
        }
        let staged = self.path(&format!("claim.{block}"), self.token);
        files::write(&staged, self.token.to_string().as_bytes())?;
        files::rename(&staged, &path)?;
        Ok(true)
    }
}

/// Returns the names of a folder's entries; empty if another process has just removed the folder.
fn names(folder: &Path) -> Result<Vec<String>, FileError> {
    let entries = match folder.read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| FileError::new("list", folder, error))?,
    };
    let name = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    Ok(entries.filter_map(name).collect())
}

/// Returns the `here` files of all processes that take part or have died.
fn present(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let names = names(folder)?.into_iter();
    let here = names.filter(|name| name.starts_with("here."));
    Ok(here.map(|name| folder.join(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(folder: &Path, token: u64) -> SharedWork {
        SharedWork::open(folder, 3, Token(token)).unwrap()
    }

    #[test]
    fn every_block_is_one_processes() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("work");
        let (mut one, mut two) = (part(&folder, 1), part(&folder, 2));
        assert_eq!(one.take().unwrap(), NextStep::Block(0));
        assert_eq!(two.take().unwrap(), NextStep::Block(1));
        one.finish(b"a").unwrap();
        assert_eq!(one.take().unwrap(), NextStep::Block(2));
        one.finish(b"c").unwrap();
        assert_eq!((one.finished(), one.take().unwrap()), (2, NextStep::Wait));
        two.finish(b"b").unwrap();
        assert_eq!(one.take().unwrap(), NextStep::Done);
        assert_eq!(two.take().unwrap(), NextStep::Done);
        assert_eq!(one.results().unwrap(), [b"a", b"b", b"c"]);
        one.leave().unwrap();
        // The other process has not read the results yet.
        assert_eq!(two.results().unwrap().len(), 3);
        two.leave().unwrap();
        assert_eq!(place.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn who_is_the_last_alive_removes_what_the_dead_have_left() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("work.1");
        let (dead, alive) = (part(&folder, 1), part(&folder, 2));
        drop(dead);
        let third = part(&folder, 3);
        alive.leave().unwrap();
        assert!(folder.is_dir(), "the third takes part");
        third.leave().unwrap();
        assert!(!folder.exists());
    }

    #[test]
    fn work_that_nobody_does_any_more_is_swept_away() {
        let place = tempfile::tempdir().unwrap();
        let folder = |name: &str| place.path().join(name);
        drop(part(&folder("work.dead"), 1));
        let _alive = part(&folder("work.alive"), 2);
        drop(part(&folder("work.own"), 3));
        std::fs::create_dir(folder("work.new")).unwrap();
        // A process of another machine: whether it is alive is unknown.
        drop(part(&folder("work.elsewhere"), 4));
        let there = present(&folder("work.elsewhere")).unwrap().remove(0);
        std::fs::write(there, "another machine").unwrap();
        SharedWork::sweep(&folder("work.own"), "work.").unwrap();
        let mut left = names(place.path()).unwrap();
        left.sort();
        assert_eq!(
            left,
            ["work.alive", "work.elsewhere", "work.new", "work.own"]
        );
    }

    #[test]
    fn who_dies_leaves_its_block_to_the_others() {
        let place = tempfile::tempdir().unwrap();
        let mut dead = part(place.path(), 1);
        assert_eq!(dead.take().unwrap(), NextStep::Block(0));
        let mut other = part(place.path(), 2);
        for block in [1, 2] {
            assert_eq!(other.take().unwrap(), NextStep::Block(block));
            other.finish(b"").unwrap();
        }
        assert_eq!(other.take().unwrap(), NextStep::Wait);
        let before = pbg_clock::now().checked_sub(2 * UNKNOWN).unwrap();
        other.claims.get_mut(&0).unwrap().1 = before;
        assert_eq!(other.take().unwrap(), NextStep::Block(0));
        // To a third process the claim is new.
        let mut third = part(place.path(), 3);
        assert_eq!(third.take().unwrap(), NextStep::Wait);
        // The first process was only slow.
        dead.finish(b"x").unwrap();
        other.finish(b"x").unwrap();
        assert_eq!(other.take().unwrap(), NextStep::Done);
    }
}
