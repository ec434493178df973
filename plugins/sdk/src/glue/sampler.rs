//! Component of relation samplers.

use std::cell::RefCell;

use super::{Instance, with};
use crate::{Draws, Result, Sampler, Share};

pub use super::bindings::sampler::exports::pbg::plugin::relation_sampler;

/// Draws of one share, behind a `sampler` handle.
pub struct Walk<D>(RefCell<D>);

configure! { Sampler }

/// Implements `sampler.create`.
pub fn create<S: Sampler>(slot: Instance<S>, share: Share) -> Result<Walk<S::Draws>> {
    with(slot, |sampler| sampler.begin(&share)).map(|draws| Walk(RefCell::new(draws)))
}

impl<D: Draws> Walk<D> {
    /// Implements `sampler.next`.
    pub fn next(&self) -> Result<Option<relation_sampler::Draw>> {
        let draw = self.0.borrow_mut().next()?;
        Ok(draw.map(|draw| relation_sampler::Draw {
            relation: draw.relation,
            edges: draw.edges,
        }))
    }

    /// Implements `sampler.observe`.
    pub fn observe(&self, relation: u32, mean_loss: f32) {
        self.0.borrow_mut().observe(relation, mean_loss);
    }
}

/// Defines the component of a relation sampler; `export_sampler!` expands to it in the wasm build.
#[doc(hidden)]
#[macro_export]
macro_rules! __sampler_component {
    ($sampler:ty) => {
        $crate::__component!($sampler, Sampler);

        struct Handle($crate::glue::sampler::Walk<<$sampler as $crate::Sampler>::Draws>);

        impl $crate::glue::sampler::relation_sampler::Guest for Component {
            type Sampler = Handle;

            fn configure(
                parameters: ::std::vec::Vec<$crate::glue::types::ParameterValue>,
            ) -> $crate::Result<()> {
                $crate::glue::sampler::configure(&INSTANCE, parameters)
            }
        }

        impl $crate::glue::sampler::relation_sampler::GuestSampler for Handle {
            fn create(
                counts: ::std::vec::Vec<u64>,
                batch_size: u32,
                seed: u64,
            ) -> $crate::Result<$crate::glue::sampler::relation_sampler::Sampler> {
                let share = $crate::Share { counts, batch_size, seed };
                $crate::glue::sampler::create(&INSTANCE, share)
                    .map(|walk| $crate::glue::sampler::relation_sampler::Sampler::new(Handle(walk)))
            }

            fn next(
                &self,
            ) -> $crate::Result<::std::option::Option<$crate::glue::sampler::relation_sampler::Draw>>
            {
                self.0.next()
            }

            fn observe(&self, relation: u32, mean_loss: f32) {
                self.0.observe(relation, mean_loss);
            }
        }

        $crate::glue::bindings::sampler::export!(Component with_types_in $crate::glue::bindings::sampler);
    };
}
