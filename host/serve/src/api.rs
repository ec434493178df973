//! The routes of the API.

use std::time::Duration;

use pbg_query::{
    AskedQuestion, Named, RefusedQuestion, ServedAnswer, ServedModel, ServedPartitions,
    ServedWorker,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::http::{HttpRequest, HttpResponse};
use crate::workers::WorkerPool;

/// Largest number of answers, of edges or of names in a request.
const MOST: usize = 1000;
/// Description of the API.
const OPENAPI: &str = include_str!("openapi.json");
/// Longest wait of a question for a worker.
const PATIENCE: Duration = Duration::from_secs(2);

/// API of a model.
pub struct Api<'s> {
    model: &'s ServedModel<'s>,
    partitions: &'s ServedPartitions<'s>,
    workers: WorkerPool<'s>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScoreRequest {
    edges: Vec<[String; 3]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PredictRequest {
    head: Option<String>,
    relation: Option<String>,
    tail: Option<String>,
    #[serde(default = "ten")]
    k: usize,
    #[serde(default = "yes")]
    loops: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NeighborsRequest {
    name: String,
    entity_type: Option<String>,
    #[serde(default = "ten")]
    k: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamesRequest {
    entity_type: String,
    #[serde(default)]
    prefix: String,
    #[serde(default = "ten")]
    k: usize,
}

const fn ten() -> usize {
    10
}

const fn yes() -> bool {
    true
}

// Numbers keep their single precision in structs; `json!` would widen them.

#[derive(Serialize)]
struct ScoreBody {
    scores: Vec<f32>,
}

#[derive(Serialize)]
struct AnswerBody {
    answers: Vec<NamedBody>,
    left_out: u64,
    approximate: bool,
}

#[derive(Serialize)]
struct NamedBody {
    name: String,
    score: f32,
}

type Answered = Result<HttpResponse, HttpResponse>;

impl<'s> Api<'s> {
    /// Creates the API of a model with `threads` workers; at most `queue` questions wait for one.
    ///
    /// # Errors
    /// When the model breaks a rule.
    pub fn new(
        model: &'s ServedModel<'s>,
        partitions: &'s ServedPartitions<'s>,
        threads: usize,
        queue: usize,
    ) -> Result<Self, pbg_query::RefusedQuestion> {
        let workers = (0..threads.max(1)).map(|_| partitions.worker());
        let workers = workers.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            model,
            partitions,
            workers: WorkerPool::new(partitions, workers, queue, PATIENCE),
        })
    }

    /// Answers a request.
    #[must_use]
    pub fn answer(&self, request: &HttpRequest) -> HttpResponse {
        let expected = match request.path.as_str() {
            "/health" | "/model" | "/openapi.json" => "GET",
            "/score" | "/predict" | "/neighbors" | "/names" => "POST",
            _ => {
                let text =
                    "there is no such path; GET /openapi.json describes those that there are";
                return HttpResponse::error(404, text);
            }
        };
        if request.method != expected {
            let text = format!("{} is asked with {expected}", request.path);
            return HttpResponse::error(405, &text);
        }
        let answered = match request.path.as_str() {
            "/health" => self.health(),
            "/model" => self.about(),
            "/openapi.json" => Ok(HttpResponse::text("application/json", OPENAPI.to_owned())),
            "/score" => self.score(&request.body),
            "/predict" => self.predict(&request.body),
            "/neighbors" => self.neighbors(&request.body),
            _ => self.names(&request.body),
        };
        answered.unwrap_or_else(|refusal| refusal)
    }

    fn health(&self) -> Answered {
        let version = self.model.version();
        Ok(HttpResponse::json(
            &serde_json::json!({ "status": "ok", "version": version }),
        ))
    }

    fn about(&self) -> Answered {
        let types = self.model.entity_types().into_iter();
        let types =
            types.map(|(name, count)| serde_json::json!({ "name": name, "entities": count }));
        let relations = self.model.relations().into_iter();
        let relations = relations.map(
            |(name, [head, tail])| serde_json::json!({ "name": name, "head": head, "tail": tail }),
        );
        Ok(HttpResponse::json(&serde_json::json!({
            "version": self.model.version(),
            "entity_types": types.collect::<Vec<_>>(),
            "relations": relations.collect::<Vec<_>>(),
        })))
    }

    fn score(&self, body: &[u8]) -> Answered {
        let asked: ScoreRequest = parse(body)?;
        bounded("edges", asked.edges.len())?;
        let scores = self.with_worker(|worker| {
            let scores = asked.edges.iter().map(|[head, relation, tail]| {
                self.partitions.score(worker, [head, relation, tail])
            });
            scores.collect::<Result<Vec<f32>, _>>()
        })?;
        Ok(HttpResponse::json(&ScoreBody { scores }))
    }

    fn predict(&self, body: &[u8]) -> Answered {
        let asked: PredictRequest = parse(body)?;
        bounded("k", asked.k)?;
        let (count, loops) = (asked.k, asked.loops);
        let question = AskedQuestion::new(asked.head, asked.relation, asked.tail);
        let question = question.map_err(|what| {
            let help = "give two of `head`, `relation` and `tail`";
            HttpResponse::error(400, &format!("{what}: {help}"))
        })?;
        let found = self.with_worker(|worker| match &question {
            AskedQuestion::Entity(asked) => self.partitions.predict(worker, asked, count, loops),
            AskedQuestion::Relation(asked) => self.partitions.relations(worker, asked, count),
        })?;
        Ok(answer_body(&found))
    }

    fn neighbors(&self, body: &[u8]) -> Answered {
        let asked: NeighborsRequest = parse(body)?;
        bounded("k", asked.k)?;
        let entity_type = asked.entity_type.as_deref();
        let found = self.with_worker(|worker| {
            self.partitions
                .neighbors(worker, &asked.name, entity_type, asked.k)
        })?;
        Ok(answer_body(&found))
    }

    fn names(&self, body: &[u8]) -> Answered {
        let asked: NamesRequest = parse(body)?;
        bounded("k", asked.k)?;
        let found = self.with_worker(|_| {
            self.partitions
                .names(&asked.entity_type, &asked.prefix, asked.k)
        })?;
        Ok(HttpResponse::json(&serde_json::json!({ "names": found })))
    }

    /// Answers with a worker, once one is free.
    fn with_worker<T>(
        &self,
        answer: impl FnOnce(&mut ServedWorker) -> Result<T, RefusedQuestion>,
    ) -> Result<T, HttpResponse> {
        let busy = || HttpResponse::error(503, "too many questions are waiting; ask again later");
        let mut worker = self.workers.take().ok_or_else(busy)?;
        let found = worker.worker().map(answer).ok_or_else(busy)?;
        found.map_err(|refused| match refused {
            RefusedQuestion::Name(what) => HttpResponse::error(404, &what),
            RefusedQuestion::Run(error) => HttpResponse::error(500, &error.to_string()),
        })
    }
}

fn answer_body(found: &ServedAnswer<'_>) -> HttpResponse {
    let named = |&Named { name, score }: &Named<'_>| NamedBody {
        name: name.to_owned(),
        score,
    };
    HttpResponse::json(&AnswerBody {
        left_out: found.left_out,
        approximate: found.is_approximate,
        answers: found.best.iter().map(named).collect(),
    })
}

/// Parses a body.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, HttpResponse> {
    serde_json::from_slice(body).map_err(|error| {
        let text = format!("the body is not the JSON that this path takes: {error}");
        HttpResponse::error(400, &text)
    })
}

/// Refuses numbers that are too large, or 0.
fn bounded(what: &str, count: usize) -> Result<(), HttpResponse> {
    match count {
        1..=MOST => Ok(()),
        0 => Err(HttpResponse::error(
            400,
            &format!("{what}: at least 1 is needed"),
        )),
        _ => Err(HttpResponse::error(
            400,
            &format!("{what}: {count} is more than the {MOST} that are allowed"),
        )),
    }
}
