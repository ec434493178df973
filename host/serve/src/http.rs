//! Requests and responses of HTTP/1.1 on one connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

/// Largest number of header fields.
const FIELDS: usize = 64;
/// Interval at which a waiting connection looks whether the server stops.
const TICK: Duration = Duration::from_millis(100);

/// Longest time for which the rest of a refused request is read.
const LINGER: Duration = Duration::from_secs(1);

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Largest number of connections at a time.
    pub connections: usize,
    /// Largest number of bytes of a request line with its header fields.
    pub head_bytes: usize,
    /// Largest number of bytes of a request body.
    pub body_bytes: usize,
    /// Longest time from the first byte of a request to its last.
    pub request_time: Duration,
    /// Longest time between requests of a connection.
    pub idle_time: Duration,
    /// Longest time for the client to take a response.
    pub write_time: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 128,
            head_bytes: 16 << 10,
            body_bytes: 256 << 10,
            request_time: Duration::from_secs(5),
            idle_time: Duration::from_secs(60),
            write_time: Duration::from_secs(5),
        }
    }
}

/// Request that was read completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// Method, such as `POST`.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Body.
    pub body: Vec<u8>,
    /// Whether the connection is closed after the response.
    closes: bool,
}

impl HttpRequest {
    /// Whether the connection is closed after the response.
    pub(crate) const fn closes(&self) -> bool {
        self.closes
    }
}

/// Response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// Status code.
    pub status: u16,
    /// Media type of the body.
    pub content_type: &'static str,
    /// Body.
    pub body: Vec<u8>,
}

/// Media type of JSON.
const JSON: &str = "application/json";

impl HttpResponse {
    /// Creates a response with status 200 and JSON.
    #[must_use]
    pub fn json(value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self {
                status: 200,
                content_type: JSON,
                body,
            },
            Err(error) => Self::error(500, &format!("internal error (a bug): {error}")),
        }
    }

    /// Creates a response with status 200 and a text of the media type `content_type`.
    #[must_use]
    pub fn text(content_type: &'static str, text: String) -> Self {
        Self {
            status: 200,
            content_type,
            body: text.into_bytes(),
        }
    }

    /// Creates a response with a sentence that says what is wrong.
    #[must_use]
    pub fn error(status: u16, what: &str) -> Self {
        let body = serde_json::json!({ "error": what }).to_string();
        Self {
            status,
            content_type: JSON,
            body: body.into_bytes(),
        }
    }

    const fn reason(&self) -> &'static str {
        match self.status {
            200 => "OK",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            413 => "Content Too Large",
            431 => "Request Header Fields Too Large",
            501 => "Not Implemented",
            503 => "Service Unavailable",
            _ => "Internal Server Error",
        }
    }

    /// Returns the bytes of the response.
    fn bytes(&self, closes: bool) -> Vec<u8> {
        let mut bytes = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}{}\r\n",
            self.status,
            self.reason(),
            self.content_type,
            self.body.len(),
            if self.status == 503 {
                "Retry-After: 1\r\n"
            } else {
                ""
            },
            if closes { "Connection: close\r\n" } else { "" },
        )
        .into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// Outcome of waiting for a request.
pub(crate) enum Received {
    /// A request.
    Request(HttpRequest),
    /// Request that is answered with an error, after which the connection is closed.
    Refused(HttpResponse),
    /// The client is gone or idle, or the server stops.
    Ended,
}

/// Head of a request.
struct RequestHead {
    request: HttpRequest,
    bytes: usize,
    body_bytes: usize,
    expects_continue: bool,
}

/// Connection of a client.
pub(crate) struct HttpConnection<'c> {
    stream: TcpStream,
    /// Bytes that were read and not used.
    buffer: Vec<u8>,
    limits: &'c HttpLimits,
    stop: &'c AtomicBool,
}

impl<'c> HttpConnection<'c> {
    /// Takes over a connection.
    ///
    /// # Errors
    /// When the system refuses its time limits.
    pub(crate) fn new(
        stream: TcpStream,
        limits: &'c HttpLimits,
        stop: &'c AtomicBool,
    ) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TICK))?;
        stream.set_write_timeout(Some(TICK))?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
            limits,
            stop,
        })
    }

    /// Waits for the next request.
    pub(crate) fn receive(&mut self) -> Received {
        let idle_since = pbg_clock::now();
        let mut began = (!self.buffer.is_empty()).then_some(idle_since);
        let head = loop {
            match parse(&self.buffer, self.limits) {
                Ok(Some(head)) => break head,
                Ok(None) => {}
                Err(refusal) => return Received::Refused(refusal),
            }
            let limit = match began {
                None => idle_since + self.limits.idle_time,
                Some(began) => began + self.limits.request_time,
            };
            match self.read(limit) {
                Ok(()) => began = began.or_else(|| Some(pbg_clock::now())),
                Err(is_late) => return self.late(is_late && began.is_some()),
            }
        };
        if head.expects_continue && self.write(b"HTTP/1.1 100 Continue\r\n\r\n").is_err() {
            return Received::Ended;
        }
        let end = head.bytes + head.body_bytes;
        let limit = began.unwrap_or(idle_since) + self.limits.request_time;
        while self.buffer.len() < end {
            if let Err(is_late) = self.read(limit) {
                return self.late(is_late);
            }
        }
        let mut request = head.request;
        request.body = self.buffer[head.bytes..end].to_vec();
        self.buffer.drain(..end);
        Received::Request(request)
    }

    /// Sends a response.
    ///
    /// # Errors
    /// When the client does not take it in time.
    pub(crate) fn respond(&mut self, response: &HttpResponse, closes: bool) -> std::io::Result<()> {
        self.write(&response.bytes(closes))
    }

    /// Closes the connection after a response to a request that was not read. Reads what the client still sends, for a
    /// second, since closing before would discard the response.
    pub(crate) fn close_unread(mut self) {
        let limit = pbg_clock::now() + LINGER;
        let mut left = self.limits.body_bytes * 8;
        if self.stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        self.buffer.clear();
        while left > 0 && self.read(limit).is_ok() {
            left = left.saturating_sub(self.buffer.len());
            self.buffer.clear();
        }
    }

    fn write(&mut self, mut bytes: &[u8]) -> std::io::Result<()> {
        let limit = pbg_clock::now() + self.limits.write_time;
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
            if !bytes.is_empty() && pbg_clock::now() >= limit {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }

    fn late(&self, is_late: bool) -> Received {
        match is_late {
            true => Received::Refused(HttpResponse::error(
                408,
                "the request did not arrive in time",
            )),
            false => Received::Ended,
        }
    }

    /// Reads more bytes.
    ///
    /// # Errors
    /// When the connection ends; true if `limit` has passed.
    fn read(&mut self, limit: Instant) -> Result<(), bool> {
        let mut bytes = [0; 4096];
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(false);
            }
            if pbg_clock::now() >= limit {
                return Err(true);
            }
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(false),
                Ok(read) => {
                    self.buffer.extend_from_slice(&bytes[..read]);
                    return Ok(());
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => return Err(false),
                },
            }
        }
    }
}

/// Parses the head of a request; `None` if it is not complete.
fn parse(buffer: &[u8], limits: &HttpLimits) -> Result<Option<RequestHead>, HttpResponse> {
    let too_long = || HttpResponse::error(431, "the header of the request is too long");
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    let status = parsed.parse(buffer).map_err(|error| match error {
        httparse::Error::TooManyHeaders => too_long(),
        error => HttpResponse::error(400, &format!("the request is not HTTP: {error}")),
    })?;
    let bytes = match status {
        httparse::Status::Complete(bytes) if bytes <= limits.head_bytes => bytes,
        httparse::Status::Partial if buffer.len() <= limits.head_bytes => return Ok(None),
        _ => return Err(too_long()),
    };
    let (mut length, mut closes) = (None, parsed.version == Some(0));
    let mut expects_continue = false;
    for field in parsed.headers.iter() {
        let value = std::str::from_utf8(field.value).unwrap_or("").trim();
        if field.name.eq_ignore_ascii_case("content-length") {
            let digits = value.bytes().all(|byte| byte.is_ascii_digit());
            let parsed = value
                .parse::<u64>()
                .ok()
                .filter(|_| digits && length.is_none());
            length = Some(parsed.ok_or_else(|| {
                HttpResponse::error(400, "Content-Length is not one whole number")
            })?);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(HttpResponse::error(
                501,
                "Transfer-Encoding is not supported: send the body with Content-Length",
            ));
        } else if field.name.eq_ignore_ascii_case("connection") {
            let mut options = value.split(',');
            closes |= options.any(|option| option.trim().eq_ignore_ascii_case("close"));
        } else if field.name.eq_ignore_ascii_case("expect") {
            expects_continue = value.eq_ignore_ascii_case("100-continue");
        }
    }
    let length = length.unwrap_or(0);
    if length > limits.body_bytes as u64 {
        let text = format!(
            "the body has {length} bytes, and at most {} are allowed",
            limits.body_bytes
        );
        return Err(HttpResponse::error(413, &text));
    }
    let target = parsed.path.unwrap_or("/");
    Ok(Some(RequestHead {
        request: HttpRequest {
            method: parsed.method.unwrap_or("").to_owned(),
            path: target.split('?').next().unwrap_or("/").to_owned(),
            body: Vec::new(),
            closes,
        },
        bytes,
        body_bytes: length as usize,
        expects_continue,
    }))
}
