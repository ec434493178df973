//! Copies of tables that are trained while a commit writes the originals, and the memory that they take.
//!
//! Memory that was touched before takes a copy twice as fast as fresh memory does, so an original that was written
//! is kept for the next copy. Copies that a commit made and originals that are kept take no more than the limit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::layout::{Layout, TableKey};

/// What may be copied. The buffer, which copies, and the storage group, which writes originals, share it.
pub(crate) struct Copies<T> {
    layout: Layout,
    /// Bytes that copies and kept originals take at most.
    most: u64,
    state: Mutex<State<T>>,
}

struct State<T> {
    /// Tables that were copied since the last commit began, but for those whose originals were written.
    copied: Vec<TableKey>,
    /// Originals that were written, to be overwritten by copies, and their bytes.
    kept: Vec<(u64, T)>,
}

impl<T> Copies<T> {
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

    /// The tables of the last commit are written: nothing is copied now.
    pub(crate) fn begin(&self) {
        self.state().copied.clear();
    }

    /// Room for a copy of table `key`, and an original that it may overwrite, of any shape. None if there is no room.
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

    /// Table `key` is written. It is kept if it was copied, since nobody has it any more.
    pub(crate) fn give_back(&self, key: TableKey, table: Arc<T>) {
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::TypeLayout;

    #[test]
    fn an_original_that_was_written_is_overwritten_by_the_next_copy() {
        let layout = Layout {
            types: vec![TypeLayout {
                name: "node".to_owned(),
                dimension: 4,
                storage: Default::default(),
                optimizer: Default::default(),
                rows: vec![10; 2],
                on_lhs: true,
                on_rhs: true,
            }],
            lhs_partitions: 2,
            rhs_partitions: 2,
            shared: true,
        };
        let bytes = layout.types[0].bytes(0);
        let copies = Copies::new(layout, 2 * bytes);
        let table = |name: &str| Arc::new(name.to_owned());
        assert_eq!(copies.claim((0, 0)), Some(None));
        assert_eq!(copies.claim((0, 1)), Some(None));
        assert_eq!(copies.claim((0, 0)), None, "no room for a third one");
        copies.give_back((0, 0), table("first"));
        let trained = table("second");
        copies.give_back((0, 1), Arc::clone(&trained));
        copies.begin();
        assert_eq!(copies.claim((0, 1)), Some(Some("first".to_owned())));
        assert_eq!(copies.claim((0, 0)), Some(None), "the other one is trained");
        copies.begin();
        copies.give_back((0, 0), table("was not copied"));
        assert_eq!(copies.claim((0, 0)), Some(None));
    }
}
