//! Transfers between files and objects, in parts, with bounded memory.

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path as Key;
use object_store::{
    Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutPayload, WriteMultipart,
};
use pbg_files::remote::{ContentTag, RemoteFile};

use crate::connection::block;
use crate::error::replaced;
use crate::names;

/// Bytes of a part, which one request carries.
pub const PART: u64 = 8 << 20;
/// Largest number of parts of a transfer that are in memory at the same time.
pub const PARTS: usize = 4;
/// Largest number of parts that stores accept for one object.
const MAX_PARTS: u64 = 10_000;

/// Copies `file` to `to`, which gets its name when it is complete. The parts of an interrupted copy of the same content
/// are not requested again.
pub(crate) fn download(
    store: &dyn ObjectStore,
    key: &Key,
    file: &RemoteFile,
    to: &Path,
    failed: impl Fn(Error) -> io::Error + Copy,
) -> io::Result<()> {
    let partial = names::partial(to, file);
    let mut options = File::options();
    let mut out = options.append(true).create(true).open(&partial)?;
    let mut written = out.metadata()?.len();
    // Without a tag, nothing tells whether the rest is of the same content.
    if written > file.size || file.tag.etag.is_empty() {
        out.set_len(0)?;
        written = 0;
    }
    let starts = (written..file.size).step_by(PART as usize);
    let requests = starts.map(|start| {
        let end = file.size.min(start + PART);
        read_range(store, key, file, start..end, failed)
    });
    block(async {
        let mut parts = stream::iter(requests).buffered(PARTS);
        while let Some(part) = parts.try_next().await? {
            out.write_all(&part)?;
        }
        Ok(())
    })?;
    out.sync_all()?;
    std::fs::rename(&partial, to)
}

/// Reads a range of the object `file`.
///
/// # Errors
/// When the object was replaced since it was listed, or cannot be read.
pub(crate) async fn read_range(
    store: &dyn ObjectStore,
    key: &Key,
    file: &RemoteFile,
    range: Range<u64>,
    failed: impl Fn(Error) -> io::Error,
) -> io::Result<Vec<u8>> {
    let options = GetOptions {
        if_match: file.tag.strong(),
        range: Some(GetRange::Bounded(range.clone())),
        ..GetOptions::default()
    };
    let got = store.get_opts(key, options).await.map_err(&failed)?;
    // Some stores ignore the condition.
    let etag = got.meta.e_tag.as_deref().map(ContentTag::trimmed);
    let is_same = etag.is_none_or(|etag| etag == file.tag.etag);
    if !is_same || got.meta.size != file.size {
        return Err(replaced());
    }
    let length = range.end - range.start;
    let mut bytes = Vec::with_capacity(length as usize);
    let mut pieces = got.into_stream();
    while let Some(piece) = pieces.try_next().await.map_err(&failed)? {
        bytes.extend_from_slice(&piece);
        if bytes.len() as u64 > length {
            break;
        }
    }
    match bytes.len() as u64 == length {
        true => Ok(bytes),
        false => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("the store sent {} of {length} bytes", bytes.len()),
        )),
    }
}

/// Writes the file `from` to the object `key`. Another object of that name is replaced when all parts have arrived.
pub(crate) fn upload(
    store: &dyn ObjectStore,
    key: &Key,
    from: &Path,
    failed: impl Fn(Error) -> io::Error + Copy,
) -> io::Result<()> {
    let mut file = File::open(from)?;
    let size = file.metadata()?.len();
    if size <= PART {
        let mut bytes = Vec::new();
        (&mut file).take(PART + 1).read_to_end(&mut bytes)?;
        check_length(bytes.len() as u64, size)?;
        let payload = PutPayload::from(bytes);
        return block(async { store.put(key, payload).await.map(drop).map_err(failed) });
    }
    let part = PART.max(size.div_ceil(MAX_PARTS).next_multiple_of(1 << 20));
    block(async {
        let upload = store.put_multipart(key).await.map_err(failed)?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, part as usize);
        let sent = send_parts(&file, size, part, &mut upload, failed).await;
        match sent {
            Ok(()) => upload.finish().await.map(drop).map_err(failed),
            Err(error) => {
                // Parts of an upload that is not completed cost the owner of the bucket.
                let _ = upload.abort().await;
                Err(error)
            }
        }
    })
}

async fn send_parts(
    file: &File,
    size: u64,
    part: u64,
    upload: &mut WriteMultipart,
    failed: impl Fn(Error) -> io::Error,
) -> io::Result<()> {
    for start in (0..size).step_by(part as usize) {
        let mut bytes = vec![0; part.min(size - start) as usize];
        file.read_exact_at(&mut bytes, start)?;
        upload.wait_for_capacity(PARTS - 1).await.map_err(&failed)?;
        upload.put(bytes.into());
    }
    Ok(())
}

fn check_length(read: u64, size: u64) -> io::Result<()> {
    match read == size {
        true => Ok(()),
        false => Err(io::Error::other("the file changes while it is sent")),
    }
}
