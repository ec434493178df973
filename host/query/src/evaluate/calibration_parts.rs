//! Parts of ranking that calibration and served models use as well.

pub(crate) use super::block::{BlockEmbeddings, from_tables};
pub(crate) use super::edges::RankedEdgeReader;
pub(crate) use super::known_answers::{EntityKey, Filter, entity};
pub(crate) use super::memory_needs::{needs_beside_tables, reading_needs, widest};
pub(crate) use super::predict::{ScoredCandidate, TopK};
pub(crate) use super::view::CommittedTables;
