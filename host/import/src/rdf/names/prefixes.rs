//! Prefixes that shorten IRIs.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::options::{Prefix, RdfOptions};
use crate::ImportError;
use crate::shorten::shorten;

/// Prefixes of an import, ordered for the search of the longest one that begins an IRI.
#[derive(Debug, Default)]
pub(crate) struct PrefixTable {
    entries: Vec<PrefixEntry>,
}

#[derive(Debug)]
struct PrefixEntry {
    prefix: Prefix,
    /// Index of the longest entry that begins the IRI of this one.
    parent: Option<usize>,
}

impl PrefixTable {
    /// Returns the prefixes of the user and, if the options say so, those that files declare. A prefix of the user
    /// takes precedence over one of the same name in a file.
    ///
    /// # Errors
    /// When one name stands for two IRIs.
    pub(crate) fn gather(
        options: &RdfOptions,
        declared: &[(&Path, &[Prefix])],
    ) -> Result<Self, ImportError> {
        let mut by_name: BTreeMap<&str, (&str, Option<&Path>)> = BTreeMap::new();
        for Prefix { name, iri } in &options.prefixes {
            let known = by_name.insert(name, (iri, None));
            if known.is_some_and(|(known, _)| known != iri) {
                let name = shorten(name);
                let what = format!("the prefix `{name}` is given twice, with different IRIs");
                return Err(ImportError::usage(what));
            }
        }
        let declared: &[_] = if options.file_prefixes { declared } else { &[] };
        for (path, prefixes) in declared {
            let shortens = |prefix: &&Prefix| prefix.name.len() < prefix.iri.len();
            for Prefix { name, iri } in prefixes.iter().filter(shortens) {
                match by_name.get(name.as_str()) {
                    Some((_, None)) => {}
                    Some((known, Some(other))) if known != iri => {
                        let what = format!(
                            "the prefix `{}` stands for <{}>, but in {} for <{}>; choose with `--prefix`",
                            shorten(name),
                            shorten(iri),
                            other.display(),
                            shorten(known)
                        );
                        return Err(ImportError::input(path, what));
                    }
                    _ => drop(by_name.insert(name, (iri, Some(path)))),
                }
            }
        }
        let of_user = |&(_, (_, file)): &(&str, (&str, Option<&Path>))| file.is_some();
        let mut listed: Vec<_> = by_name.into_iter().collect();
        // Of several names for an IRI, one of the user counts, and of those the first in alphabetical order.
        listed.sort_by_key(of_user);
        Ok(Self::new(listed.into_iter().map(|(name, (iri, _))| {
            Prefix {
                name: name.to_owned(),
                iri: iri.to_owned(),
            }
        })))
    }

    /// Returns a table. Of several prefixes with the same IRI, the first counts.
    fn new(prefixes: impl Iterator<Item = Prefix>) -> Self {
        let mut by_iri: BTreeMap<String, String> = BTreeMap::new();
        for Prefix { name, iri } in prefixes {
            by_iri.entry(iri).or_insert(name);
        }
        let mut table = Self::default();
        for (iri, name) in by_iri {
            let parent = table.find(&iri);
            let prefix = Prefix { name, iri };
            table.entries.push(PrefixEntry { prefix, parent });
        }
        table
    }

    /// Returns the number of prefixes.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the name of the longest prefix that begins an IRI, and the rest of the IRI.
    pub(super) fn shorten<'a>(&self, iri: &'a str) -> Option<(&str, &'a str)> {
        let Prefix { name, iri: start } = &self.entries[self.find(iri)?].prefix;
        Some((name, &iri[start.len()..]))
    }

    /// Returns the index of the longest prefix that begins an IRI. Every such prefix also begins the last entry that is
    /// not greater than the IRI, or is that entry.
    fn find(&self, iri: &str) -> Option<usize> {
        let after = self
            .entries
            .partition_point(|entry| entry.prefix.iri.as_str() <= iri);
        let mut at = after.checked_sub(1)?;
        while !iri.starts_with(&self.entries[at].prefix.iri) {
            at = self.entries[at].parent?;
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn prefix(name: &str, iri: &str) -> Prefix {
        Prefix {
            name: name.to_owned(),
            iri: iri.to_owned(),
        }
    }

    #[test]
    fn prefixes_of_the_user_precede_those_of_files() {
        let options = RdfOptions {
            prefixes: vec![prefix("a", "http://a/"), prefix("z", "http://x/")],
            file_prefixes: true,
            ..RdfOptions::default()
        };
        let file = [
            prefix("a", "http://other/"),
            prefix("b", "http://x/"),
            prefix("c", "http://x/c#"),
            prefix("", ""),
        ];
        let declared = [(Path::new("one.ttl"), &file[..])];
        let table = PrefixTable::gather(&options, &declared).unwrap();
        assert_eq!(table.shorten("http://a/1"), Some(("a", "1")));
        assert_eq!(table.shorten("http://other/1"), None);
        assert_eq!(table.shorten("http://x/c"), Some(("z", "c")));
        assert_eq!(table.shorten("http://x/c#"), Some(("c", "")));
        let other = [prefix("c", "http://elsewhere/")];
        let declared = [declared[0], (Path::new("two.ttl"), &other[..])];
        let error = PrefixTable::gather(&options, &declared).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("two.ttl: the prefix `c`") && error.contains("one.ttl"),
            "{error}"
        );
        let options = RdfOptions {
            file_prefixes: false,
            ..options
        };
        assert_eq!(PrefixTable::gather(&options, &declared).unwrap().len(), 2);
    }

    proptest! {
        /// The table finds the longest prefix, as a comparison with all of them does.
        #[test]
        fn the_longest_prefix_shortens(
            iris in prop::collection::vec("[ab]{1,4}", 0..8),
            iri in "[ab]{0,6}",
        ) {
            let prefixes = iris.iter().map(|iri| prefix(iri, iri));
            let table = PrefixTable::new(prefixes);
            let longest = iris.iter().filter(|start| iri.starts_with(*start)).max_by_key(|start| start.len());
            let expected = longest.map(|start| (start.as_str(), &iri[start.len()..]));
            prop_assert_eq!(table.shorten(&iri), expected);
        }
    }
}
