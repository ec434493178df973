//! Component of computed losses.

use super::{Instance, with};
use crate::loss::evaluate as evaluate_rows;
use crate::{ComputedLoss, Result};

pub use super::bindings::computed::exports::pbg::plugin::loss_computed;

configure! { ComputedLoss }

/// Implements `loss-computed.evaluate`.
pub fn evaluate<L: ComputedLoss>(
    slot: Instance<L>,
    positive: Vec<f32>,
    negative: Vec<f32>,
    columns: u32,
) -> Result<loss_computed::Evaluation> {
    let found = with(slot, |loss| {
        evaluate_rows(loss, &positive, negative, columns as usize)
    })?;
    Ok(loss_computed::Evaluation {
        loss: found.loss,
        positive_gradient: found.positive_gradient,
        negative_gradient: found.negative_gradient,
    })
}

/// Defines the component of a computed loss; `export_computed_loss!` expands to it in the wasm build.
#[doc(hidden)]
#[macro_export]
macro_rules! __computed_loss_component {
    ($loss:ty) => {
        $crate::__component!($loss, ComputedLoss);

        impl $crate::glue::computed::loss_computed::Guest for Component {
            fn configure(
                parameters: ::std::vec::Vec<$crate::glue::types::ParameterValue>,
            ) -> $crate::Result<()> {
                $crate::glue::computed::configure(&INSTANCE, parameters)
            }

            fn evaluate(
                positive: ::std::vec::Vec<f32>,
                negative: ::std::vec::Vec<f32>,
                columns: u32,
            ) -> $crate::Result<$crate::glue::computed::loss_computed::Evaluation> {
                $crate::glue::computed::evaluate(&INSTANCE, positive, negative, columns)
            }
        }

        $crate::glue::bindings::computed::export!(Component with_types_in $crate::glue::bindings::computed);
    };
}
