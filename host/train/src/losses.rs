//! PBG's losses by name, native until losses are components.

use pbg_core::config::Config;
use pbg_core::strategy::Loss;
use pbg_kernels::losses::direct::{Logistic, Ranking, Softmax};

/// The loss that `config` names; `None` when there is none of that name.
#[must_use]
pub fn native_loss(config: &Config) -> Option<Box<dyn Loss>> {
    match config.loss_fn.as_str() {
        "ranking" => Some(Box::new(Ranking::new(config.margin))),
        "logistic" => Some(Box::new(Logistic::new())),
        "softmax" => Some(Box::new(Softmax::new())),
        _ => None,
    }
}
