//! Native half of the Python package `pbg_host`: the functions of the host that it calls.
//!
//! This crate contains no logic. Values that are not arrays, names or paths are passed as JSON, and the package next to
//! this crate (`package/pbg_host`) gives them types and documentation. The interpreter is released while a function
//! works, and failures become exceptions ([`errors`]).

mod calibration;
mod combine;
mod config;
mod describe;
mod edges;
mod errors;
mod events;
mod front;
mod function;
mod index;
mod libtorch;
mod listed;
mod map;
mod missing;
mod model;
mod numbers;
mod orders;
mod question;
mod ranking;
mod stored_run;
mod training;
mod version;

use pyo3::prelude::*;

/// The extension module `pbg_host._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // The package says nothing while it copies; its functions return when they are done.
    pbg_session::object_stores::register(Box::new(|_| ()));
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<config::Config>()?;
    module.add_class::<edges::Spool>()?;
    module.add_class::<training::Training>()?;
    module.add_class::<model::Model>()?;
    module.add_class::<version::Version>()?;
    module.add_class::<numbers::Numbers>()?;
    module.add_function(wrap_pyfunction!(front::start, module)?)?;
    module.add_function(wrap_pyfunction!(front::compile_for_parent, module)?)?;
    module.add_function(wrap_pyfunction!(edges::import_edges, module)?)?;
    module.add_function(wrap_pyfunction!(edges::column_roles, module)?)?;
    module.add_function(wrap_pyfunction!(describe::describe, module)?)?;
    module.add_function(wrap_pyfunction!(combine::combine, module)?)?;
    module.add_function(wrap_pyfunction!(orders::compare_orders, module)?)?;
    module.add_function(wrap_pyfunction!(orders::plan_order, module)?)?;
    module.add_class::<function::FunctionOrder>()?;
    module.add_class::<function::FunctionLoss>()?;
    module.add_class::<function::FunctionOperator>()?;
    module.add_class::<function::FunctionComparator>()?;
    module.add_function(wrap_pyfunction!(function::order::check_order, module)?)?;
    module.add_function(wrap_pyfunction!(function::loss::check_loss, module)?)?;
    module.add_function(wrap_pyfunction!(
        function::operator::check_operator,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(
        function::comparator::check_comparator,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(function::parameters, module)?)?;
    module.add_function(wrap_pyfunction!(function::create_project, module)?)?;
    module.add_function(wrap_pyfunction!(function::build_project, module)?)?;
    module.add_function(wrap_pyfunction!(events::known_event, module)?)?;
    module.add_function(wrap_pyfunction!(events::metrics, module)?)?;
    module.add_function(wrap_pyfunction!(libtorch::load_libtorch, module)?)?;
    module.add_function(wrap_pyfunction!(stored_run::report, module)?)?;
    module.add_function(wrap_pyfunction!(training::check, module)?)?;
    Ok(())
}
