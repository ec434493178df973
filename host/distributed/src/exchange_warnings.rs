//! Warnings about configurations that work with several trainers but are slow.

use pbg_model::resolved::ResolvedConfig;

/// Number of rows up to which a table may be replicated on every trainer without a warning. PyTorch-BigGraph's
/// documentation advises the same limit.
const SMALL: u64 = 1000;

/// Returns warnings to show before a distributed run: tables of types with one partition are exchanged
/// continuously.
#[must_use]
pub fn distributed_warnings(resolved: &ResolvedConfig) -> Vec<String> {
    let layout = &resolved.blueprint().layout;
    let fixed = layout.fixed_tables().map(|(entity, _)| entity);
    let large = fixed.filter(|entity| layout.types[*entity].rows[0] > SMALL);
    large.map(|entity| advice_for(resolved, entity)).collect()
}

fn advice_for(resolved: &ResolvedConfig, entity: usize) -> String {
    let layout = &resolved.blueprint().layout.types[entity];
    let (name, rows) = (layout.name.escape_debug(), layout.rows[0]);
    match resolved.blueprint().spec.entities[entity].featurized {
        true => format!(
            "all trainers continuously exchange the {rows} features of the entity type `{name}`; more than \
             {SMALL} may slow training down"
        ),
        false => format!(
            "the entity type `{name}` has one partition, whose {rows} rows all trainers exchange continuously; \
             give types of more than {SMALL} rows several partitions (`entities.{name}.num_partitions`)"
        ),
    }
}
