//! Answers as they are written: for people, as lines of JSON, as a Parquet table.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use pbg_core::graph::Side;
use pbg_store::export::predictions::{PredictedEdge, PredictionTable};
use pbg_store::files::{self, FileError};
use pbg_train::{Prediction, Question};
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::terminal;

/// Where answers go.
pub(super) enum Answers {
    /// To people, on standard output.
    Text,
    /// To programs, on standard output.
    Json,
    /// Into a file of JSON lines.
    Lines(LinesFile),
    /// Into a Parquet file.
    Table(Box<PredictionTable>),
}

/// A file of lines that has its name once it is complete.
pub(super) struct LinesFile {
    path: PathBuf,
    staged: PathBuf,
    file: Option<BufWriter<File>>,
}

/// A question and its answer.
#[derive(Serialize)]
pub(crate) struct Answer<'a> {
    head: Option<&'a str>,
    relation: &'a str,
    tail: Option<&'a str>,
    left_out: u64,
    answers: Vec<Named<'a>>,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    score: f32,
}

impl Answers {
    /// Into a file; its name says which kind it is.
    ///
    /// # Errors
    /// When it is of no kind that is written, or cannot be created.
    pub(super) fn file(path: &Path) -> Result<Self> {
        // A file takes the place of what there is, so that must be one, too.
        if fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) {
            let text = format!("{} is there and no regular file", path.display());
            let help = "name another file; without --out, --json writes to standard output";
            return Err(Failure::message(FailureKind::Usage, text).help(help));
        }
        let ending = path.extension().and_then(|ending| ending.to_str());
        match ending {
            Some("parquet") => {
                let table = PredictionTable::create(path).map_err(failed)?;
                Ok(Self::Table(Box::new(table)))
            }
            Some("jsonl") => LinesFile::create(path).map(Self::Lines).map_err(failed),
            _ => {
                let text = format!("{} is no kind of file that is written here", path.display());
                let help = "name a file that ends in .parquet or .jsonl";
                Err(Failure::message(FailureKind::Usage, text).help(help))
            }
        }
    }

    /// Adds an answer.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn put(&mut self, question: &Question, found: &Prediction<'_>) -> Result<()> {
        match self {
            Self::Text => terminal::print(|out| print(out, question, found)),
            Self::Json => terminal::print_as_it_is(|out| write_json(out, question, found)),
            Self::Lines(lines) => lines.put(question, found).map_err(failed),
            Self::Table(table) => put_rows(table, question, found).map_err(failed),
        }
    }

    /// Completes what was written.
    ///
    /// # Errors
    /// When it cannot be.
    pub(super) fn finish(self) -> Result<()> {
        match self {
            Self::Text | Self::Json => Ok(()),
            Self::Lines(lines) => lines.finish().map_err(failed),
            Self::Table(table) => table.finish().map_err(failed),
        }
    }
}

fn failed(error: FileError) -> Failure {
    Failure::new(FailureKind::Io, error)
}

/// Head and tail of a question, the open one absent.
fn sides(question: &Question) -> (Option<&str>, Option<&str>) {
    match question.open {
        Side::Rhs => (Some(&question.entity), None),
        Side::Lhs => (None, Some(&question.entity)),
    }
}

/// The question, and a line for each entity: rank, score, name.
fn print(out: &mut dyn Write, question: &Question, found: &Prediction<'_>) -> io::Result<()> {
    let known = match found.left_out {
        0 => String::new(),
        n => format!("   without {} in known edges", entities(n)),
    };
    writeln!(out, "{question}{known}")?;
    if found.best.is_empty() {
        writeln!(out, "  no entity is left")?;
    }
    let scores: Vec<String> = found.best.iter().map(|(_, s)| format!("{s:.4}")).collect();
    let width = scores.iter().map(String::len).max().unwrap_or(0);
    let ranks = found.best.len().to_string().len().max(3);
    for (rank, ((name, _), score)) in (1..).zip(found.best.iter().zip(&scores)) {
        writeln!(out, "{rank:>ranks$}  {score:>width$}  {name}")?;
    }
    Ok(())
}

fn entities(count: u64) -> String {
    match count {
        1 => "1 entity".to_owned(),
        n => format!("{n} entities"),
    }
}

/// A question and its answer, as programs read them.
pub(crate) fn as_json<'a>(question: &'a Question, found: &Prediction<'a>) -> Answer<'a> {
    let (head, tail) = sides(question);
    let named = |&(name, score): &(_, f32)| Named { name, score };
    Answer {
        head,
        relation: &question.relation,
        tail,
        left_out: found.left_out,
        answers: found.best.iter().map(named).collect(),
    }
}

fn write_json(out: &mut dyn Write, question: &Question, found: &Prediction<'_>) -> io::Result<()> {
    let answer = as_json(question, found);
    serde_json::to_writer(&mut *out, &answer).map_err(io::Error::from)?;
    writeln!(out)
}

fn put_rows(
    table: &mut PredictionTable,
    question: &Question,
    found: &Prediction<'_>,
) -> Result<(), FileError> {
    let (head, tail) = sides(question);
    for (rank, &(name, score)) in (1..).zip(&found.best) {
        table.put(&PredictedEdge {
            head: head.unwrap_or(name),
            relation: &question.relation,
            tail: tail.unwrap_or(name),
            asked: if head.is_some() { "tail" } else { "head" },
            rank,
            score,
        })?;
    }
    Ok(())
}

impl LinesFile {
    fn create(path: &Path) -> Result<Self, FileError> {
        let staged = files::unused_staged_name(path)?;
        let file = File::create(&staged).map_err(|e| FileError::new("create", &staged, e))?;
        Ok(Self {
            path: path.to_owned(),
            staged,
            file: Some(BufWriter::new(file)),
        })
    }

    fn put(&mut self, question: &Question, found: &Prediction<'_>) -> Result<(), FileError> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let written = write_json(file, question, found);
        written.map_err(|e| FileError::new("write", &self.staged, e))
    }

    fn finish(mut self) -> Result<(), FileError> {
        if let Some(mut file) = self.file.take() {
            let written = file.flush().and_then(|()| file.get_ref().sync_all());
            written.map_err(|e| FileError::new("write", &self.staged, e))?;
        }
        files::rename(&self.staged, &self.path)
    }
}

impl Drop for LinesFile {
    /// What is not complete is nothing: the file that was begun goes away.
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // It was there for nobody; that it stays is no failure of its own.
            let _stays = files::remove(&self.staged);
        }
    }
}
