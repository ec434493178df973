//! A model as it is configured and as it is committed. A configuration is resolved against its dataset, which gives
//! the model, the layout of its tables and the settings of the machine; a checkpoint of it is compared with both and
//! opened for reading. Training, queries and runs of several trainers start from here and share one error type.
//!
//! In reading order: [`ResolvedConfig`] (configuration, dataset and settings), [`Blueprint`] and
//! [`Layout`](layout::Layout) (the model and its tables), [`TrainedModel`] (a committed version, open for reading),
//! [`compatibility`] (whether a checkpoint fits), [`RunState`](state::RunState) and [`commit`] (what a commit holds
//! besides tables), [`tables`] and [`rounding`], [`memory`] and [`model_bytes`] (what is available and what is needed),
//! and [`RunError`] with its [`ErrorKind`]s.
//!
//! Invariants:
//!
//! * A checkpoint is read only after [`compatibility::check_compatibility`] has accepted it.
//! * Nothing large is read before [`memory::require`] or [`memory::require_more`] has compared its bound with the
//!   memory that is available.
//! * A table has exactly the rows and the dimension of its layout ([`tables::check_shape`]).
//! * Roundings and initial values depend on the seed and their purpose, never on threads or on earlier draws.
//!
//! It must not know the training loop, rankings and queries, the other trainers of a run (only the errors by which they
//! refuse one), libtorch, or the terminal.

pub mod blueprint;
mod checkpoint_path;
pub mod commit;
pub mod compatibility;
pub mod crew;
pub mod error;
pub mod layout;
pub mod memory;
pub mod model_bytes;
pub mod name_lookup;
pub mod process_io;
pub mod resolved;
pub mod resume_point;
pub mod rounding;
pub mod settings;
pub mod state;
pub mod stored;
pub mod tables;
pub mod trained;
mod warnings;

pub use blueprint::Blueprint;
pub use compatibility::AllowedChanges;
pub use error::{ErrorKind, RunError};
pub use resolved::ResolvedConfig;
pub use stored::StoredModel;
pub use trained::TrainedModel;
