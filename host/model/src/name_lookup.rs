//! Names in questions: lookup of relations, and errors for unknown names with similar ones.

use pbg_core::nearest::nearest;

use crate::blueprint::Blueprint;
use crate::error::{RunError, UnknownName};
use crate::trained::TrainedModel;

/// Smallest similarity of names that are offered for each other; 1 is equality.
const SIMILAR: f64 = 0.7;
/// Largest number of names in a message.
const MOST_SIMILAR: usize = 5;
/// A shorter text is the beginning of too many names.
const SHORTEST: usize = 3;
/// Longer texts are not misspellings, and the edit distance takes quadratic time.
const LONGEST: usize = 256;

/// Returns the id of relation `name`.
pub fn relation(trained: &TrainedModel<'_>, name: &str) -> Result<u32, UnknownName> {
    let names = &trained.blueprint.relation_names;
    let place = names.iter().position(|n| n == name);
    place
        .map(|at| at as u32)
        .ok_or_else(|| unknown_relation(trained, name))
}

/// Returns the index of entity type `name`.
pub fn entity_type(blueprint: &Blueprint, name: &str) -> Result<usize, UnknownName> {
    let types = blueprint.layout.types.iter().map(|of| of.name.as_str());
    let unknown = || UnknownName::EntityType {
        entity_type: name.to_owned(),
        known: few(types),
    };
    blueprint.entity_type(name).ok_or_else(unknown)
}

/// Returns the error for a relation without parameters.
pub fn unknown_relation(trained: &TrainedModel<'_>, name: &str) -> UnknownName {
    let (dataset, relation) = (&trained.dataset, name.to_owned());
    if dataset.relation_names().contains(&relation) {
        let checkpoint = trained.checkpoint.path().to_owned();
        return UnknownName::RelationIsNew {
            relation,
            checkpoint,
        };
    }
    let names = || trained.blueprint.relation_names.iter().map(String::as_str);
    // The most similar name comes first.
    let meant = nearest(name, names());
    let others = names().filter(|other| Some(*other) != meant);
    UnknownName::Relation {
        relation,
        dataset: dataset.path().to_owned(),
        known: few(meant.into_iter().chain(others)),
    }
}

/// Returns the error for a name that no entity has, or no entity of type `wanted`. Reads the dictionaries without
/// keeping them in memory.
pub fn unknown_entity(
    trained: &TrainedModel<'_>,
    name: &str,
    wanted: Option<&str>,
) -> Result<UnknownName, RunError> {
    let meant = name.to_lowercase();
    let mut similar: Vec<(f64, String)> = Vec::new();
    let mut types = Vec::new();
    for layout in &trained.blueprint.layout.types {
        let visit = &mut |_, known: &str| {
            if known == name {
                types.push(layout.name.as_str());
            }
            let likeness = likeness(&meant, known);
            if likeness >= SIMILAR {
                similar.push((likeness, known.to_owned()));
                similar.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
                similar.truncate(MOST_SIMILAR);
            }
        };
        trained.dataset.visit_entities(&layout.name, visit)?;
    }
    let entity = name.to_owned();
    if let (Some(wanted), false) = (wanted, types.is_empty()) {
        return Ok(UnknownName::OtherType {
            entity,
            wanted: wanted.to_owned(),
            types: few(types.into_iter()),
        });
    }
    let names: Vec<_> = similar.into_iter().map(|(_, name)| name).collect();
    let similar = match names.is_empty() {
        true => String::new(),
        false => format!("; similar names: {}", names.join(", ")),
    };
    Ok(UnknownName::Entity { entity, similar })
}

/// Returns the similarity of the lower-case name `meant` and another name. A name that `meant` is the beginning of is
/// similar, since many names end in something that users do not remember.
fn likeness(meant: &str, known: &str) -> f64 {
    let longest = meant.len().max(known.len());
    // A large difference in length alone makes names dissimilar.
    let shortest = meant.len().min(known.len());
    if longest > LONGEST || (shortest as f64) < SIMILAR / 4.0 * longest as f64 {
        return 0.0;
    }
    let known = known.to_lowercase();
    let begins = meant.len() >= SHORTEST && known.starts_with(meant);
    let begun = match begins {
        true => SIMILAR + (1.0 - SIMILAR) * shortest as f64 / longest as f64,
        false => 0.0,
    };
    strsim::normalized_damerau_levenshtein(meant, &known).max(begun)
}

/// Joins the first few of `names` and the number of the others.
pub fn few<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(8) {
        0 => names.join(", "),
        more => {
            names.truncate(8);
            format!("{} and {more} more", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_and_beginnings_are_alike() {
        for (meant, known) in [
            ("dog.n.10", "dog.n.01"),
            ("cobra", "Cobra.n.01"),
            ("new york", "New York City"),
        ] {
            assert!(likeness(meant, known) >= SIMILAR, "{meant}, {known}");
        }
        for (meant, known) in [("do", "dog.n.01"), ("cat", "dog"), ("x", &*"x".repeat(500))] {
            assert!(likeness(meant, known) < SIMILAR, "{meant}, {known}");
        }
        assert!(likeness("cobra.n.02", "cobra.n.01") > likeness("cobra", "cobra.n.01"));
    }
}
