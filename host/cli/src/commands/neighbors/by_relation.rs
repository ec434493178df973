//! Neighbours of an entity by a relation: the best candidates of a prediction. Unlike `predict`, known edges are not
//! filtered; only the entity itself is left out.

use std::io::{self, Write};

use pbg_core::graph::Side;
use pbg_model::ResolvedConfig;
use pbg_query::{AskedQuestion, PredictOptions, Prediction, Question};

use super::{Args, SideArg};
use crate::commands::predict::answers;
use crate::failure::{Failure, Result};
use crate::terminal::{self, Terminal};
use crate::{interrupt, model_notes};

/// Prints the entities nearest to `name` after the operator of `relation` is applied. `--asked` chooses the side of the
/// listed entities. Without it, each side is listed for which the entity type of the other side has an entity `name`.
///
/// # Errors
/// When the model cannot be opened, or a name is unknown.
pub(super) fn run(
    args: &Args,
    name: &str,
    relation: &str,
    resolved: &ResolvedConfig,
    terminal: Terminal,
) -> Result<()> {
    let sides = match args.asked {
        Some(SideArg::Head) => vec![Side::Lhs],
        Some(SideArg::Tail) => vec![Side::Rhs],
        None => vec![Side::Rhs, Side::Lhs],
    };
    let predictor = pbg_query::Predictor::open(
        resolved,
        &PredictOptions {
            count: args.neighbors,
            filter: Vec::new(),
            // An entity is not its own neighbour.
            loops: false,
            threads: None,
            questions: Some(sides.len()),
            index: args.index.index_options(),
        },
    )?;
    model_notes::warn_about_missing_rows(predictor.missing(), resolved, terminal);
    let (mut questions, mut resolved_questions, mut refusals) =
        (Vec::new(), Vec::new(), Vec::new());
    // `open` is the side of the listed entities.
    for open in sides {
        let question = Question {
            open,
            entity: name.to_owned(),
            relation: relation.to_owned(),
        };
        // With different entity types on both sides, perhaps only one of them has an entity of this name.
        match predictor.resolve(std::slice::from_ref(&question)) {
            Ok(found) => {
                resolved_questions.extend(found);
                questions.push(AskedQuestion::Entity(question));
            }
            Err(no) => refusals.push(*no.error),
        }
    }
    if questions.is_empty()
        && let Some(first) = refusals.into_iter().next()
    {
        return Err(Failure::from(first));
    }
    let approach = predictor.approach(&resolved_questions)?;
    model_notes::PrintedNotes::default().print_search_plan(&approach, terminal, |say| say());
    let stop = interrupt::watch("stopping", terminal.announcer())?;
    let found = predictor.answer(&resolved_questions, &stop, &mut |_| ())?;
    let answers = || questions.iter().zip(found.iter());
    if args.json {
        let all = answers().map(|(question, found)| answers::as_json(question, &found, None));
        return terminal::print_json(&all.collect::<Vec<_>>());
    }
    terminal::print(|out| answers().try_for_each(|(question, found)| print(out, question, &found)))
}

/// Prints the question, and a line for each entity with score, tab and name, best first.
fn print(out: &mut dyn Write, question: &AskedQuestion, found: &Prediction<'_>) -> io::Result<()> {
    writeln!(out, "{question}")?;
    let mut best = found.best.iter();
    best.try_for_each(|(name, score)| writeln!(out, "{score:.4}\t{name}"))
}
