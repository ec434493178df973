//! A tree of TOML values with the line of each value.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Location of a value, ordered as problems are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KeyLocation {
    /// A line of the file, counted from 1.
    Line(usize),
    /// An override by `--set`.
    Set,
    /// No location, as of a missing key.
    Nowhere,
}

/// Value with its location.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ConfigNode {
    pub(super) value: TomlValue,
    pub(super) place: KeyLocation,
}

/// TOML value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TomlValue {
    Boolean(bool),
    /// An integer; integers beyond 128 bits are saturated.
    Integer(i128),
    Float(f64),
    Text(String),
    Datetime(String),
    List(Vec<ConfigNode>),
    Table(BTreeMap<String, ConfigNode>),
}

impl ConfigNode {
    /// Parses a file. Returns all syntax errors, each with its location.
    pub(super) fn parse(text: &str) -> Result<Self, Vec<(KeyLocation, String)>> {
        let lines = Lines::new(text);
        let (table, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            return Ok(Self {
                value: lines.table(table.into_inner()),
                place: KeyLocation::Nowhere,
            });
        }
        let located = |error: &toml::de::Error| {
            let place = error.span().map(|span| lines.place(span.start));
            let message = error.message().to_owned();
            (place.unwrap_or(KeyLocation::Nowhere), message)
        };
        Err(errors.iter().map(located).collect())
    }

    /// Parses the value of an override as TOML; returns `None` when `text` is not a TOML value.
    pub(super) fn parse_value(text: &str) -> Option<TomlValue> {
        let value = DeValue::parse(text).ok()?.into_inner();
        let mut node = Self {
            value: Lines::new(text).value(value),
            place: KeyLocation::Set,
        };
        node.move_to(KeyLocation::Set);
        Some(node.value)
    }

    /// Returns the location of the value at `path`, or of the nearest value above it.
    pub(super) fn place_of(&self, path: &[String]) -> KeyLocation {
        let Some((first, rest)) = path.split_first() else {
            return self.place;
        };
        let child = match &self.value {
            TomlValue::Table(entries) => entries.get(first),
            TomlValue::List(items) => first.parse().ok().and_then(|at: usize| items.get(at)),
            _ => None,
        };
        let Some(child) = child else {
            return self.place;
        };
        match child.place_of(rest) {
            KeyLocation::Nowhere => child.place,
            place => place,
        }
    }

    /// Sets the location of every value in the tree.
    pub(super) fn move_to(&mut self, place: KeyLocation) {
        self.place = place;
        match &mut self.value {
            TomlValue::List(items) => items.iter_mut().for_each(|n| n.move_to(place)),
            TomlValue::Table(entries) => entries.values_mut().for_each(|n| n.move_to(place)),
            _ => {}
        }
    }
}

impl TomlValue {
    /// Describes the value for messages, with the value itself where that is short.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Boolean(b) => b.to_string(),
            Self::Integer(i) => i.to_string(),
            Self::Float(x) => format!("{x:?}"),
            Self::Text(s) => format!("the string {}", excerpt(s)),
            Self::Datetime(d) => format!("the date {d}"),
            Self::List(_) => "a list".to_owned(),
            Self::Table(_) => "a table".to_owned(),
        }
    }
}

/// Returns the beginning of `text` in quotes, with control characters escaped.
pub(super) fn excerpt(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}...", &text[..end]),
    }
}

/// Positions of the newlines of a text, to find the line of a byte position.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(i, _)| i).collect())
    }

    fn place(&self, position: usize) -> KeyLocation {
        KeyLocation::Line(1 + self.0.partition_point(|&newline| newline < position))
    }

    fn value(&self, value: DeValue<'_>) -> TomlValue {
        match value {
            DeValue::Boolean(b) => TomlValue::Boolean(b),
            DeValue::String(s) => TomlValue::Text(s.into_owned()),
            DeValue::Datetime(d) => TomlValue::Datetime(d.to_string()),
            DeValue::Float(x) => TomlValue::Float(x.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Integer(i) => {
                let nearest = if i.as_str().starts_with('-') {
                    i128::MIN
                } else {
                    i128::MAX
                };
                TomlValue::Integer(i128::from_str_radix(i.as_str(), i.radix()).unwrap_or(nearest))
            }
            DeValue::Array(items) => {
                let item = |item: Spanned<DeValue<'_>>| {
                    let place = self.place(item.span().start);
                    self.node(item, place)
                };
                TomlValue::List(items.into_iter().map(item).collect())
            }
            DeValue::Table(entries) => self.table(entries),
        }
    }

    fn table(&self, entries: DeTable<'_>) -> TomlValue {
        let entries = entries.into_iter().map(|(key, value)| {
            let place = self.place(key.span().start);
            (key.into_inner().into_owned(), self.node(value, place))
        });
        TomlValue::Table(entries.collect())
    }

    fn node(&self, value: Spanned<DeValue<'_>>, place: KeyLocation) -> ConfigNode {
        let value = self.value(value.into_inner());
        ConfigNode { value, place }
    }
}
