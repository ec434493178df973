//! The register: the last message of a subject of one stream.
//!
//! A write names the sequence number of the preceding message, which the leader of the stream compares. Reads are
//! answered by the leader, too. If the stream does not exist, because no trainer has created it yet or because the
//! server has lost its files, a reader creates it, unless it only inspects. The register is then empty, and the caller
//! continues from its newest manifest. The sequence numbers of a new stream begin at a random number, so a write after
//! a revision of the old stream is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::jetstream::context::{
    CreateStreamError, CreateStreamErrorKind, GetStreamError, GetStreamErrorKind, PublishErrorKind,
};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Info, RawMessageErrorKind, StorageType,
};
use async_nats::jetstream::{Context, ErrorCode, context::ContextBuilder};
use pbg_ledger::transport::{NoAnswer, RegisterEntry, WriteReply};

use crate::client::NatsConnection;
use crate::error::ConnectError;
use crate::options::ConnectionOptions;
use crate::secret::random;
use crate::waiting::Deadline;

/// Number of revisions that a server keeps, including the newest.
pub const KEPT_REVISIONS: u32 = 64;

/// Largest size of a value in bytes. It leaves room for a message's headers.
pub const MAX_VALUE: usize = (1 << 20) - (4 << 10);

/// Interval at which a pending request checks whether the caller was asked to stop.
const LOOK: Duration = Duration::from_millis(50);
/// Timeout of a reply after the caller was asked to stop.
const LAST_ANSWER: Duration = Duration::from_secs(2);

/// Register of a run.
pub(crate) struct StreamRegister {
    pub(crate) line: NatsConnection,
    context: Context,
    stream: String,
    subject: String,
    replicas: usize,
    within: Duration,
    makes: bool,
    stop: Option<Arc<AtomicBool>>,
}

/// Result of a read.
enum ReadResult {
    Value(RegisterEntry),
    Nothing,
    NoStream,
}

impl StreamRegister {
    /// Creates the register of the run of `options`, stored on `replicas` servers.
    pub(crate) fn new(line: NatsConnection, options: &ConnectionOptions, replicas: usize) -> Self {
        let (run, within) = (&options.run, options.request_timeout);
        let client = line.client.clone();
        // The builder starts a task, so it needs the runtime.
        let build = async { ContextBuilder::new().timeout(within).build(client) };
        let context = line.dialer.run_now(build);
        Self {
            line,
            context,
            stream: format!("pbg-{}", run.as_str()),
            subject: format!("pbg.{}.ledger", run.as_str()),
            replicas,
            within,
            makes: options.creates_register,
            stop: options.stop.clone(),
        }
    }

    fn config(&self) -> Config {
        Config {
            name: self.stream.clone(),
            description: Some("ledger of a run of pbg-host".into()),
            subjects: vec![self.subject.clone()],
            max_messages_per_subject: i64::from(KEPT_REVISIONS),
            max_messages: -1,
            max_bytes: -1,
            max_message_size: 1 << 20,
            discard: DiscardPolicy::Old,
            storage: StorageType::File,
            num_replicas: self.replicas,
            allow_direct: false,
            deny_delete: true,
            deny_purge: true,
            first_sequence: random().ok().map(first_sequence),
            ..Config::default()
        }
    }

    /// Creates the stream if it does not exist. Several trainers may do that at the same time.
    async fn make(&self) -> Result<(), CreateStreamError> {
        match self.context.create_stream(self.config()).await {
            Ok(_) => Ok(()),
            // Another trainer has created it, with another first sequence number.
            Err(error) if code(&error) == Some(ErrorCode::STREAM_NAME_EXIST) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Creates the stream, and checks that it has the expected configuration.
    ///
    /// # Errors
    /// [`ConnectError::Unfit`] if the server cannot store it, or has another stream of that name;
    /// [`ConnectError::Patience`] if the server does not answer.
    pub(crate) fn open(&self, who: &str, waiting: &Deadline<'_>) -> Result<(), ConnectError> {
        if self.makes {
            self.make_patiently(who, waiting)?;
        }
        loop {
            let info = async {
                let stream = self.context.get_stream(&self.stream).await;
                stream.map(|stream| stream.cached_info().clone())
            };
            let why = match self.line.dialer.block(self.within, info) {
                Some(Ok(info)) => return self.check(&info).map_err(|what| unfit(who, what)),
                Some(Err(error)) if !self.makes && is_no_stream(&error) => return Ok(()),
                Some(Err(error)) => error.to_string(),
                None => "no answer".into(),
            };
            waiting.pause(&format!("waiting for the ledger of {who}: {why}"))?;
        }
    }

    fn make_patiently(&self, who: &str, waiting: &Deadline<'_>) -> Result<(), ConnectError> {
        loop {
            let why = match self.line.dialer.block(self.within, self.make()) {
                Some(Ok(())) => return Ok(()),
                Some(Err(error)) if is_final(&error) => return Err(unfit(who, error.to_string())),
                Some(Err(error)) => error.to_string(),
                None => "no answer".into(),
            };
            let complaint = self
                .line
                .signals
                .last_server_error()
                .map_or(String::new(), |text| format!(" ({text})"));
            waiting.pause(&format!("waiting for JetStream of {who}: {why}{complaint}"))?;
        }
    }

    fn check(&self, info: &Info) -> Result<(), String> {
        let config = &info.config;
        let is_ours = config.subjects == [self.subject.as_str()]
            && config.storage == StorageType::File
            && !config.allow_direct
            && config.max_messages_per_subject >= 1
            && config.discard == DiscardPolicy::Old;
        match is_ours {
            true => Ok(()),
            false => Err(format!(
                "its stream {} was not created by pbg-host",
                self.stream
            )),
        }
    }

    async fn get(&self) -> Result<ReadResult, String> {
        let stream = self.context.get_stream_no_info(&self.stream).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let message = match stream.get_last_raw_message_by_subject(&self.subject).await {
            Ok(message) => message,
            Err(error) => {
                return match error.kind() {
                    RawMessageErrorKind::NoMessageFound => Ok(ReadResult::Nothing),
                    RawMessageErrorKind::JetStream(inner)
                        if inner.error_code() == ErrorCode::STREAM_NOT_FOUND =>
                    {
                        Ok(ReadResult::NoStream)
                    }
                    _ => Err(error.to_string()),
                };
            }
        };
        let value = value_of(&message.payload)?;
        Ok(ReadResult::Value(RegisterEntry {
            revision: message.sequence,
            value,
        }))
    }

    pub(crate) async fn read(&self) -> Result<Option<RegisterEntry>, String> {
        for _ in 0..2 {
            match self.get().await? {
                ReadResult::Value(entry) => return Ok(Some(entry)),
                ReadResult::Nothing => return Ok(None),
                ReadResult::NoStream if !self.makes => return Ok(None),
                ReadResult::NoStream => self.make().await.map_err(|error| error.to_string())?,
            }
        }
        Err("the stream disappears as soon as it is created".into())
    }

    pub(crate) async fn write(
        &self,
        after: Option<u64>,
        value: Vec<u8>,
        id: &str,
    ) -> Result<WriteReply, String> {
        let message = PublishMessage::build()
            .payload(value.into())
            .expected_last_subject_sequence(after.unwrap_or(0))
            .message_id(id);
        let sent = self
            .context
            .send_publish(self.subject.clone(), message)
            .await;
        let answer = match sent {
            Ok(acknowledgement) => acknowledgement.await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(answer) if answer.duplicate => Ok(WriteReply::Refused),
            Ok(answer) => Ok(WriteReply::Accepted(answer.sequence)),
            Err(error) => match error.kind() {
                PublishErrorKind::WrongLastSequence => Ok(WriteReply::Refused),
                _ if is_refusal(&error) => Ok(WriteReply::Refused),
                _ => Err(error.to_string()),
            },
        }
    }

    pub(crate) fn block<T>(
        &self,
        what: &str,
        future: impl Future<Output = Result<T, String>>,
    ) -> Result<T, NoAnswer> {
        let answered = async {
            self.line.connected().await;
            future.await
        };
        let asked = async {
            tokio::select! {
                answer = answered => Some(answer),
                () = self.stopped() => None,
            }
        };
        let answer = self.line.dialer.block(self.within, asked).flatten();
        let answer = answer.unwrap_or_else(|| match self.line.is_connected() {
            true => Err("no answer".to_owned()),
            false => Err("no connection to its server".to_owned()),
        });
        answer.map_err(|why| NoAnswer(format!("{what} the ledger: {why}")))
    }

    /// Returns a short time after the caller was asked to stop.
    async fn stopped(&self) {
        let is_set = || {
            let stop = self.stop.as_ref();
            stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
        };
        while !is_set() {
            tokio::time::sleep(LOOK).await;
        }
        tokio::time::sleep(LAST_ANSWER).await;
    }

    pub(crate) async fn history(&self) -> Result<Vec<RegisterEntry>, String> {
        let stream = self.context.get_stream(&self.stream).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let state = &stream.cached_info().state;
        let first = state
            .last_sequence
            .saturating_sub(u64::from(KEPT_REVISIONS) - 1);
        let mut found = Vec::new();
        for sequence in first.max(state.first_sequence).max(1)..=state.last_sequence {
            match stream.get_raw_message(sequence).await {
                Ok(message) => found.push(RegisterEntry {
                    revision: sequence,
                    value: value_of(&message.payload)?,
                }),
                // It was deleted because newer ones have been written since.
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(found)
    }

    /// Deletes the stream with all its revisions.
    pub(crate) fn forget(&self) -> Result<(), NoAnswer> {
        self.block("deleting", async {
            match self.context.delete_stream(&self.stream).await {
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}

/// Returns a value that a server has sent, unless it is larger than any that a trainer writes.
fn value_of(payload: &[u8]) -> Result<Vec<u8>, String> {
    let size = payload.len();
    match size > MAX_VALUE {
        true => Err(format!("a value of {size} bytes is too large")),
        false => Ok(payload.to_vec()),
    }
}

/// Returns a first sequence number that is so large that two streams hardly ever use the same numbers, and small enough
/// for every JSON reader to represent it exactly.
pub(crate) fn first_sequence(random: [u8; 32]) -> u64 {
    let [a, b, c, d, ..] = random;
    (u64::from(u32::from_le_bytes([a, b, c, d])) << 20) + 1
}

fn unfit(who: &str, what: String) -> ConnectError {
    ConnectError::Unfit {
        who: who.to_owned(),
        what,
    }
}

fn code(error: &CreateStreamError) -> Option<ErrorCode> {
    match error.kind() {
        CreateStreamErrorKind::JetStream(error) => Some(error.error_code()),
        _ => None,
    }
}

fn is_no_stream(error: &GetStreamError) -> bool {
    matches!(error.kind(), GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

/// Whether retrying is useless.
fn is_final(error: &CreateStreamError) -> bool {
    /// There is no cluster for several replicas (`JSStreamReplicasNotSupportedErr`).
    const NO_REPLICAS: u64 = 10074;
    let never = [
        ErrorCode::JETSTREAM_NOT_ENABLED,
        ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT,
        ErrorCode::ACCOUNT_RESOURCES_EXCEEDED,
        ErrorCode::INSUFFICIENT_RESOURCES,
        ErrorCode::STREAM_SUBJECT_OVERLAP,
    ];
    code(error).is_some_and(|code| code.0 == NO_REPLICAS || never.contains(&code))
}

/// Whether the error is a refused write, for which clustered streams have another error code.
fn is_refusal(error: &(dyn std::error::Error + 'static)) -> bool {
    let source = error
        .source()
        .and_then(|source| source.downcast_ref::<async_nats::jetstream::Error>());
    source.is_some_and(|error| error.error_code() == ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT)
}
