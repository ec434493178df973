//! Tests of training through its public interface.

mod candidate_scores;
mod dataset;
mod device_run;
mod pbg_steps;
mod strategies;
mod together;
mod within;
