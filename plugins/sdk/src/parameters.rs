//! The parameters of a configuration, as a plugin receives them.

pub(crate) mod json;

use serde::de::DeserializeOwned;

use crate::Result;

/// The JSON object of a plugin's parameters: every one that its metadata declares, with the
/// configuration's value or the default.
///
/// ```
/// #[derive(serde::Deserialize)]
/// struct Mine { overlap: u32 }
/// let parameters = pbg_plugin_sdk::Parameters::from_json(r#"{"overlap": 3}"#);
/// assert_eq!(parameters.parse::<Mine>().unwrap().overlap, 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters(String);

impl Parameters {
    /// Parameters from the text of a JSON object.
    ///
    /// ```
    /// assert_eq!(pbg_plugin_sdk::Parameters::from_json("{}").as_json(), "{}");
    /// ```
    #[must_use]
    pub fn from_json(json: impl Into<String>) -> Self {
        Self(json.into())
    }

    /// The text of the JSON object.
    ///
    /// ```
    /// let text = r#"{"a": 1}"#;
    /// assert_eq!(pbg_plugin_sdk::Parameters::from_json(text).as_json(), text);
    /// ```
    #[must_use]
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// Reads them into a type of the author's.
    ///
    /// # Errors
    /// Where the type does not fit what the metadata declares.
    ///
    /// ```
    /// let parameters = pbg_plugin_sdk::Parameters::from_json("{}");
    /// assert!(parameters.parse::<Vec<u8>>().is_err());
    /// ```
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        json::read(&self.0)
            .map_err(|error| format!("the parameters do not fit the plugin's own type: {error}"))
    }
}
