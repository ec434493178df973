//! Rules of `[execution]`.

use super::{Validator, did_you_mean, of_entity, top};
use pbg_core::model::{Comparator, Device, EmbeddingFormat, Optimizer, Precision};

impl Validator<'_> {
    /// Checks that the name of the device is valid and that the device supports the other keys.
    pub(super) fn execution(&mut self) {
        let key = || top("execution").join("device");
        let text = &self.config.execution.device;
        let Some(device) = Device::parse(text) else {
            let advice = did_you_mean(meant(text));
            let message = format!(
                "must be `cpu`, or `cuda:` followed by the number of a GPU, is {}{advice}",
                super::excerpt(text)
            );
            return self.report([key()], message);
        };
        self.precision();
        if device == Device::Cpu {
            return;
        }
        if self.compares_pairs() {
            let message = format!(
                "is {device}, but comparators that are computed pair by pair, as `{}` is, run on the CPU only; use `cpu`, \
                 or `dot`, `cos`, `l2` or `squared_l2`",
                self.config.comparator
            );
            self.report([key(), top("comparator")], message);
        }
        if self.config.storage == EmbeddingFormat::Bf16 {
            let message = format!(
                "must be `f32` if `execution.device` is {device}: rounding is implemented on the CPU only"
            );
            self.report([top("storage"), key()], message);
        }
        if self.config.relation_prediction > 0.0 {
            let message = format!("must be 0 if `execution.device` is {device}");
            self.report([top("relation_prediction"), key()], message);
        }
        if self.config.optimizer != Optimizer::RowAdagrad {
            let message = format!(
                "must be `row_adagrad` if `execution.device` is {device}, which supports no other optimizer"
            );
            self.report([top("optimizer"), key()], message);
        }
        let entities = &self.config.entities;
        for (name, _) in entities.iter().filter(|(_, entity)| entity.featurized) {
            let message = format!(
                "is {device}, but the featurized type `{name}` can be trained on the CPU only; use `cpu`"
            );
            self.report([key(), of_entity(name, "featurized")], message);
        }
        for (name, _) in entities.iter().filter(|(_, entity)| entity.frozen) {
            let message = format!(
                "is {device}, which trains the embeddings of all types, but `{name}` is frozen; use `cpu`, or do not \
                 freeze any type"
            );
            self.report([key(), of_entity(name, "frozen")], message);
        }
    }

    /// Checks that scores do not lose too much if the factors of products are rounded.
    fn precision(&mut self) {
        if self.config.execution.precision == Precision::Fp32 {
            return;
        }
        let comparator = &self.config.comparator;
        let reason = match Comparator::built_in(comparator) {
            Some(Comparator::L2 | Comparator::SquaredL2) => {
                "would lose small distances in the difference of large numbers"
            }
            _ if self.compares_pairs() => {
                "rounds the factors of matrix products, and this comparator is computed pair by pair"
            }
            _ => return,
        };
        let message = format!("must be `fp32` with the comparator `{comparator}`: bf16 {reason}");
        let key = top("execution").join("precision");
        self.report([key, top("comparator")], message);
    }

    /// Whether scores are a formula of each pair of embeddings and not of their inner products. A plugin's formula
    /// counts once it has been loaded.
    fn compares_pairs(&self) -> bool {
        let comparator = self.config.comparator();
        comparator.is_ok_and(|comparator| comparator.formula().is_some())
    }
}

/// Returns the device that `text` probably means: a name in another case, or the first GPU.
fn meant(text: &str) -> Option<Device> {
    let lower = text.trim().to_lowercase();
    if let Some(device) = Device::parse(&lower) {
        return Some(device);
    }
    let rest = ["cuda", "gpu"]
        .iter()
        .find_map(|name| lower.strip_prefix(name))?;
    let number = rest.trim_start_matches([':', ' ', '_', '-']);
    match number.parse() {
        Ok(index) => Some(Device::Cuda(index)),
        Err(_) => number.is_empty().then_some(Device::Cuda(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_understood() {
        for (text, expected) in [
            ("CPU", Some(Device::Cpu)),
            ("cuda", Some(Device::Cuda(0))),
            ("gpu", Some(Device::Cuda(0))),
            ("GPU:1", Some(Device::Cuda(1))),
            ("cuda2", Some(Device::Cuda(2))),
            ("cuda:", Some(Device::Cuda(0))),
            ("cuda:x", None),
            ("tpu", None),
        ] {
            assert_eq!(meant(text), expected, "{text}");
        }
    }
}
