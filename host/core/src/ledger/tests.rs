//! Tests of the ledger: the invariants of a run, in every state that small models can reach, and at random in larger
//! ones.
//!
//! A model is a [`world::World`]: the register, the files, the manifests, and trainers that work on them step by step.
//! [`steps`] says what can happen next, [`requests`] what a transaction and its answer do, [`faults`] what goes
//! wrong, [`rankings`] what happens between epochs, [`invariants`] what must hold, [`canonical`] which worlds are the
//! same.
//!
//! A trainer decides by the record that it has read. Its transaction may follow at once, or after any number of others:
//! then it has stood still in between ([`steps::Step::Decide`]).

mod asked;
mod broken;
mod canonical;
mod checked;
mod course;
mod exhaustive;
mod faults;
mod invariants;
mod random;
mod ranking;
mod ranking_text;
mod rankings;
mod record;
mod refusals;
mod requests;
mod steps;
mod symmetry;
mod turns;
mod walks;
mod world;
