//! Tests of training through its public interface.

mod device_run;
mod pbg_steps;
mod together;
mod within;
