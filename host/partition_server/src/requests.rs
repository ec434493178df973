//! Requests of S3: what is asked, and the answers.

use std::ops::Range;
use std::time::Duration;

use chrono::{DateTime, Utc};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::{Method, Request, Response, StatusCode};
use percent_encoding::percent_decode_str;

use crate::body::{Pieces, RequestContent};
use crate::objects::{MAX_NAME, NotTaken, ObjectMemory, StoredObject};
use crate::signature::{AccessKey, SignedContent, UnverifiedRequest};

/// Largest number of objects in one answer to a listing, as in S3.
const PAGE: usize = 1000;
/// Largest content that is sent to complete an upload: a list of parts.
const MAX_LIST: u64 = 4 << 20;

/// An answer.
type Answer = Response<Pieces>;

/// An error, as S3 names it.
struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Refusal {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            status,
            code,
            message,
        }
    }

    fn invalid(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "InvalidRequest", message)
    }
}

impl From<NotTaken> for Refusal {
    fn from(reason: NotTaken) -> Self {
        let (status, code) = match reason {
            // A status that clients do not repeat the request for.
            NotTaken::Full { .. } | NotTaken::TooManyEntries => {
                (StatusCode::PAYLOAD_TOO_LARGE, "EntityTooLarge")
            }
            NotTaken::Name => (StatusCode::BAD_REQUEST, "KeyTooLongError"),
            NotTaken::NoUpload => (StatusCode::NOT_FOUND, "NoSuchUpload"),
            NotTaken::TooManyUploads => (StatusCode::SERVICE_UNAVAILABLE, "SlowDown"),
            NotTaken::PartNumber => (StatusCode::BAD_REQUEST, "InvalidArgument"),
            NotTaken::Exists => (StatusCode::PRECONDITION_FAILED, "PreconditionFailed"),
        };
        Self::new(status, code, reason.to_string())
    }
}

/// The bucket of a server, and who may use it.
pub(crate) struct ObjectBucket {
    pub(crate) name: String,
    pub(crate) key: Option<AccessKey>,
    pub(crate) memory: ObjectMemory,
}

/// A request whose path and query were taken apart.
struct Question {
    method: Method,
    /// Name of the object; empty for the bucket.
    object: String,
    query: Vec<(String, String)>,
    headers: HeaderMap,
    content: SignedContent,
}

impl Question {
    fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    fn upload(&self) -> Result<Option<u64>, Refusal> {
        let upload = self.parameter("uploadId");
        let parsed = upload.map(|text| text.parse().map_err(|_| NotTaken::NoUpload.into()));
        parsed.transpose()
    }

    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn size(&self) -> Result<u64, Refusal> {
        let size = self.header(&header::CONTENT_LENGTH);
        size.and_then(|text| text.parse().ok()).ok_or_else(|| {
            let status = StatusCode::LENGTH_REQUIRED;
            Refusal::new(status, "MissingContentLength", "Content-Length is missing")
        })
    }
}

impl ObjectBucket {
    /// Answers a request.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let mut content = RequestContent::new(body, &head.headers);
        let is_head = head.method == Method::HEAD;
        let answered = match self.question(&head) {
            Ok(question) => self.carry_out(&question, &mut content).await,
            Err(refusal) => Err(refusal),
        };
        if answered.is_err() {
            content.discard().await;
        }
        answered.unwrap_or_else(|refusal| {
            let Refusal {
                status,
                code,
                message,
            } = refusal;
            let message = escaped(&message);
            let text = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
            xml(status, if is_head { String::new() } else { text })
        })
    }

    /// Checks the signature of a request and takes it apart.
    fn question(&self, head: &hyper::http::request::Parts) -> Result<Question, Refusal> {
        let (path, query) = (head.uri.path(), head.uri.query().unwrap_or_default());
        let content = match &self.key {
            None => SignedContent::Any,
            Some(key) => {
                let signed = UnverifiedRequest {
                    method: head.method.as_str(),
                    path,
                    query,
                    headers: &head.headers,
                };
                signed.check(key).ok_or_else(|| {
                    let what = "the request is not signed with the key of this server";
                    Refusal::new(StatusCode::FORBIDDEN, "SignatureDoesNotMatch", what)
                })?
            }
        };
        let path = decoded(path)?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        let (bucket, object) = path.split_once('/').unwrap_or((path, ""));
        if object.len() > MAX_NAME {
            return Err(NotTaken::Name.into());
        }
        if bucket != self.name {
            let what = "this server has another bucket: it was started again";
            return Err(Refusal::new(StatusCode::NOT_FOUND, "NoSuchBucket", what));
        }
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let query = pairs.map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decoded(key)?, decoded(value)?))
        });
        Ok(Question {
            method: head.method.clone(),
            object: object.to_owned(),
            query: query.collect::<Result<_, Refusal>>()?,
            headers: head.headers.clone(),
            content,
        })
    }

    async fn carry_out(
        &self,
        question: &Question,
        body: &mut RequestContent,
    ) -> Result<Answer, Refusal> {
        let name = question.object.as_str();
        match (&question.method, name, question.upload()?) {
            (&Method::GET, "", None) => self.list(question),
            (&Method::HEAD, "", None) => Ok(xml(StatusCode::OK, String::new())),
            (&Method::GET | &Method::HEAD, _, None) => self.get(question),
            (&Method::PUT, name, upload) if !name.is_empty() => {
                self.put(question, upload, body).await
            }
            (&Method::POST, name, None) if !name.is_empty() => {
                if question.parameter("uploads").is_none() {
                    return Err(Refusal::invalid("this request is not supported"));
                }
                let upload = self.memory.begin_upload(name)?;
                Ok(xml(
                    StatusCode::OK,
                    format!(
                        "<InitiateMultipartUploadResult><Bucket>{}</Bucket><Key>{}</Key><UploadId>{upload}</UploadId>\
                         </InitiateMultipartUploadResult>",
                        self.name,
                        escaped(name)
                    ),
                ))
            }
            (&Method::POST, name, Some(upload)) if !name.is_empty() => {
                self.complete(question, upload, body).await
            }
            (&Method::DELETE, name, None) if !name.is_empty() => {
                self.memory.remove(name);
                Ok(xml(StatusCode::NO_CONTENT, String::new()))
            }
            (&Method::DELETE, _, Some(upload)) => {
                self.memory.abort_upload(upload);
                Ok(xml(StatusCode::NO_CONTENT, String::new()))
            }
            _ => {
                let status = StatusCode::METHOD_NOT_ALLOWED;
                let what = "this request is not supported";
                Err(Refusal::new(status, "MethodNotAllowed", what))
            }
        }
    }

    fn list(&self, question: &Question) -> Result<Answer, Refusal> {
        let prefix = question.parameter("prefix").unwrap_or_default();
        let token = question.parameter("continuation-token");
        let after = token
            .or(question.parameter("start-after"))
            .unwrap_or_default();
        let listed = self.memory.list(prefix, after, PAGE + 1);
        // Names with a further slash are those of folders, which a listing with a delimiter leaves out.
        let is_here = |name: &str| {
            question.parameter("delimiter").is_none() || !name[prefix.len()..].contains('/')
        };
        let mut text = format!(
            "<ListBucketResult><Name>{}</Name><Prefix>{}</Prefix><IsTruncated>{}</IsTruncated>",
            self.name,
            escaped(prefix),
            listed.len() > PAGE
        );
        if listed.len() > PAGE
            && let Some((last, _)) = listed.get(PAGE - 1)
        {
            let last = escaped(last);
            text.push_str(&format!(
                "<NextContinuationToken>{last}</NextContinuationToken>"
            ));
        }
        let mut count = 0;
        for (name, object) in listed.iter().take(PAGE).filter(|(name, _)| is_here(name)) {
            count += 1;
            text.push_str(&format!(
                "<Contents><Key>{}</Key><LastModified>{}</LastModified><ETag>{}</ETag><Size>{}</Size></Contents>",
                escaped(name),
                iso_time(object.written),
                escaped(&etag(object.tag)),
                object.size
            ));
        }
        text.push_str(&format!("<KeyCount>{count}</KeyCount></ListBucketResult>"));
        Ok(xml(StatusCode::OK, text))
    }

    fn get(&self, question: &Question) -> Result<Answer, Refusal> {
        let found = self.memory.get(&question.object);
        let object = found.ok_or_else(|| {
            Refusal::new(
                StatusCode::NOT_FOUND,
                "NoSuchKey",
                "there is no such object",
            )
        })?;
        let tag = etag(object.tag);
        if question
            .header(&header::IF_MATCH)
            .is_some_and(|wanted| wanted != tag)
        {
            return Err(Refusal::new(
                StatusCode::PRECONDITION_FAILED,
                "PreconditionFailed",
                "the object was replaced",
            ));
        }
        let range = match question.header(&header::RANGE) {
            Some(text) => range_of(text, object.size)?,
            None => 0..object.size,
        };
        let is_part = question.headers.contains_key(header::RANGE);
        let pieces = match question.method {
            Method::HEAD => Vec::new(),
            _ => object.slice(&range),
        };
        let mut answer = described(&object, Pieces::new(pieces));
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_LENGTH, (range.end - range.start).into());
        if is_part {
            let (first, last) = (range.start, range.end - 1);
            let text = format!("bytes {first}-{last}/{}", object.size);
            if let Ok(value) = text.parse() {
                headers.insert(header::CONTENT_RANGE, value);
            }
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        Ok(answer)
    }

    async fn put(
        &self,
        question: &Question,
        upload: Option<u64>,
        body: &mut RequestContent,
    ) -> Result<Answer, Refusal> {
        let unsupported = ["x-amz-copy-source", "if-match"];
        if unsupported
            .iter()
            .any(|name| question.headers.contains_key(*name))
        {
            let status = StatusCode::NOT_IMPLEMENTED;
            let what = "this server neither copies objects nor compares them";
            return Err(Refusal::new(status, "NotImplemented", what));
        }
        let size = question.size()?;
        let reserved = self.memory.reserve(size)?;
        let content = body.receive(size).await;
        let content = content.filter(|content| question.content.is(content));
        let content = content.ok_or_else(|| {
            Refusal::invalid("the content is not the one that was announced or signed")
        })?;
        let tag = match upload {
            Some(upload) => {
                let number = question
                    .parameter("partNumber")
                    .and_then(|text| text.parse().ok());
                let part = number.ok_or(NotTaken::PartNumber)?;
                self.memory.put_part((upload, part), content, reserved)?;
                u64::from(part)
            }
            None => {
                let must_be_new = question.header(&header::IF_NONE_MATCH) == Some("*");
                self.memory
                    .put(&question.object, content, reserved, must_be_new)?
            }
        };
        let mut answer = xml(StatusCode::OK, String::new());
        if let Ok(value) = etag(tag).parse() {
            answer.headers_mut().insert(header::ETAG, value);
        }
        Ok(answer)
    }

    async fn complete(
        &self,
        question: &Question,
        upload: u64,
        body: &mut RequestContent,
    ) -> Result<Answer, Refusal> {
        let size = question.size()?;
        // The list of parts is checked against nothing: all parts of an upload are part of its object.
        let list = match size <= MAX_LIST {
            true => body.receive(size).await,
            false => None,
        };
        if !list.is_some_and(|list| question.content.is(&list)) {
            return Err(Refusal::invalid(
                "the list of parts is not the one that was announced",
            ));
        }
        let tag = self.memory.complete_upload(&question.object, upload)?;
        Ok(xml(
            StatusCode::OK,
            format!(
                "<CompleteMultipartUploadResult><Bucket>{}</Bucket><Key>{}</Key><ETag>{}</ETag>\
                 </CompleteMultipartUploadResult>",
                self.name,
                escaped(&question.object),
                escaped(&etag(tag))
            ),
        ))
    }
}

/// Returns an answer with an object's tag and time.
fn described(object: &StoredObject, content: Pieces) -> Answer {
    let mut answer = Response::new(content);
    let headers = answer.headers_mut();
    for (name, text) in [
        (header::ETAG, etag(object.tag)),
        (header::LAST_MODIFIED, http_time(object.written)),
        (header::ACCEPT_RANGES, "bytes".to_owned()),
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
    ] {
        if let Ok(value) = text.parse() {
            headers.insert(name, value);
        }
    }
    answer
}

fn xml(status: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(match text.is_empty() {
        true => Pieces::default(),
        false => Pieces::from(format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{text}"
        )),
    });
    *answer.status_mut() = status;
    if !text.is_empty() {
        let kind = header::HeaderValue::from_static("application/xml");
        answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    answer
}

fn etag(tag: u64) -> String {
    format!("\"{tag:032x}\"")
}

/// Parses a header `Range` of one range.
fn range_of(text: &str, size: u64) -> Result<Range<u64>, Refusal> {
    let unsatisfiable = || {
        let what = format!("the range is not within the {size} bytes of the object");
        Refusal::new(StatusCode::RANGE_NOT_SATISFIABLE, "InvalidRange", what)
    };
    let bounds = text
        .strip_prefix("bytes=")
        .and_then(|range| range.split_once('-'));
    let (first, last) = bounds.ok_or_else(unsatisfiable)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| unsatisfiable());
    let range = match (first, last) {
        ("", last) => size.saturating_sub(number(last)?)..size,
        (first, "") => number(first)?..size,
        (first, last) => number(first)?..number(last)?.saturating_add(1).min(size),
    };
    match range.start < range.end {
        true => Ok(range),
        false => Err(unsatisfiable()),
    }
}

fn decoded(text: &str) -> Result<String, Refusal> {
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| Refusal::invalid("the address is not UTF-8"))?;
    match decoded.contains(char::is_control) {
        true => Err(Refusal::invalid("the address has a control character")),
        false => Ok(decoded.into_owned()),
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Formats a time since 1970 as listings have it.
fn iso_time(time: Duration) -> String {
    calendar_time(time)
        .format("%Y-%m-%dT%H:%M:%S.000Z")
        .to_string()
}

/// Formats a time since 1970 as headers have it.
fn http_time(time: Duration) -> String {
    calendar_time(time)
        .format("%a, %d %b %Y %H:%M:%S GMT")
        .to_string()
}

fn calendar_time(time: Duration) -> DateTime<Utc> {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    DateTime::from_timestamp(seconds, 0).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, iso, http) in [
            (
                0,
                "1970-01-01T00:00:00.000Z",
                "Thu, 01 Jan 1970 00:00:00 GMT",
            ),
            (
                951_782_400,
                "2000-02-29T00:00:00.000Z",
                "Tue, 29 Feb 2000 00:00:00 GMT",
            ),
        ] {
            let time = Duration::from_secs(seconds);
            assert_eq!(iso_time(time), iso);
            assert_eq!(http_time(time), http);
        }
    }

    #[test]
    fn ranges_are_within_the_object() {
        let of = |text| range_of(text, 10).ok();
        assert_eq!(of("bytes=0-3"), Some(0..4));
        assert_eq!(of("bytes=8-20"), Some(8..10));
        assert_eq!(of("bytes=8-"), Some(8..10));
        assert_eq!(of("bytes=-3"), Some(7..10));
        for text in [
            "bytes=10-12",
            "bytes=3-2",
            "bytes=-0",
            "bytes=",
            "items=0-3",
            "bytes=a-b",
            "bytes=0-1,3-4",
            "bytes=-18446744073709551616",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(of("bytes=0-18446744073709551615"), Some(0..10));
    }
}
