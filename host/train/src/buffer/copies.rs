//! Copies of tables, which are trained while a commit writes the originals, and their memory.
//!
//! Copying into memory that was touched before is twice as fast as into fresh memory, so an original is kept after it
//! was written, for the next copy. Copies made for a commit and kept originals never exceed the limit together.

use std::sync::{Arc, Mutex, MutexGuard};

use pbg_core::lock::lock;
use pbg_model::layout::{Layout, TableKey};

/// Accounts for copies of tables. Shared by the buffer, which copies, and the storage thread, which writes the
/// originals.
pub(crate) struct CommitCopies<T> {
    layout: Layout,
    /// Limit of copies and kept originals, in bytes.
    most: u64,
    state: Mutex<State<T>>,
}

struct State<T> {
    /// Tables that were copied since the last commit began and whose originals are not yet written.
    copied: Vec<TableKey>,
    /// Originals that are written and may be overwritten by copies, with their sizes in bytes.
    kept: Vec<(u64, T)>,
}

impl<T> CommitCopies<T> {
    pub(crate) fn new(layout: Layout, most: u64) -> Self {
        let state = State {
            copied: Vec::new(),
            kept: Vec::new(),
        };
        Self {
            layout,
            most,
            state: Mutex::new(state),
        }
    }

    /// Forgets all copies. Called once the tables of the last commit are written.
    pub(crate) fn begin(&self) {
        self.state().copied.clear();
    }

    /// Reserves room for a copy of table `key`. Returns a kept original, of any shape, whose memory the copy may reuse,
    /// if there is one; `None` if there is no room for a copy.
    pub(crate) fn claim(&self, key: TableKey) -> Option<Option<T>> {
        let mut state = self.state();
        let wanted = self.bytes(key);
        let copied: u64 = state.copied.iter().map(|&key| self.bytes(key)).sum();
        let room = self.most.checked_sub(copied)?.checked_sub(wanted)?;
        state.copied.push(key);
        let nearest = (0..state.kept.len()).min_by_key(|&i| state.kept[i].0.abs_diff(wanted));
        let memory = nearest.map(|i| state.kept.swap_remove(i).1);
        while state.kept.iter().map(|(bytes, _)| bytes).sum::<u64>() > room {
            state.kept.pop();
        }
        Some(memory)
    }

    /// Takes back table `key` after it was written. Keeps it for reuse if a copy has replaced it, since it has no other
    /// owner then.
    pub(crate) fn return_original(&self, key: TableKey, table: Arc<T>) {
        let Some(table) = Arc::into_inner(table) else {
            return;
        };
        let mut state = self.state();
        if let Some(found) = state.copied.iter().position(|&copied| copied == key) {
            state.copied.swap_remove(found);
            state.kept.push((self.bytes(key), table));
        }
    }

    fn bytes(&self, (entity_type, partition): TableKey) -> u64 {
        self.layout.types[entity_type].bytes(partition)
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_model::layout::TypeLayout;

    #[test]
    fn an_original_that_was_written_is_overwritten_by_the_next_copy() {
        let layout = Layout {
            types: vec![TypeLayout {
                name: "node".to_owned(),
                dimension: 4,
                storage: Default::default(),
                optimizer: Default::default(),
                frozen: false,
                rows: vec![10; 2],
                on_lhs: true,
                on_rhs: true,
            }],
            lhs_partitions: 2,
            rhs_partitions: 2,
            shared: true,
        };
        let bytes = layout.types[0].bytes(0);
        let copies = CommitCopies::new(layout, 2 * bytes);
        let table = |name: &str| Arc::new(name.to_owned());
        assert_eq!(copies.claim((0, 0)), Some(None));
        assert_eq!(copies.claim((0, 1)), Some(None));
        assert_eq!(copies.claim((0, 0)), None, "no room for a third one");
        copies.return_original((0, 0), table("first"));
        let trained = table("second");
        copies.return_original((0, 1), Arc::clone(&trained));
        copies.begin();
        assert_eq!(copies.claim((0, 1)), Some(Some("first".to_owned())));
        assert_eq!(copies.claim((0, 0)), Some(None), "the other one is trained");
        copies.begin();
        copies.return_original((0, 0), table("was not copied"));
        assert_eq!(copies.claim((0, 0)), Some(None));
    }
}
