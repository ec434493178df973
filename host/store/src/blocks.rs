//! Work in blocks that several processes share by the files of a folder, which all of them see.
//!
//! | file | what it says |
//! |---|---|
//! | `here.TOKEN` | a process takes part |
//! | `claim.N` | who works on block `N` |
//! | `block.N` | what came of it |
//!
//! A claim is made by creating its file, which succeeds for one. A result is a file that is renamed to its name, so that
//! nobody reads half of one. Who dies leaves a claim without a result: others take it over when they have waited long
//! enough. Should it live after all, two have worked on the same block, and came to the same.
//!
//! Who takes part keeps a lock on its file, which says where it runs: others on the same machine see that it is gone.

mod presence;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pbg_core::ledger::Token;

use crate::files::{self, FileError};

/// Largest result in bytes: more is none of ours.
const MAX_RESULT: u64 = 1 << 28;
/// A claim is left alone for at least so long, and for so many times what the slowest own block took.
const PATIENCE: (Duration, u32) = (Duration::from_secs(15), 3);
/// How long who has not finished a block leaves claims alone.
const UNKNOWN: Duration = Duration::from_secs(60);

/// What a process does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// To work on this block.
    Block(u32),
    /// To wait: others work on all that is left.
    Wait,
    /// Every block has its result.
    Done,
}

/// A process's part.
#[derive(Debug)]
pub struct Blocks {
    folder: PathBuf,
    token: Token,
    /// Its lock says that this process takes part.
    _here: File,
    count: u32,
    /// Claims of others as they were first seen, and when.
    claims: BTreeMap<u32, (Vec<u8>, Instant)>,
    /// The block that it works on, and since when.
    own: Option<(u32, Instant)>,
    slowest: Option<Duration>,
}

impl Blocks {
    /// Takes part in the work of `count` blocks in `folder`, which is made if need be. Nobody else has this token.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn open(folder: &Path, count: u32, token: Token) -> Result<Self, FileError> {
        let mut attempts = 0;
        loop {
            files::create_folder(folder)?;
            match presence::announce(&folder.join(format!("here.{token}"))) {
                // Whoever was last has just removed the folder.
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

    /// Removes the folders beside `folder` whose names begin with `beginning` and in which nobody works any more. They
    /// are of processes that were ended in the middle of something else.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn sweep(folder: &Path, beginning: &str) -> Result<(), FileError> {
        let Some(parent) = folder.parent() else {
            return Ok(());
        };
        for name in names(parent)? {
            let other = parent.join(&name);
            if !name.starts_with(beginning) || other == folder || !other.is_dir() {
                continue;
            }
            let here: Vec<PathBuf> = present(&other)?;
            // Where nobody has been yet, somebody may be about to come.
            if !here.is_empty() && here.iter().all(|path| presence::is_gone(path)) {
                files::remove_folder(&other)?;
            }
        }
        Ok(())
    }

    /// What to do next. A block that it says is this process's until the next call.
    ///
    /// # Errors
    /// When files cannot be read or made.
    pub fn take(&mut self) -> Result<Next, FileError> {
        let mut all_done = true;
        for block in 0..self.count {
            if self.path("block", block).exists() {
                continue;
            }
            all_done = false;
            if self.claim(block)? || self.is_abandoned(block)? {
                self.own = Some((block, Instant::now()));
                return Ok(Next::Block(block));
            }
        }
        Ok(if all_done { Next::Done } else { Next::Wait })
    }

    /// Says what came of the block that [`Blocks::take`] named last.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(&mut self, result: &[u8]) -> Result<(), FileError> {
        let Some((block, since)) = self.own.take() else {
            return Ok(());
        };
        let staged = self.path(&format!("block.{block}"), self.token);
        files::write(&staged, result)?;
        files::rename(&staged, &self.path("block", block))?;
        self.slowest = self.slowest.max(Some(since.elapsed()));
        Ok(())
    }

    /// How many blocks have a result.
    #[must_use]
    pub fn finished(&self) -> u32 {
        let has = |block: &u32| self.path("block", *block).exists();
        (0..self.count).filter(has).count() as u32
    }

    /// All results, in the order of the blocks. To be asked for when all is done.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn results(&self) -> Result<Vec<Vec<u8>>, FileError> {
        (0..self.count)
            .map(|block| files::read(&self.path("block", block), MAX_RESULT))
            .collect()
    }

    /// Takes part no more. Who is the last removes the folder.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn leave(self) -> Result<(), FileError> {
        files::remove(&self.path("here", self.token))?;
        if !self.folder.is_dir() {
            return Ok(());
        }
        let others = present(&self.folder)?;
        if others.iter().any(|path| !presence::is_gone(path)) {
            return Ok(());
        }
        // Who comes now makes a new one.
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

    /// Claims a block that nobody has claimed.
    fn claim(&self, block: u32) -> Result<bool, FileError> {
        let path = self.path("claim", block);
        let made = File::options().write(true).create_new(true).open(&path);
        match made.and_then(|mut file| write!(file, "{}", self.token)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(FileError::new("create", &path, error)),
        }
    }

    /// Takes over a block whose claim has stayed the same for too long.
    fn is_abandoned(&mut self, block: u32) -> Result<bool, FileError> {
        let path = self.path("claim", block);
        let claim = files::read(&path, 1 << 10)?;
        let patience = match self.slowest {
            Some(slowest) => PATIENCE.0.max(slowest.saturating_mul(PATIENCE.1)),
            None => UNKNOWN,
        };
        let (seen, since) = self
            .claims
            .entry(block)
            .or_insert_with(|| (claim.clone(), Instant::now()));
        if *seen != claim {
            (*seen, *since) = (claim, Instant::now());
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

/// Names of what is in a folder; none where somebody has just removed it.
fn names(folder: &Path) -> Result<Vec<String>, FileError> {
    let entries = match folder.read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| FileError::new("list", folder, error))?,
    };
    let name = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    Ok(entries.filter_map(name).collect())
}

/// The files of those who take part, or did when they died.
fn present(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let names = names(folder)?.into_iter();
    let here = names.filter(|name| name.starts_with("here."));
    Ok(here.map(|name| folder.join(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(folder: &Path, token: u64) -> Blocks {
        Blocks::open(folder, 3, Token(token)).unwrap()
    }

    #[test]
    fn every_block_is_one_processes() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("work");
        let (mut one, mut two) = (part(&folder, 1), part(&folder, 2));
        assert_eq!(one.take().unwrap(), Next::Block(0));
        assert_eq!(two.take().unwrap(), Next::Block(1));
        one.finish(b"a").unwrap();
        assert_eq!(one.take().unwrap(), Next::Block(2));
        one.finish(b"c").unwrap();
        assert_eq!((one.finished(), one.take().unwrap()), (2, Next::Wait));
        two.finish(b"b").unwrap();
        assert_eq!(one.take().unwrap(), Next::Done);
        assert_eq!(two.take().unwrap(), Next::Done);
        assert_eq!(one.results().unwrap(), [b"a", b"b", b"c"]);
        one.leave().unwrap();
        // The other one has not read them yet.
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
        // That of another machine, of which nobody here knows whether it is alive.
        drop(part(&folder("work.elsewhere"), 4));
        let there = present(&folder("work.elsewhere")).unwrap().remove(0);
        std::fs::write(there, "another machine").unwrap();
        Blocks::sweep(&folder("work.own"), "work.").unwrap();
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
        assert_eq!(dead.take().unwrap(), Next::Block(0));
        let mut other = part(place.path(), 2);
        for block in [1, 2] {
            assert_eq!(other.take().unwrap(), Next::Block(block));
            other.finish(b"").unwrap();
        }
        assert_eq!(other.take().unwrap(), Next::Wait);
        let before = Instant::now().checked_sub(2 * UNKNOWN).unwrap();
        other.claims.get_mut(&0).unwrap().1 = before;
        assert_eq!(other.take().unwrap(), Next::Block(0));
        // A third one sees a claim that is new.
        let mut third = part(place.path(), 3);
        assert_eq!(third.take().unwrap(), Next::Wait);
        // The dead one was only slow.
        dead.finish(b"x").unwrap();
        other.finish(b"x").unwrap();
        assert_eq!(other.take().unwrap(), Next::Done);
    }
}
