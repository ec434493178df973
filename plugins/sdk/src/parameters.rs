//! Parameters of a configuration, as a plugin receives them.

mod read;

use serde::de::DeserializeOwned;

use crate::Result;

/// Value of a parameter.
///
/// ```
/// use pbg_plugin_sdk::{Parameters, Value};
/// let parameters = Parameters::new([("overlap", Value::Integer(3))]);
/// assert_eq!(parameters.get("overlap"), Some(&Value::Integer(3)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A finite number.
    Number(f64),
    /// A text, or the chosen option of a choice.
    Text(String),
}

/// Parameters of a plugin: all that its metadata declares, with the value of the configuration or the
/// default.
///
/// ```
/// use pbg_plugin_sdk::{Parameters, Value};
/// #[derive(serde::Deserialize)]
/// struct Mine { overlap: u32 }
/// let parameters = Parameters::new([("overlap", Value::Integer(3))]);
/// assert_eq!(parameters.parse::<Mine>().unwrap().overlap, 3);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(Vec<(String, Value)>);

impl Parameters {
    /// Creates parameters from names and values.
    ///
    /// ```
    /// use pbg_plugin_sdk::{Parameters, Value};
    /// let parameters = Parameters::new([("mirror", Value::Boolean(true))]);
    /// assert_eq!(parameters.get("other"), None);
    /// ```
    #[must_use]
    pub fn new<N: Into<String>>(values: impl IntoIterator<Item = (N, Value)>) -> Self {
        let values = values.into_iter();
        Self(values.map(|(name, value)| (name.into(), value)).collect())
    }

    /// Returns the value of the parameter `name`.
    ///
    /// ```
    /// use pbg_plugin_sdk::{Parameters, Value};
    /// let parameters = Parameters::new([("margin", Value::Number(0.5))]);
    /// assert_eq!(parameters.get("margin"), Some(&Value::Number(0.5)));
    /// ```
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        let mut values = self.0.iter();
        values
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    }

    /// Deserializes the parameters into a type of the plugin.
    ///
    /// # Errors
    /// If the type does not match the declarations of the metadata.
    ///
    /// ```
    /// let parameters = pbg_plugin_sdk::Parameters::default();
    /// assert!(parameters.parse::<Vec<u8>>().is_err());
    /// ```
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        read::read(&self.0)
            .map_err(|error| format!("the parameters do not fit the plugin's own type: {error}"))
    }
}
