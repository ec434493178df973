//! The JSON object of a plugin's parameters: plain values under their names.
//!
//! Parameters are booleans, numbers and texts. A reader of all of JSON, with its messages, is more
//! code than the rest of a small plugin, and the host compiles what a plugin has.

use std::fmt::{Display, Write as _};

use serde::de::value::{MapDeserializer, StringDeserializer};
use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

/// The value of one parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Boolean(bool),
    Integer(i64),
    /// Finite.
    Number(f64),
    Text(String),
}

/// What is wrong with the text, or does not fit the author's type.
#[derive(Debug)]
pub(crate) struct Error(String);

/// Reads an object into the author's type.
pub(super) fn read<'de, T: Deserialize<'de>>(text: &str) -> Result<T, Error> {
    T::deserialize(Object(members(text)?))
}

/// The text of an object.
pub(crate) fn write<'a>(members: impl IntoIterator<Item = (&'a str, Value)>) -> String {
    let members: Vec<String> = members
        .into_iter()
        .map(|(name, value)| {
            let value = match value {
                Value::Boolean(value) => value.to_string(),
                Value::Integer(value) => value.to_string(),
                Value::Number(value) => format!("{value:?}"),
                Value::Text(value) => quoted(&value),
            };
            format!("{}:{value}", quoted(name))
        })
        .collect();
    format!("{{{}}}", members.join(","))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            // Writing to a string does not fail.
            '\0'..' ' => drop(write!(quoted, "\\u{:04x}", u32::from(character))),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

fn members(text: &str) -> Result<Vec<(String, Value)>, Error> {
    let mut reader = Reader { rest: text };
    let mut members = Vec::new();
    reader.expect("{")?;
    if !reader.eat("}") {
        loop {
            reader.expect("\"")?;
            let name = reader.text()?;
            reader.expect(":")?;
            members.push((name, reader.value()?));
            if !reader.eat(",") {
                break;
            }
        }
        reader.expect("}")?;
    }
    if reader.rest.trim_ascii().is_empty() {
        Ok(members)
    } else {
        Err(reader.wrong("the end"))
    }
}

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn eat(&mut self, token: &str) -> bool {
        let after = self.rest.trim_ascii_start().strip_prefix(token);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn expect(&mut self, token: &str) -> Result<(), Error> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(self.wrong(token))
        }
    }

    fn wrong(&self, expected: &str) -> Error {
        let found: String = self.rest.chars().take(20).collect();
        Error(format!("expected {expected} at `{found}`"))
    }

    fn value(&mut self) -> Result<Value, Error> {
        if self.eat("\"") {
            Ok(Value::Text(self.text()?))
        } else if self.eat("true") {
            Ok(Value::Boolean(true))
        } else if self.eat("false") {
            Ok(Value::Boolean(false))
        } else {
            self.number()
        }
    }

    fn number(&mut self) -> Result<Value, Error> {
        let start = self.rest.trim_ascii_start();
        let numeral = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let length = start.bytes().take_while(|byte| numeral(byte)).count();
        let value = start.split_at_checked(length).and_then(|(text, rest)| {
            if !is_of_json(text) {
                return None;
            }
            let value = match text.parse() {
                Ok(integer) => Value::Integer(integer),
                Err(_) => Value::Number(text.parse().ok().filter(|x: &f64| x.is_finite())?),
            };
            Some((value, rest))
        });
        let (value, rest) = value.ok_or_else(|| self.wrong("a boolean, a number or a text"))?;
        self.rest = rest;
        Ok(value)
    }

    /// A text after its opening quote.
    fn text(&mut self) -> Result<String, Error> {
        let mut text = String::new();
        let mut characters = self.rest.chars();
        while let Some(character) = characters.next() {
            let character = match character {
                '"' => {
                    self.rest = characters.as_str();
                    return Ok(text);
                }
                '\0'..' ' => return Err(self.wrong("a text without control characters")),
                '\\' => escaped(&mut characters).ok_or_else(|| self.wrong("a text"))?,
                character => character,
            };
            text.push(character);
        }
        Err(self.wrong("a closing quote"))
    }
}

/// Whether a numeral that Rust reads is one of JSON too, which has neither `+1`, `01`, `.5` nor `1.`.
fn is_of_json(numeral: &str) -> bool {
    let digits = numeral.strip_prefix('-').unwrap_or(numeral);
    let digit = |at: usize| digits.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let point = digits.find('.');
    digit(0) && !(digits.starts_with('0') && digit(1)) && point.is_none_or(|at| digit(at + 1))
}

/// A character after its backslash.
fn escaped(rest: &mut std::str::Chars) -> Option<char> {
    Some(match rest.next()? {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'u' => match unit(rest)? {
            high @ 0xd800..0xdc00 => {
                let low = (rest.next()? == '\\' && rest.next()? == 'u').then(|| unit(rest))??;
                char::decode_utf16([high, low]).next()?.ok()?
            }
            unit => char::from_u32(unit.into())?,
        },
        character @ ('"' | '\\' | '/') => character,
        _ => return None,
    })
}

/// Four hexadecimal digits.
fn unit(rest: &mut std::str::Chars) -> Option<u16> {
    (0..4).try_fold(0, |unit, _| {
        let digit = rest.next()?.to_digit(16)?;
        Some(unit << 4 | digit as u16)
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

    // The given texts show the value, and showing floats takes more code than reading them.
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

struct Object(Vec<(String, Value)>);

impl<'de> Deserializer<'de> for Object {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        MapDeserializer::new(self.0.into_iter()).deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}

impl IntoDeserializer<'_, Error> for Value {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Value {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Boolean(value) => visitor.visit_bool(value),
            Self::Integer(value) => visitor.visit_i64(value),
            Self::Number(value) => visitor.visit_f64(value),
            Self::Text(value) => visitor.visit_string(value),
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
        match self {
            Self::Text(name) => visitor.visit_enum(StringDeserializer::<Error>::new(name)),
            other => other.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests;
