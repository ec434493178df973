//! Rules of `[execution]`.

use super::{Validator, did_you_mean, of_entity, top};
use pbg_core::model::{Device, EmbeddingFormat, Optimizer};

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
        if device == Device::Cpu {
            return;
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
