//! Validation of a single trainer between epochs: ranks of validation edges, and their consequences.

use pbg_config::Config;
use pbg_core::event::{Event, RankStats};
use pbg_core::plateau::ValidationState;
use pbg_core::schedule::Schedule;
use pbg_model::error::RunError;
use pbg_query::evaluate::{self, ModelView};

use super::SingleTrainer;
use crate::buffer_tables::BufferTables;
use crate::validation;

impl SingleTrainer<'_> {
    /// Ranks the validation edges if an epoch has ended after which validation is due. A run that was stopped after an
    /// epoch's commit, before the ranks were committed as well, validates when it goes on.
    pub(super) fn validate(&mut self) -> Result<(), RunError> {
        let Some(edges) = due(self.machine.config(), &self.schedule, &self.state.plateau) else {
            return Ok(());
        };
        self.finish_commit()?;
        let started = pbg_clock::now();
        let ranks = self.rank(edges)?;
        let rules = self.machine.config().validation.rules();
        let epochs = self.schedule.pass().epoch;
        let plateau = &mut self.state.plateau;
        let before = plateau.lr_factor;
        plateau.observe(epochs, ranks.mrr, &rules);
        let plateau = *plateau;
        let event = Event::Validated {
            epochs: plateau.seen,
            edges: edges.to_owned(),
            ranks,
            best: plateau.is_best(),
            lr_factor: plateau.lr_factor,
            seconds: started.elapsed().as_secs_f64(),
        };
        self.report(event)?;
        if plateau.is_best() && rules.early_stop.is_some() {
            self.checkpoint().preserve_best()?;
        }
        if plateau.lr_factor < before {
            self.machine.set_rates(plateau.lr_factor);
        }
        self.commit()?;
        Ok(())
    }

    /// Computes the filtered ranks of both sides of `edges`, with the current tables of the buffer.
    fn rank(&mut self, edges: &str) -> Result<RankStats, RunError> {
        self.machine.settle_parameters()?;
        self.machine.pipeline.buffer.wait_for_commit_writes()?;
        let view = ModelView {
            dataset: self.machine.resolved.dataset(),
            blueprint: self.machine.blueprint(),
            params: &self.machine.params,
            grown: None,
            seen: None,
        };
        let options = validation::options(self.machine.resolved, edges);
        let tables = &mut BufferTables::new(&self.machine.pipeline.buffer);
        let report = evaluate::rank(
            &view,
            tables,
            &options,
            self.machine.config().seed,
            &mut |_, _| (),
        )?;
        Ok(*report.ranks())
    }

    /// Whether validation has not improved for too many epochs.
    pub(super) fn ends_early(&self) -> bool {
        self.state
            .plateau
            .ends(&self.machine.config().validation.rules())
    }

    pub(super) fn announce_early_end(&mut self) {
        if self.ends_early() && !self.schedule.finished(self.machine.extent) {
            let plateau = self.state.plateau;
            self.machine.emit(Event::StoppedEarly {
                epochs: plateau.seen,
                best_epoch: plateau.best_epoch,
                best_mrr: plateau.best_mrr,
            });
        }
    }
}

/// Returns the edge set to rank now: at the end of an epoch after which validation is due and has not happened yet.
fn due<'a>(config: &'a Config, schedule: &Schedule, plateau: &ValidationState) -> Option<&'a str> {
    let pass = schedule.pass();
    let between = schedule.needs_plan() && (pass.edge_set, pass.edge_chunk) == (0, 0);
    let epochs = pass.epoch;
    let is_due = epochs > plateau.seen && epochs.is_multiple_of(config.validation.interval);
    let edges = config.validation.edges.as_deref();
    edges.filter(|_| between && is_due)
}
