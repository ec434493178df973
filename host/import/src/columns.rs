//! Assignment of a file's columns to the parts of an edge.

use std::str::FromStr;

mod words;

use self::words::{WORDS, plain};
pub(super) use self::words::{is_kgx, is_kgx_nodes};
use super::shorten::shorten;

/// Column specification of the user: `lhs,rel,rhs,weight` by position (`-` for a column to ignore), or
/// `lhs=NAME,rhs=NAME,...` by the names in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnSpec {
    /// One role per column.
    Positions(Vec<Role>),
    /// Role and name of each column to read.
    Names(Vec<(Role, String)>),
}

/// Role of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Name of the left entity.
    Lhs,
    /// Name of the relation.
    Rel,
    /// Name of the right entity.
    Rhs,
    /// Weight of the edge.
    Weight,
    /// The column is not read.
    Ignored,
}

impl FromStr for Role {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word.trim() {
            "lhs" => Ok(Self::Lhs),
            "rel" => Ok(Self::Rel),
            "rhs" => Ok(Self::Rhs),
            "weight" => Ok(Self::Weight),
            "-" => Ok(Self::Ignored),
            other => Err(format!(
                "unknown column `{other}`: use lhs, rel, rhs, weight, or `-` for a column to ignore"
            )),
        }
    }
}

impl FromStr for ColumnSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(',').collect();
        let columns = if words.iter().any(|word| word.contains('=')) {
            let pair = |word: &&str| {
                let (role, name) = word.split_once('=').ok_or_else(|| {
                    format!("`{word}` lacks `=`: write either roles only or ROLE=NAME for all")
                })?;
                Ok((role.parse()?, name.trim().to_owned()))
            };
            Self::Names(words.iter().map(pair).collect::<Result<_, String>>()?)
        } else {
            let roles = words.iter().map(|word| word.parse());
            Self::Positions(roles.collect::<Result<_, _>>()?)
        };
        let roles = columns.roles();
        for role in [Role::Lhs, Role::Rel, Role::Rhs, Role::Weight] {
            let times = roles.iter().filter(|&&r| r == role).count();
            if times > 1 {
                return Err(format!("`{text}` names a column twice"));
            }
            if times == 0 && matches!(role, Role::Lhs | Role::Rhs) {
                return Err(format!("`{text}` lacks lhs or rhs"));
            }
        }
        Ok(columns)
    }
}

impl ColumnSpec {
    fn roles(&self) -> Vec<Role> {
        match self {
            Self::Positions(roles) => roles.clone(),
            Self::Names(names) => names.iter().map(|&(role, _)| role).collect(),
        }
    }
}

/// Returns the roles of the columns of a table with the column names `header`, as an import of a file with this header
/// would choose them.
///
/// # Errors
/// When it is ambiguous which columns are the entities, or which of several columns has a role.
pub fn roles(columns: Option<&ColumnSpec>, header: &[&str]) -> Result<Vec<Role>, String> {
    let layout = ColumnLayout::with_header(columns, header)?;
    let mut roles = vec![Role::Ignored; header.len()];
    roles[layout.lhs] = Role::Lhs;
    roles[layout.rhs] = Role::Rhs;
    if let Some(rel) = layout.rel {
        roles[rel] = Role::Rel;
    }
    if let Some(weight) = layout.weight {
        roles[weight] = Role::Weight;
    }
    Ok(roles)
}

/// Positions of the roles in a file's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ColumnLayout {
    /// Number of columns; a line with more or fewer is an error.
    pub(super) count: usize,
    pub(super) lhs: usize,
    pub(super) rel: Option<usize>,
    pub(super) rhs: usize,
    pub(super) weight: Option<usize>,
}

impl ColumnLayout {
    /// Returns the layout of a file without a header, most of whose lines have `width` columns. `relation` is the
    /// relation of edges that name none.
    pub(super) fn without_header(
        columns: Option<&ColumnSpec>,
        width: usize,
        relation: Option<&str>,
    ) -> Result<Self, String> {
        match (columns, width) {
            (Some(ColumnSpec::Positions(roles)), _) => Self::positions(roles),
            (Some(ColumnSpec::Names(_)), _) => Err(
                "it has no header, so its columns have no names: specify their roles by position, as in `--columns \
                 lhs,rel,rhs`"
                    .to_owned(),
            ),
            (None, 2) if relation.is_some() => Self::positions(&[Role::Lhs, Role::Rhs]),
            (None, 2) => Err(
                "it has 2 columns, so none for relations, and the configuration does not have exactly one relation, which \
                 its edges would then have: add a column, or leave one relation in `relations`"
                    .to_owned(),
            ),
            (None, 3) => Self::positions(&[Role::Lhs, Role::Rel, Role::Rhs]),
            (None, width) => Err(format!(
                "it has {width} columns and no header: specify their roles by position, as in `--columns \
                 lhs,rel,rhs,weight`, with `-` for each column to ignore"
            )),
        }
    }

    /// Describes how the cells of an edge are interpreted. `relation` is the relation of edges that name none.
    pub(super) fn describe_edge(&self, cells: &[String], relation: Option<&str>) -> String {
        let cell = |at: usize| shorten(cells.get(at).map_or("", String::as_str));
        let relation = match (self.rel, relation) {
            (Some(at), _) => cell(at),
            (None, Some(name)) => format!("{} (constant)", shorten(name)),
            (None, None) => "none".to_owned(),
        };
        let (head, tail) = (cell(self.lhs), cell(self.rhs));
        let weight = self.weight.map(|at| format!(", weight={}", cell(at)));
        let weight = weight.unwrap_or_default();
        format!("head={head}, relation={relation}, tail={tail}{weight}")
    }

    /// Returns the layout of a table whose columns have these names.
    pub(super) fn with_header(
        columns: Option<&ColumnSpec>,
        header: &[&str],
    ) -> Result<Self, String> {
        match columns {
            Some(ColumnSpec::Positions(roles)) if roles.len() == header.len() => {
                return Self::positions(roles);
            }
            Some(ColumnSpec::Positions(roles)) => {
                let (found, expected) = (header.len(), roles.len());
                return Err(format!(
                    "it has {found} columns, but {expected} are expected"
                ));
            }
            Some(ColumnSpec::Names(names)) => return Self::named(names, header),
            None => {}
        }
        let mut roles = vec![Role::Ignored; header.len()];
        let is_kgx = is_kgx(header);
        for (role, words) in WORDS {
            let called = |words: &[&str]| -> Vec<usize> {
                let known = |at: &usize| words.contains(&&*plain(header[*at]));
                (0..header.len()).filter(known).collect()
            };
            // `source` takes precedence over `source_id`. The column `relation` of KGX describes the predicate.
            let words = match role {
                Role::Rel if is_kgx => [&["predicate"][..], &[]],
                _ => words,
            };
            let found = words
                .map(called)
                .into_iter()
                .find(|found| !found.is_empty());
            match found.unwrap_or_default()[..] {
                [] => {}
                [at] => roles[at] = role,
                [first, second, ..] => {
                    return Err(format!(
                        "is the column `{}` or `{}` meant? {CHOOSE}",
                        header[first], header[second]
                    ));
                }
            }
        }
        Self::positions(&roles).map_err(|_| {
            format!(
                "which of its columns {} are the entities? {CHOOSE}",
                header.join(", ")
            )
        })
    }

    fn named(names: &[(Role, String)], header: &[&str]) -> Result<Self, String> {
        let mut roles = vec![Role::Ignored; header.len()];
        for (role, name) in names {
            let found = header.iter().position(|column| column.trim() == name);
            let at = found
                .ok_or_else(|| format!("it has no column `{name}` but {}", header.join(", ")))?;
            roles[at] = *role;
        }
        Self::positions(&roles)
    }

    /// Returns the columns that are read.
    pub(super) fn used(&self) -> Vec<usize> {
        let columns = [Some(self.lhs), self.rel, Some(self.rhs), self.weight];
        columns.into_iter().flatten().collect()
    }

    fn positions(roles: &[Role]) -> Result<Self, String> {
        let at = |role| roles.iter().position(|&r| r == role);
        let (Some(lhs), Some(rhs)) = (at(Role::Lhs), at(Role::Rhs)) else {
            return Err("it has no column for the left or the right entities".to_owned());
        };
        Ok(Self {
            count: roles.len(),
            lhs,
            rel: at(Role::Rel),
            rhs,
            weight: at(Role::Weight),
        })
    }
}

const CHOOSE: &str = "choose with `--columns lhs=NAME,rel=NAME,rhs=NAME`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_names() {
        let columns: ColumnSpec = "-,rhs,lhs,weight".parse().unwrap();
        let layout = ColumnLayout::without_header(Some(&columns), 4, None).unwrap();
        assert_eq!(
            layout,
            ColumnLayout {
                count: 4,
                lhs: 2,
                rel: None,
                rhs: 1,
                weight: Some(3)
            }
        );
        let columns: ColumnSpec = "lhs=a,rhs=c,rel=b".parse().unwrap();
        let layout = ColumnLayout::with_header(Some(&columns), &["c", "x", "b", "a"]).unwrap();
        assert_eq!(
            layout,
            ColumnLayout {
                count: 4,
                lhs: 3,
                rel: Some(2),
                rhs: 0,
                weight: None
            }
        );
        let kgx = ["id", "subject", "predicate", "object", "relation"];
        let layout = ColumnLayout::with_header(None, &kgx).unwrap();
        assert_eq!((layout.lhs, layout.rel, layout.rhs), (1, Some(2), 3));
        let neo4j = [
            ":START_ID(Person)",
            "since:date",
            "weight:float",
            ":END_ID(Film)",
            ":TYPE",
        ];
        let layout = ColumnLayout::with_header(None, &neo4j).unwrap();
        assert_eq!(
            (layout.lhs, layout.rel, layout.rhs, layout.weight),
            (0, Some(4), 3, Some(2))
        );
        let layout = ColumnLayout::with_header(None, &["Head", "relation", "tail"]).unwrap();
        assert_eq!(
            layout,
            ColumnLayout {
                count: 3,
                lhs: 0,
                rel: Some(1),
                rhs: 2,
                weight: None
            }
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            "",
            "lhs",
            "lhs,rel",
            "lhs,lhs,rhs",
            "lhs,rhs,wight",
            "lhs=a,rhs",
        ] {
            assert!(text.parse::<ColumnSpec>().is_err(), "{text}");
        }
        assert!(ColumnLayout::with_header(None, &["a", "b", "c"]).is_err());
        assert!(ColumnLayout::with_header(None, &["head", "lhs", "tail"]).is_err());
        let named: ColumnSpec = "lhs=a,rhs=b".parse().unwrap();
        assert!(ColumnLayout::without_header(Some(&named), 3, None).is_err());
        assert!(ColumnLayout::without_header(None, 2, None).is_err());
        assert!(ColumnLayout::without_header(None, 4, Some("r")).is_err());
        assert!(ColumnLayout::with_header(Some(&named), &["a", "c"]).is_err());
    }
}
