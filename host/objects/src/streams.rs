//! Objects that are read or written from beginning to end, in parts, without a file.

use std::io::{self, Read, Write};
use std::sync::Arc;

use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path as Key;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutPayload, WriteMultipart};
use pbg_files::remote::{RemoteFile, RemoteWriter};

use crate::connection::{block, spawn};
use crate::error::io_error;
use crate::transfer::{PART, PARTS, read_range};
use crate::url::ObjectUrl;

/// Object of a store, for the tasks of its transfer.
#[derive(Clone)]
pub(crate) struct OpenObject {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) key: Key,
    /// URL of the folder, for messages.
    pub(crate) url: ObjectUrl,
}

impl OpenObject {
    fn failed(&self, error: Error) -> io::Error {
        io_error(error, &self.url)
    }
}

/// Reader of an object, which requests the next parts ahead.
pub(crate) struct ObjectReader {
    parts: BoxStream<'static, io::Result<Vec<u8>>>,
    part: Vec<u8>,
    /// Number of bytes of `part` that were read.
    read: usize,
}

impl ObjectReader {
    /// Begins to read `file`.
    pub(crate) fn new(object: &OpenObject, file: &RemoteFile) -> Self {
        let (object, file) = (object.clone(), file.clone());
        let starts = (0..file.size).step_by(PART as usize);
        let requests = starts.map(move |start| {
            let (object, file) = (object.clone(), file.clone());
            spawn(async move {
                let end = file.size.min(start + PART);
                let failed = |e| object.failed(e);
                read_range(&*object.store, &object.key, &file, start..end, failed).await
            })
        });
        Self {
            parts: stream::iter(requests).buffered(PARTS - 1).boxed(),
            part: Vec::new(),
            read: 0,
        }
    }
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read == self.part.len() {
            let Some(part) = block(self.parts.try_next())? else {
                return Ok(0);
            };
            (self.part, self.read) = (part, 0);
        }
        let left = &self.part[self.read..];
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.read += count;
        Ok(count)
    }
}

/// Writer of an object, which sends full parts while the next one is filled.
pub(crate) struct ObjectWriter {
    object: OpenObject,
    part: Vec<u8>,
    /// The upload; `None` while the object fits in one part.
    upload: Option<WriteMultipart>,
}

impl ObjectWriter {
    pub(crate) const fn new(object: OpenObject) -> Self {
        Self {
            object,
            part: Vec::new(),
            upload: None,
        }
    }

    fn send_part(&mut self) -> io::Result<()> {
        let part = std::mem::take(&mut self.part);
        block(async {
            let failed = |e| self.object.failed(e);
            let upload = match &mut self.upload {
                Some(upload) => upload,
                None => {
                    let begun = self.object.store.put_multipart(&self.object.key).await;
                    let begun = begun.map_err(failed)?;
                    let upload = WriteMultipart::new_with_chunk_size(begun, PART as usize);
                    self.upload.insert(upload)
                }
            };
            upload.wait_for_capacity(PARTS - 1).await.map_err(failed)?;
            upload.put(part.into());
            Ok(())
        })
    }
}

impl Write for ObjectWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.part.len() as u64 == PART {
            self.send_part()?;
        }
        if self.part.capacity() == 0 {
            self.part.reserve_exact(PART as usize);
        }
        let count = bytes.len().min(PART as usize - self.part.len());
        self.part.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    /// Does nothing: `finish` sends the rest.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl RemoteWriter for ObjectWriter {
    fn finish(mut self: Box<Self>) -> io::Result<()> {
        if self.upload.is_some() {
            self.send_part()?;
        }
        let part = std::mem::take(&mut self.part);
        match self.upload.take() {
            Some(upload) => block(async {
                let finished = upload.finish().await;
                finished.map(drop).map_err(|e| self.object.failed(e))
            }),
            None => block(async {
                let payload = PutPayload::from(part);
                let put = self.object.store.put(&self.object.key, payload).await;
                put.map(drop).map_err(|e| self.object.failed(e))
            }),
        }
    }
}

impl Drop for ObjectWriter {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take() {
            // Parts of an upload that is not completed cost the owner of the bucket.
            let _ = block(async { upload.abort().await.map_err(io::Error::other) });
        }
    }
}
