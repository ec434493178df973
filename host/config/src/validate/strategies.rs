//! Names of strategies: what is installed, or the file of a component.

use pbg_core::model::Operator;
use pbg_core::nearest::nearest;

use super::{Rules, of_relation, top};
use crate::Installed;
use crate::node::excerpt;

impl Rules<'_> {
    pub(super) fn strategies(&mut self, installed: &Installed) {
        let config = self.config;
        for (key, name) in [
            ("bucket_order", &config.bucket_order),
            ("loss_fn", &config.loss_fn),
            ("relation_sampler", &config.relation_sampler),
        ] {
            if !installed.has(key, name) && !is_plugin_path(name) {
                let known = installed.standard(key).iter().map(String::as_str);
                let or = " or the path of a component (*.wasm)";
                self.blame(
                    [top(key)],
                    unknown_name(name, &known.collect::<Vec<_>>(), or),
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
                let or = " or the path of a component (*.wasm)";
                self.blame([of_relation(i, "operator")], unknown_name(name, &known, or));
            }
        }
    }
}

/// Whether a strategy is named by the file of its component.
pub(crate) fn is_plugin_path(name: &str) -> bool {
    name.contains(['/', std::path::MAIN_SEPARATOR]) || name.ends_with(".wasm")
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
