//! Deserialization of parameters into the plugin's own type, with serde.

use std::fmt::Display;

use serde::de::value::StringDeserializer;
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::Value;

/// Mismatch between the parameters and the plugin's type.
#[derive(Debug)]
pub(super) struct Error(String);

/// Deserializes named values into the plugin's type.
pub(super) fn read<'de, T: Deserialize<'de>>(values: &[(String, Value)]) -> Result<T, Error> {
    T::deserialize(Fields {
        rest: values.iter().cloned(),
        current: None,
    })
}

impl Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }

    // The default messages contain the value. Formatting floats would add more code to a plugin than deserialization
    // does.
    fn invalid_type(found: Unexpected, expected: &dyn de::Expected) -> Self {
        let found = match found {
            Unexpected::Bool(_) => "a boolean",
            Unexpected::Unsigned(_) | Unexpected::Signed(_) => "an integer",
            Unexpected::Float(_) => "a number",
            Unexpected::Char(_) | Unexpected::Str(_) => "a text",
            _ => "the parameters",
        };
        Self(format!("{found} where {expected} is expected"))
    }

    fn invalid_value(found: Unexpected, expected: &dyn de::Expected) -> Self {
        Self(match found {
            Unexpected::Unsigned(value) => format!("{value}, expected {expected}"),
            Unexpected::Signed(value) => format!("{value}, expected {expected}"),
            _ => format!("a value that is not {expected}"),
        })
    }
}

/// Deserializer of all parameters, as the fields of the plugin's type.
struct Fields<I> {
    rest: I,
    /// Parameter whose name has been read and whose value has not.
    current: Option<(String, Value)>,
}

impl<'de, I: Iterator<Item = (String, Value)>> Deserializer<'de> for Fields<I> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}

impl<'de, I: Iterator<Item = (String, Value)>> MapAccess<'de> for Fields<I> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        self.current = self.rest.next();
        let name = self.current.as_ref().map(|(name, _)| name.clone());
        name.map(|name| seed.deserialize(StringDeserializer::new(name)))
            .transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let Some((name, value)) = self.current.take() else {
            return Err(de::Error::custom("a value is read before its name"));
        };
        seed.deserialize(Field(value))
            .map_err(|Error(why)| Error(format!("{name}: {why}")))
    }
}

/// Deserializer of the value of one parameter.
struct Field(Value);

impl<'de> Deserializer<'de> for Field {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Boolean(value) => visitor.visit_bool(value),
            Value::Integer(value) => visitor.visit_i64(value),
            Value::Number(value) => visitor.visit_f64(value),
            Value::Text(value) => visitor.visit_string(value),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Value::Text(name) => visitor.visit_enum(StringDeserializer::<Error>::new(name)),
            other => Self(other).deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests;
