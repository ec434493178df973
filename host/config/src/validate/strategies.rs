//! Rules of the names of strategies: an installed strategy, or the path of a component.

use pbg_core::lr_schedule::LrDecay;
use pbg_core::model::{NegativesFrom, Operator};
use pbg_core::nearest::nearest;

use super::super::installed::{LR_DECAY, is_plugin_path};
use super::super::node::excerpt;
use super::super::{DEFAULT_NEGATIVES, DEFAULT_SAMPLER, StrategyNames};
use super::{Validator, did_you_mean, of_relation, top};

impl Validator<'_> {
    /// Checks that every strategy exists, is of the kind that its key needs, and is used.
    pub(super) fn strategies(&mut self, installed: &StrategyNames) {
        let config = self.config;
        for (key, name) in [
            ("bucket_order", &config.bucket_order),
            ("loss_fn", &config.loss_fn),
            ("relation_sampler", &config.relation_sampler),
            ("negative_sampler", &config.negative_sampler),
        ] {
            if !installed.has(key, name) && !is_plugin_path(name) {
                let known = installed.standard(key).iter().map(String::as_str);
                let known = known.collect::<Vec<_>>();
                self.report([top(key)], no_strategy(installed, key, name, &known));
            }
        }
        // Saved configurations contain all keys, so the default does not mean that the user set it.
        if config.dynamic_relations && config.relation_sampler != DEFAULT_SAMPLER {
            self.report(
                [top("relation_sampler"), top("dynamic_relations")],
                "is used for static relations only: with `dynamic_relations` batches mix relations without a sampler; \
                 remove it, or set `dynamic_relations = false`",
            );
        }
        if config.negative_sampler != DEFAULT_NEGATIVES {
            if config.negatives_from == NegativesFrom::Bucket {
                self.report(
                    [top("negative_sampler"), top("negatives_from")],
                    "draws from the partition of the replaced side; remove it, or set `negatives_from = \"partition\"`",
                );
            }
            if config.num_uniform_negs == 0 {
                self.report(
                    [top("negative_sampler"), top("num_uniform_negs")],
                    "is not used, since `num_uniform_negs` is 0; remove it, or raise `num_uniform_negs`",
                );
            }
        }
        for (i, relation) in self.relations() {
            let name = &relation.operator;
            let known = Operator::built_in(name).is_some()
                || config.formulas.contains_key(name)
                || installed.has("operator", name)
                || is_plugin_path(name);
            if !known {
                let built_in = Operator::BUILT_IN.iter().map(Operator::name);
                let standard = installed.standard("operator").iter().map(String::as_str);
                let known: Vec<&str> = built_in.chain(standard).collect();
                let path = of_relation(i, "operator");
                self.report([path], no_strategy(installed, "operator", name, &known));
            }
        }
    }

    /// Checks that the course after the warm-up is built in, or a plugin.
    pub(super) fn lr_decay(&mut self, installed: &StrategyNames) {
        let name = &self.config.lr_schedule.decay;
        let built_in = LrDecay::built_in(name).is_some();
        if built_in || installed.has(LR_DECAY, name) || is_plugin_path(name) {
            return;
        }
        let known = LrDecay::BUILT_IN.iter().map(|decay| decay.name());
        let standard = installed.standard(LR_DECAY).iter().map(String::as_str);
        let known: Vec<&str> = known.chain(standard).collect();
        let text = no_strategy(installed, LR_DECAY, name, &known);
        self.report([top("lr_schedule").join("decay")], text);
    }
}

/// Returns the message for `name`, which is not one of `known`, the valid strategies of `key`.
fn no_strategy(installed: &StrategyNames, key: &str, name: &String, known: &[&str]) -> String {
    let valid = format!("{} or the path of a component (*.wasm)", known.join(", "));
    let near = known.iter().copied();
    invalid_name(
        installed,
        key,
        name,
        &valid,
        did_you_mean(nearest(name, near)),
    )
}

/// Returns the message for `name`, which is not one of the `valid` values of `key`.
pub(super) fn invalid_name(
    installed: &StrategyNames,
    key: &str,
    name: &String,
    valid: &str,
    advice: String,
) -> String {
    let name_shown = excerpt(name);
    match installed.other_kind(key, name) {
        Some((what, place)) => {
            format!("must be one of {valid}, and {name_shown} is {what}, which `{place}` takes")
        }
        None => format!("must be one of {valid}, is {name_shown}{advice}"),
    }
}
