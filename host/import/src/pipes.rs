//! Copies of pipes in files without a name, because an import reads its files more than once.

use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;

use super::progress::report_progress;
use super::{ImportError, ImportProgress};
use pbg_files::{self as files, FileError};

/// Bytes per read.
const CHUNK: usize = 1 << 16;
/// Interval at which the caller is asked whether to stop while the pipe is idle.
const LOOK: Duration = Duration::from_millis(50);

/// Copies the content of the pipe `path` to a file next to `target`. Returns the file, which is deleted when it is
/// closed, and a path by which it can be opened until then.
pub(super) fn spool(
    path: &Path,
    target: &Path,
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<(File, PathBuf), ImportError> {
    if cfg!(not(target_os = "linux")) {
        let what = "pipes are read only on Linux; write the edges to a file first";
        return Err(ImportError::input(path, what));
    }
    let (begun, pipe) = open(path)?;
    let mut file = nameless(target)?;
    files::append(&mut file, target, &begun)?;
    let mut bytes = begun.len() as u64;
    let chunks = read_beside(pipe).map_err(|e| FileError::new("read", path, e))?;
    loop {
        let told = ImportProgress::Spooling {
            path: path.to_owned(),
            bytes,
        };
        report_progress(progress, told)?;
        match chunks.recv_timeout(LOOK) {
            Ok(Ok(chunk)) => {
                files::append(&mut file, target, &chunk)?;
                bytes += chunk.len() as u64;
            }
            Ok(Err(error)) => return Err(FileError::new("read", path, error).into()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let source = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    Ok((file, source))
}

/// Opens a pipe without waiting for a writer. Returns what the pipe already contained.
fn open(path: &Path) -> Result<(Vec<u8>, File), ImportError> {
    let failed = |e| ImportError::File(FileError::new("open", path, e));
    let mut options = File::options();
    let options = options.read(true).custom_flags(flag(OFlags::NONBLOCK));
    let mut pipe = options.open(path).map_err(failed)?;
    let mut begun = vec![0; CHUNK];
    let read = match pipe.read(&mut begun) {
        Ok(0) => {
            let what = "this pipe is empty, and no program has it open for writing";
            return Err(ImportError::input(path, what));
        }
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        Err(error) => return Err(failed(error)),
    };
    begun.truncate(read);
    let flags = rustix::fs::fcntl_getfl(&pipe);
    let cleared = flags.and_then(|set| rustix::fs::fcntl_setfl(&pipe, set - OFlags::NONBLOCK));
    cleared.map_err(|e| failed(e.into()))?;
    Ok((begun, pipe))
}

/// Reads on a separate thread, because a read from a pipe may block forever.
fn read_beside(pipe: File) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    let (sender, chunks) = sync_channel(2);
    let named = thread::Builder::new().name("pipe".to_owned());
    named.spawn(move || read_all(pipe, &sender))?;
    Ok(chunks)
}

fn read_all(mut pipe: File, sender: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut chunk = vec![0; CHUNK];
        let read = match pipe.read(&mut chunk) {
            Ok(0) => return,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read,
        };
        let failed = read.is_err();
        let read = read.map(|count| {
            chunk.truncate(count);
            chunk
        });
        // The receiver is dropped when the import has ended.
        if sender.send(read).is_err() || failed {
            return;
        }
    }
}

/// Creates a file without a name in the folder of `target`.
fn nameless(target: &Path) -> Result<File, ImportError> {
    #[cfg(target_os = "linux")]
    const WITHOUT_NAME: OFlags = OFlags::TMPFILE;
    #[cfg(not(target_os = "linux"))]
    const WITHOUT_NAME: OFlags = OFlags::empty();
    let folder = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    files::create_folder(folder)?;
    let mut options = File::options();
    options.read(true).write(true);
    let temporary = options
        .clone()
        .custom_flags(flag(WITHOUT_NAME))
        .open(folder);
    let file = temporary.or_else(|_| {
        // Not every file system supports that. There, the file is created with a name that is removed at once.
        let name = format!(".pbg-host-pipe-{}.tmp", std::process::id());
        let path = folder.join(name);
        let file = options.create_new(true).open(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    });
    file.map_err(|e| FileError::new("create a file in", folder, e).into())
}

fn flag(flag: OFlags) -> i32 {
    flag.bits().cast_signed()
}
