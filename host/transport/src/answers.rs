//! The thread that answers the questions of other trainers.

use std::thread;
use std::time::Duration;

use async_nats::{Message, Subscriber};
use futures_util::StreamExt;
use pbg_ledger::Token;
use pbg_ledger::transport::{NoAnswer, QuestionHandler};
use tokio::sync::oneshot;

use crate::client::NatsConnection;
use crate::limits::MAX_PAYLOAD;
use crate::options::RunName;

/// Timeout of subscribing.
const SUBSCRIBE_WITHIN: Duration = Duration::from_secs(5);
/// Timeout of passing one answer to the client.
const REPLY_WITHIN: Duration = Duration::from_secs(10);
/// Longest wait for a question, after which the thread checks whether it is still needed.
const REST: Duration = Duration::from_secs(3600);

/// Returns the subject on which the trainer `whom` is asked.
pub(crate) fn question_subject(run: &RunName, whom: Token) -> String {
    format!("pbg.{}.ask.{whom}", run.as_str())
}

/// Guard of the answering thread, which ends when this is dropped.
pub(crate) struct AnswerThread {
    _ends: oneshot::Sender<()>,
}

impl AnswerThread {
    /// Starts a thread that answers the questions to `me`. The server has the subscription when this returns.
    ///
    /// # Errors
    /// Fails if there is no connection, or if no thread can be started.
    pub(crate) fn start(
        line: NatsConnection,
        run: &RunName,
        me: Token,
        answers: QuestionHandler,
    ) -> Result<Self, NoAnswer> {
        let subscribe = async {
            let questions = line.client.subscribe(question_subject(run, me)).await?;
            line.flushed(run).await?;
            Ok::<_, async_nats::Error>(questions)
        };
        let questions = match line.dialer.block(SUBSCRIBE_WITHIN, subscribe) {
            Some(Ok(questions)) => questions,
            Some(Err(error)) => return Err(NoAnswer(format!("subscribing to questions: {error}"))),
            None => return Err(NoAnswer("subscribing to questions: no connection".into())),
        };
        let (ends, ended) = oneshot::channel();
        let name = "pbg-answers".to_owned();
        let spawned = thread::Builder::new()
            .name(name)
            .spawn(move || answer_all(&line, questions, ended, &answers));
        match spawned {
            Ok(_) => Ok(Self { _ends: ends }),
            Err(error) => Err(NoAnswer(format!("starting a thread: {error}"))),
        }
    }
}

fn answer_all(
    line: &NatsConnection,
    mut questions: Subscriber,
    mut ended: oneshot::Receiver<()>,
    answers: &QuestionHandler,
) {
    loop {
        let next = async {
            tokio::select! {
                biased;
                _ = &mut ended => None,
                question = questions.next() => question,
            }
        };
        match line.dialer.block(REST, next) {
            None => {}
            Some(None) => return,
            Some(Some(question)) => answer(line, question, answers),
        }
    }
}

fn answer(line: &NatsConnection, question: Message, answers: &QuestionHandler) {
    let Some(reply) = question.reply else { return };
    if question.payload.len() > MAX_PAYLOAD {
        return;
    }
    let answer = answers(&question.payload);
    if answer.len() <= MAX_PAYLOAD {
        // If the answer cannot be sent, the trainer that asked runs into its timeout.
        let sent = line.client.publish(reply, answer.into());
        let _ = line.dialer.block(REPLY_WITHIN, sent);
    }
}
