//! Component of bucket orders.

use super::{Instance, types, with};
use crate::{Bucket, Order, Pass, Result, Side};

pub use super::bindings::order::exports::pbg::plugin::bucket_order;

configure! { Order }

/// Implements `bucket-order.plan`.
pub fn plan<O: Order>(slot: Instance<O>, pass: bucket_order::Pass) -> Result<Vec<types::Bucket>> {
    let plan = with(slot, |order| order.plan(&lift_pass(pass)))?.into_iter();
    let lower = |Bucket { lhs, rhs }| types::Bucket { lhs, rhs };
    Ok(plan.map(lower).collect())
}

/// Implements `bucket-order.pick`.
pub fn pick<O: Order>(
    slot: Instance<O>,
    pass: bucket_order::Pass,
    held: Vec<types::Bucket>,
    free: Vec<types::Bucket>,
) -> Result<u32> {
    let picked = with(slot, |order| {
        order.pick(&lift_pass(pass), &lift(held), &lift(free))
    })?;
    u32::try_from(picked).map_err(|_| format!("picked {picked}, beyond any list"))
}

fn lift(buckets: Vec<types::Bucket>) -> Vec<Bucket> {
    let buckets = buckets.into_iter();
    buckets.map(|b| Bucket::new(b.lhs, b.rhs)).collect()
}

fn lift_pass(pass: bucket_order::Pass) -> Pass {
    let lhs = pass.resident_lhs.into_iter().map(|p| (Side::Lhs, p));
    let rhs = pass.resident_rhs.into_iter().map(|p| (Side::Rhs, p));
    Pass {
        lhs_partitions: pass.lhs_partitions,
        rhs_partitions: pass.rhs_partitions,
        shared: pass.shared,
        edges: pass.edges,
        lhs_bytes: pass.lhs_bytes,
        rhs_bytes: pass.rhs_bytes,
        buffer_partitions: pass.buffer_partitions,
        resident: lhs.chain(rhs).collect(),
        epoch: pass.position.epoch,
        edge_set: pass.position.edge_set,
        edge_chunk: pass.position.edge_chunk,
        seed: pass.seed,
    }
}

/// Defines the component of a bucket order; `export_order!` expands to it in the wasm build.
#[doc(hidden)]
#[macro_export]
macro_rules! __order_component {
    ($order:ty) => {
        $crate::__component!($order, Order);

        impl $crate::glue::order::bucket_order::Guest for Component {
            fn configure(
                parameters: ::std::vec::Vec<$crate::glue::types::ParameterValue>,
            ) -> $crate::Result<()> {
                $crate::glue::order::configure(&INSTANCE, parameters)
            }

            fn plan(
                pass: $crate::glue::order::bucket_order::Pass,
            ) -> $crate::Result<::std::vec::Vec<$crate::glue::types::Bucket>> {
                $crate::glue::order::plan(&INSTANCE, pass)
            }

            fn pick(
                pass: $crate::glue::order::bucket_order::Pass,
                held: ::std::vec::Vec<$crate::glue::types::Bucket>,
                free: ::std::vec::Vec<$crate::glue::types::Bucket>,
            ) -> $crate::Result<u32> {
                $crate::glue::order::pick(&INSTANCE, pass, held, free)
            }
        }

        $crate::glue::bindings::order::export!(Component with_types_in $crate::glue::bindings::order);
    };
}
