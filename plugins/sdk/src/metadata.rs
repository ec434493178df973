//! Name, version and parameters of a plugin.

use std::ops::{Bound, RangeBounds};

/// Name, version, summary and parameters of a plugin.
///
/// ```
/// use pbg_plugin_sdk::{Metadata, Parameter};
/// let metadata = Metadata::new("spiral", env!("CARGO_PKG_VERSION"), "From the corner inwards.")
///     .parameter(Parameter::integer("turns", 3, 1..=99, "Turns of the spiral."));
/// assert_eq!(metadata.parameters[0].name, "turns");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    /// Short name, as used in a configuration: `inside_out`.
    pub name: String,
    /// Version of the plugin.
    pub version: String,
    /// One sentence that describes the plugin.
    pub summary: String,
    /// Parameters that a configuration may set.
    pub parameters: Vec<Parameter>,
    /// Name of the plugin that replaces this one if it fails.
    pub fallback: Option<String>,
}

impl Metadata {
    /// Creates metadata without parameters.
    ///
    /// ```
    /// assert!(pbg_plugin_sdk::Metadata::new("a", "1.0.0", "An order.").parameters.is_empty());
    /// ```
    #[must_use]
    pub fn new(name: &str, version: &str, summary: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            summary: summary.to_owned(),
            parameters: Vec::new(),
            fallback: None,
        }
    }

    /// Names the plugin that replaces this one if it fails. It should compute the same, such as the
    /// traced form of a computed loss. It gets its own parameters.
    ///
    /// ```
    /// use pbg_plugin_sdk::Metadata;
    /// let metadata = Metadata::new("quick", "1.0.0", "A loss.").fallback("slow");
    /// assert_eq!(metadata.fallback.as_deref(), Some("slow"));
    /// ```
    #[must_use]
    pub fn fallback(mut self, name: &str) -> Self {
        self.fallback = Some(name.to_owned());
        self
    }

    /// Adds a parameter.
    ///
    /// ```
    /// use pbg_plugin_sdk::{Metadata, Parameter};
    /// let metadata = Metadata::new("a", "1.0.0", "An order.")
    ///     .parameter(Parameter::boolean("mirror", true, "Whether to mirror."));
    /// assert_eq!(metadata.parameters.len(), 1);
    /// ```
    #[must_use]
    pub fn parameter(mut self, parameter: Parameter) -> Self {
        self.parameters.push(parameter);
        self
    }
}

/// Declaration of a parameter: name, type, default, range and documentation. The host checks the
/// values of a configuration against it before the plugin sees them.
///
/// ```
/// use pbg_plugin_sdk::{Parameter, ParameterKind};
/// let margin = Parameter::number("margin", 0.1, 0.0.., "Margin of the loss.");
/// assert!(matches!(margin.kind, ParameterKind::Number { default: 0.1, .. }));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Key in the configuration: lower-case letters, digits and underscores.
    pub name: String,
    /// Description of the effect and the unit.
    pub doc: String,
    /// Type, default and range.
    pub kind: ParameterKind,
}

/// Type, default and range of a [`Parameter`].
///
/// ```
/// use pbg_plugin_sdk::ParameterKind;
/// assert_eq!(ParameterKind::Boolean { default: true }, ParameterKind::Boolean { default: true });
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum ParameterKind {
    /// True or false.
    Boolean {
        /// Value if the configuration sets none.
        default: bool,
    },
    /// A whole number.
    Integer {
        /// Value if the configuration sets none.
        default: i64,
        /// Least allowed value.
        minimum: Option<i64>,
        /// Greatest allowed value.
        maximum: Option<i64>,
    },
    /// A finite number.
    Number {
        /// Value if the configuration sets none.
        default: f64,
        /// Least allowed value.
        minimum: Option<f64>,
        /// Greatest allowed value.
        maximum: Option<f64>,
    },
    /// Any text.
    Text {
        /// Value if the configuration sets none.
        default: String,
    },
    /// One of several options.
    Choice {
        /// The options.
        options: Vec<String>,
        /// Index of the default option.
        default: u32,
    },
}

impl Parameter {
    fn new(name: &str, doc: &str, kind: ParameterKind) -> Self {
        Self {
            name: name.to_owned(),
            doc: doc.to_owned(),
            kind,
        }
    }

    /// Declares a boolean.
    ///
    /// ```
    /// assert_eq!(pbg_plugin_sdk::Parameter::boolean("mirror", true, "").name, "mirror");
    /// ```
    #[must_use]
    pub fn boolean(name: &str, default: bool, doc: &str) -> Self {
        Self::new(name, doc, ParameterKind::Boolean { default })
    }

    /// Declares a whole number within `range` (`..` for any).
    ///
    /// ```
    /// use pbg_plugin_sdk::{Parameter, ParameterKind};
    /// let turns = Parameter::integer("turns", 3, 1..100, "Turns of the spiral.");
    /// let (minimum, maximum) = (Some(1), Some(99));
    /// assert_eq!(turns.kind, ParameterKind::Integer { default: 3, minimum, maximum });
    /// ```
    #[must_use]
    pub fn integer(name: &str, default: i64, range: impl RangeBounds<i64>, doc: &str) -> Self {
        let minimum = match range.start_bound() {
            Bound::Included(&least) => Some(least),
            Bound::Excluded(&below) => Some(below.saturating_add(1)),
            Bound::Unbounded => None,
        };
        let maximum = match range.end_bound() {
            Bound::Included(&greatest) => Some(greatest),
            Bound::Excluded(&above) => Some(above.saturating_sub(1)),
            Bound::Unbounded => None,
        };
        let kind = ParameterKind::Integer {
            default,
            minimum,
            maximum,
        };
        Self::new(name, doc, kind)
    }

    /// Declares a finite number within `range` (`..` for any).
    ///
    /// ```
    /// use pbg_plugin_sdk::{Parameter, ParameterKind};
    /// let margin = Parameter::number("margin", 0.1, 0.0.., "Margin of the loss.");
    /// let (minimum, maximum) = (Some(0.0), None);
    /// assert_eq!(margin.kind, ParameterKind::Number { default: 0.1, minimum, maximum });
    /// ```
    #[must_use]
    pub fn number(name: &str, default: f64, range: impl RangeBounds<f64>, doc: &str) -> Self {
        let minimum = match range.start_bound() {
            Bound::Included(&least) => Some(least),
            Bound::Excluded(&below) => Some(below.next_up()),
            Bound::Unbounded => None,
        };
        let maximum = match range.end_bound() {
            Bound::Included(&greatest) => Some(greatest),
            Bound::Excluded(&above) => Some(above.next_down()),
            Bound::Unbounded => None,
        };
        let kind = ParameterKind::Number {
            default,
            minimum,
            maximum,
        };
        Self::new(name, doc, kind)
    }

    /// Declares a text.
    ///
    /// ```
    /// assert_eq!(pbg_plugin_sdk::Parameter::text("label", "", "").name, "label");
    /// ```
    #[must_use]
    pub fn text(name: &str, default: &str, doc: &str) -> Self {
        let default = default.to_owned();
        Self::new(name, doc, ParameterKind::Text { default })
    }

    /// Declares a choice of `options`; the first is the default.
    ///
    /// ```
    /// let p = pbg_plugin_sdk::Parameter::choice("by", &["edges", "bytes"], "What counts.");
    /// assert_eq!(p.doc, "What counts.");
    /// ```
    #[must_use]
    pub fn choice(name: &str, options: &[&str], doc: &str) -> Self {
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let default = 0;
        Self::new(name, doc, ParameterKind::Choice { options, default })
    }
}
