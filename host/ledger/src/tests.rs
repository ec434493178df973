//! Tests of the ledger: the invariants of a run, in every state that small models can reach, and in random walks
//! through larger ones.
//!
//! A model's state is a [`world::World`]: the register, the files, the manifests, and the trainers that work on them
//! step by step. [`steps`] defines the possible steps, [`requests`] the effects of a transaction and its reply,
//! [`faults`] the faults, [`rankings`] the steps between epochs, [`invariants`] the invariants, and [`canonical`] which
//! worlds are equivalent.
//!
//! A trainer decides by the record that it has read. Its transaction follows at once, or after any number of others if
//! the trainer pauses in between ([`steps::Step::Decide`]).

mod asked;
mod broken;
mod canonical;
mod checked;
mod course;
mod exhaustive;
mod faults;
mod invariants;
mod largest;
mod policy;
mod random;
mod ranking;
mod ranking_text;
mod rankings;
mod record;
mod refusals;
mod requests;
mod servers;
mod steps;
mod symmetry;
mod turns;
mod walks;
mod world;
