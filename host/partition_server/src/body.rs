//! Contents that are received into memory, and sent from it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderMap};

/// Longest time for which nothing of a content arrives.
const STALL: Duration = Duration::from_secs(30);

/// Largest content that is read to its end although its request is refused: a part of a file of up to 156 GiB.
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

/// Content of a request.
pub(crate) struct RequestContent {
    body: Incoming,
    /// Whether the client waits for an answer before it sends the content.
    expects_answer: bool,
    /// Whether the content was asked for.
    received: bool,
}

impl RequestContent {
    /// Returns the content of a request with these headers.
    pub(crate) fn new(body: Incoming, headers: &HeaderMap) -> Self {
        Self {
            body,
            expects_answer: headers.contains_key(header::EXPECT),
            received: false,
        }
    }

    /// Receives a content of exactly `size` bytes. Returns `None` if it is shorter or longer, or does not arrive.
    pub(crate) async fn receive(&mut self, size: u64) -> Option<Bytes> {
        self.received = true;
        let mut content = BytesMut::with_capacity(usize::try_from(size).ok()?);
        while let Some(data) = self.next_data().await? {
            if (content.len() + data.len()) as u64 > size {
                return None;
            }
            content.extend_from_slice(&data);
        }
        (content.len() as u64 == size).then(|| content.freeze())
    }

    /// Reads what is left of the content of a refused request.
    ///
    /// The connection of a client that is still sending would break otherwise, and the client could not read the
    /// answer. A content that does not arrive in time, or is larger than [`MAX_DISCARDED`], is left, and so is one that
    /// the client does not send before the answer.
    pub(crate) async fn discard(&mut self) {
        if self.received || self.expects_answer || self.body.size_hint().lower() > MAX_DISCARDED {
            return;
        }
        let read = async {
            let mut left = MAX_DISCARDED;
            while let Some(Some(data)) = self.next_data().await {
                match left.checked_sub(data.len() as u64) {
                    Some(rest) => left = rest,
                    None => return,
                }
            }
        };
        // Whether it ended in time or not, the answer is the same.
        let _ = tokio::time::timeout(STALL, read).await;
    }

    /// Returns the next piece of the content, `Some(None)` at its end, and `None` if it does not arrive.
    async fn next_data(&mut self) -> Option<Option<Bytes>> {
        loop {
            let body = &mut self.body;
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
}
