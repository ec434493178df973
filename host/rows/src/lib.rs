//! The numbers of a model that training changes, and how gradients change them.
//!
//! Tables of embeddings and shared parameters are matrices of floats that Hogwild workers read and update without
//! locks. The crate holds those matrices, sums gradients of their rows and applies the sums with an optimizer; what the
//! gradients are, `pbg-kernels` and the executors of devices compute.
//!
//! In reading order: the specification of a model ([`spec`]); rows that threads share ([`shared_rows`]); the embeddings
//! of a partition ([`table`]) and the parameters of relations ([`params`]), both made of such rows; sums of gradients
//! ([`gradient_rows`]), the penalty on rows ([`regularizer`]) and the optimizers ([`optimizer`]); and the loops over
//! floats that they share with the kernels ([`vector`]).
//!
//! # Invariants
//!
//! * Every access to a float of shared rows is a relaxed atomic one; only floats are read that way.
//! * A gradient that is not finite is never applied.
//! * Initial parameters depend on the seed and their position alone.
//!
//! The crate must not know batches, losses, files, configurations or libtorch.
//!
//! # Example
//!
//! ```
//! use pbg_rows::gradient_rows::GradientRows;
//! use pbg_rows::optimizer;
//! use pbg_rows::table::Table;
//!
//! let table = Table::new(vec![1.0; 6], 2);
//! let mut gradients = GradientRows::default();
//! gradients.reset(3, 2, 1);
//! gradients.add(1, &[0.5, 0.5]);
//! assert!(optimizer::apply_rows(&mut gradients, &table, 0.1, &mut Vec::new()));
//! assert!(table.embeddings.into_vec()[2] < 1.0);
//! ```

pub mod gradient_rows;
pub mod optimizer;
pub mod params;
pub mod regularizer;
pub mod shared_rows;
pub mod spec;
pub mod table;
pub mod vector;
