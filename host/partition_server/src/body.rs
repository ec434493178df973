//! Contents that are received into memory, and sent from it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// Longest time for which nothing of a content arrives.
const STALL: Duration = Duration::from_secs(30);

/// Largest content that is read to its end although its request is refused: more than a part of a file.
const MAX_DISCARDED: u64 = 16 << 20;

/// Content that is sent: pieces of memory that are not copied.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pieces: VecDeque<Bytes>,
    left: u64,
}

impl Pieces {
    pub(crate) fn new(pieces: Vec<Bytes>) -> Self {
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        let pieces = pieces.into();
        Self { pieces, left }
    }
}

impl From<String> for Pieces {
    fn from(text: String) -> Self {
        Self::new(vec![text.into()])
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.pop_front();
        self.left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Receives a content of exactly `size` bytes. Returns `None` if it is shorter or longer, or does not arrive.
pub(crate) async fn receive(body: &mut Incoming, size: u64) -> Option<Bytes> {
    let mut content = BytesMut::with_capacity(usize::try_from(size).ok()?);
    while let Some(data) = next_data(body).await? {
        if (content.len() + data.len()) as u64 > size {
            return None;
        }
        content.extend_from_slice(&data);
    }
    (content.len() as u64 == size).then(|| content.freeze())
}

/// Reads what is left of the content of a refused request.
///
/// The connection of a client that is still sending would break otherwise, and the client could not read the answer.
/// A content that is larger than any part is left: its sender did not look at the server's limits.
pub(crate) async fn discard(body: &mut Incoming) {
    let mut left = MAX_DISCARDED;
    if body.size_hint().lower() > left {
        return;
    }
    while let Some(Some(data)) = next_data(body).await {
        let Some(rest) = left.checked_sub(data.len() as u64) else {
            return;
        };
        left = rest;
    }
}

/// Returns the next piece of a content, `Some(None)` at its end, and `None` if it does not arrive.
async fn next_data(body: &mut Incoming) -> Option<Option<Bytes>> {
    loop {
        let next = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
        match tokio::time::timeout(STALL, next).await.ok()? {
            None => return Some(None),
            Some(frame) => {
                if let Ok(data) = frame.ok()?.into_data() {
                    return Some(Some(data));
                }
            }
        }
    }
}
