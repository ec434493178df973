//! Warnings about configurations that are valid but seldom intended, and that only the dataset reveals.

use std::collections::BTreeMap;

use pbg_core::model::Operator;

use crate::name_lookup::few;
use crate::resolved::ResolvedConfig;

impl ResolvedConfig {
    /// Returns the warnings to print before training: relations that no operator distinguishes.
    #[must_use]
    pub fn advice(&self) -> Vec<String> {
        let mut alike: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
        for relation in 0..self.dataset().relations().len() as u32 {
            let spec = self.blueprint().spec.relation(relation);
            if spec.operator == Operator::None {
                let name = &self.blueprint().relation_names[relation as usize];
                let names = alike.entry((spec.lhs, spec.rhs)).or_default();
                names.push(name.escape_debug().to_string());
            }
        }
        let several = alike.into_values().filter(|names| names.len() > 1);
        let text = |names: Vec<String>| {
            format!(
                "{} relations between the same entity types have operator = \"none\", so the model cannot distinguish {}: \
                 an edge has the same score in each; give them operators, or import them as one relation",
                names.len(),
                few(names.iter().map(String::as_str))
            )
        };
        several.map(text).collect()
    }
}
