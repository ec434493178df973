//! Names of strategies: what is installed, or the path of a component.

use pbg_core::model::Operator;
use pbg_core::nearest::nearest;

use super::super::node::excerpt;
use super::super::{DEFAULT_SAMPLER, Installed};
use super::{Rules, of_relation, top};

impl Rules<'_> {
    /// Every strategy is there and of the kind of its key, and is asked.
    pub(super) fn strategies(&mut self, installed: &Installed) {
        let config = self.config;
        for (key, name) in [
            ("bucket_order", &config.bucket_order),
            ("loss_fn", &config.loss_fn),
            ("relation_sampler", &config.relation_sampler),
        ] {
            if !installed.has(key, name) && !is_plugin_path(name) {
                let known = installed.standard(key).iter().map(String::as_str);
                let known = known.collect::<Vec<_>>();
                self.blame([top(key)], no_strategy(installed, key, name, &known));
            }
        }
        // Written configurations have all keys, so the default is no wish.
        if config.dynamic_relations && config.relation_sampler != DEFAULT_SAMPLER {
            self.blame(
                [top("relation_sampler"), top("dynamic_relations")],
                "is for static relations: with `dynamic_relations` batches mix relations, and no sampler is asked; remove \
                 it, or set `dynamic_relations = false`",
            );
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
                self.blame([path], no_strategy(installed, "operator", name, &known));
            }
        }
    }
}

/// Whether a strategy is named by the file of its component.
pub(crate) fn is_plugin_path(name: &str) -> bool {
    name.contains(['/', std::path::MAIN_SEPARATOR]) || name.ends_with(".wasm")
}

/// What keeps `name` from being a strategy of `key`, at which there may be any of `known`.
fn no_strategy(installed: &Installed, key: &str, name: &String, known: &[&str]) -> String {
    if let Some((what, place)) = installed.elsewhere(key, name) {
        return format!(
            "must be one of {} or the path of a component (*.wasm), and {} is {what}, which `{place}` takes",
            known.join(", "),
            excerpt(name)
        );
    }
    unknown_name(name, known, " or the path of a component (*.wasm)")
}

fn unknown_name(name: &str, known: &[&str], or: &str) -> String {
    let advice = match nearest(name, known.iter().copied()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    };
    format!(
        "must be one of {}{or}, is {}{advice}",
        known.join(", "),
        excerpt(name)
    )
}
