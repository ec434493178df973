//! Metadata interface, which every plugin exports.

pub use super::bindings::metadata::exports::pbg::plugin::metadata::{
    ChoiceParameter, Description, Guest, IntegerParameter, NumberParameter, Parameter,
    ParameterKind,
};

/// Implements `metadata.describe`.
pub fn describe(metadata: fn() -> crate::Metadata) -> Description {
    super::report_panics();
    let metadata = metadata();
    let parameters = metadata.parameters.into_iter();
    Description {
        name: metadata.name,
        version: metadata.version,
        summary: metadata.summary,
        parameters: parameters
            .map(|parameter| Parameter {
                name: parameter.name,
                doc: parameter.doc,
                kind: lower(parameter.kind),
            })
            .collect(),
        fallback: metadata.fallback,
    }
}

fn lower(kind: crate::ParameterKind) -> ParameterKind {
    use crate::ParameterKind as Declared;
    match kind {
        Declared::Boolean { default } => ParameterKind::Boolean(default),
        Declared::Integer {
            default,
            minimum,
            maximum,
        } => ParameterKind::Integer(IntegerParameter {
            default,
            minimum,
            maximum,
        }),
        Declared::Number {
            default,
            minimum,
            maximum,
        } => ParameterKind::Number(NumberParameter {
            default,
            minimum,
            maximum,
        }),
        Declared::Text { default } => ParameterKind::Text(default),
        Declared::Choice { options, default } => {
            ParameterKind::Choice(ChoiceParameter { options, default })
        }
    }
}

/// Defines the `Component` of a plugin of any kind: its `INSTANCE` and the metadata interface.
#[doc(hidden)]
#[macro_export]
macro_rules! __component {
    ($plugin:ty, $kind:ident) => {
        ::std::thread_local! {
            static INSTANCE: $crate::glue::Slot<$plugin> = const { ::std::cell::RefCell::new(None) };
        }

        struct Component;

        impl $crate::glue::metadata::Guest for Component {
            fn describe() -> $crate::glue::metadata::Description {
                $crate::glue::metadata::describe(<$plugin as $crate::$kind>::metadata)
            }
        }

        $crate::glue::bindings::metadata::export!(Component with_types_in $crate::glue::bindings::metadata);
    };
}
