//! What several trainers can do, and had better not.

use crate::resolved::Resolved;

/// Most rows of a table that every trainer has, as PyTorch-BigGraph's documentation advises.
const SMALL: u64 = 1000;

impl Resolved {
    /// What to say before several trainers train: their tables with one partition are exchanged all the time.
    #[must_use]
    pub fn advice_for_several(&self) -> Vec<String> {
        let layout = &self.blueprint().layout;
        let fixed = layout.fixed_tables().map(|(entity, _)| entity);
        let large = fixed.filter(|entity| layout.types[*entity].rows[0] > SMALL);
        large.map(|entity| self.advice_for(entity)).collect()
    }

    fn advice_for(&self, entity: usize) -> String {
        let layout = &self.blueprint().layout.types[entity];
        let (name, rows) = (layout.name.escape_debug(), layout.rows[0]);
        match self.blueprint().spec.entities[entity].featurized {
            true => format!(
                "the {rows} features of the entity type `{name}` are exchanged by all trainers all the time; more than \
                 {SMALL} may slow training down"
            ),
            false => format!(
                "the entity type `{name}` has one partition, whose {rows} rows are exchanged by all trainers all the time; \
                 give types of more than {SMALL} several (`entities.{name}.num_partitions`)"
            ),
        }
    }
}
