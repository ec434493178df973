//! Names of the relations of WordNet's pointers.

/// Returns the relation of a pointer symbol in the file of part of speech `pos`, or `None` if its inverse is kept instead.
///
/// Of two inverse relations, the direction to the rarer, more general or containing synset is kept
/// (`hypernym`, not `hyponym`), except for meronyms, where the direction from the whole to its parts is kept.
/// Symbols are those of the manual page wninput(5).
pub(crate) fn of_symbol(symbol: &str, pos: Pos) -> Result<Option<&'static str>, UnknownSymbol> {
    Ok(Some(match symbol {
        "!" => "antonym",
        "@" => "hypernym",
        "@i" => "instance_hypernym",
        "%m" => "member_meronym",
        "%s" => "substance_meronym",
        "%p" => "part_meronym",
        "=" => "attribute",
        "+" => "derivationally_related_form",
        ";c" => "domain_topic",
        ";r" => "domain_region",
        ";u" => "domain_usage",
        "*" => "entailment",
        ">" => "cause",
        "^" => "also_see",
        "$" => "verb_group",
        "&" => "similar_to",
        "<" => "participle_of",
        // This symbol has two meanings: a relational adjective points to its noun, an adverb to its adjective.
        "\\" if pos == Pos::Adverb => "derived_from_adjective",
        "\\" => "pertainym",
        "~" | "~i" | "#m" | "#s" | "#p" | "-c" | "-r" | "-u" => return Ok(None),
        _ => return Err(UnknownSymbol),
    }))
}

/// A pointer symbol that WordNet 3.0 does not have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownSymbol;

/// The four files of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Pos {
    Noun,
    Verb,
    Adjective,
    Adverb,
}

impl Pos {
    pub(crate) const ALL: [Self; 4] = [Self::Noun, Self::Verb, Self::Adjective, Self::Adverb];

    /// Returns the suffix of the file's name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Noun => "noun",
            Self::Verb => "verb",
            Self::Adjective => "adj",
            Self::Adverb => "adv",
        }
    }

    /// Returns the part of speech of a letter of the data files; satellites (`s`) are in the adjective file.
    pub(crate) fn of_letter(letter: &str) -> Option<Self> {
        match letter {
            "n" => Some(Self::Noun),
            "v" => Some(Self::Verb),
            "a" | "s" => Some(Self::Adjective),
            "r" => Some(Self::Adverb),
            _ => None,
        }
    }
}
