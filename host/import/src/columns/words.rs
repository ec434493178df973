//! Names of columns that are recognised.

use super::Role;

/// Known column names in lower case, by role: the usual ones, and others that count only if none of the usual ones
/// occurs.
pub(super) const WORDS: [(Role, [&[&str]; 2]); 4] = [
    (
        Role::Lhs,
        [
            &["lhs", "head", "source", "src", "subject", "from"],
            &[
                "sourceid",
                "headid",
                "subjectid",
                "fromid",
                "fromnodeid",
                "fromnode",
                "sourcenode",
                "startid",
                "node1",
                "entity1",
                "headentity",
                "sourceentity",
            ],
        ],
    ),
    (
        Role::Rel,
        [
            &["rel", "relation", "predicate", "label", "type"],
            &[
                "relationid",
                "predicateid",
                "relationtype",
                "reltype",
                "relationship",
                "edgetype",
                "metaedge",
                "property",
            ],
        ],
    ),
    (
        Role::Rhs,
        [
            &[
                "rhs",
                "tail",
                "target",
                "dst",
                "destination",
                "object",
                "to",
            ],
            &[
                "targetid",
                "tailid",
                "objectid",
                "toid",
                "tonodeid",
                "tonode",
                "targetnode",
                "endid",
                "node2",
                "entity2",
                "tailentity",
                "targetentity",
            ],
        ],
    ),
    (Role::Weight, [&["weight"], &["weights", "edgeweight"]]),
];

/// Types of properties in the headers of Neo4j, as in `weight:float`.
const NEO4J_TYPES: [&str; 8] = [
    "int", "long", "float", "double", "byte", "short", "string", "boolean",
];

/// Returns the name of a column in lower case without separators between its words; for Neo4j's `id:START_ID(Group)`,
/// the middle part, and for its `weight:float` the first.
pub(super) fn plain(name: &str) -> String {
    let name = match name.rsplit_once(':') {
        Some((property, kind)) if NEO4J_TYPES.contains(&kind.trim()) => property,
        Some((_, name)) => name,
        None => name,
    };
    let name = name.split_once('(').map_or(name, |(name, _)| name);
    let words = name
        .trim()
        .chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '));
    words.flat_map(char::to_lowercase).collect()
}

/// Returns whether the columns are those of edges in KGX, the format of the Biolink model: besides others, `subject`,
/// `predicate` and `object`.
pub(crate) fn is_kgx(header: &[&str]) -> bool {
    let has = |name: &str| header.iter().any(|column| column.trim() == name);
    has("subject") && has("predicate") && has("object")
}

/// Returns whether the columns are those of nodes in KGX, or of others with an identifier and a category: such a file
/// lies beside that of the edges.
pub(crate) fn is_kgx_nodes(header: &[&str]) -> bool {
    let has = |name: &str| header.iter().any(|column| column.trim() == name);
    let is_side = |column: &&str| matches!(Role::of_name(column), Some(Role::Lhs | Role::Rhs));
    has("id") && has("category") && !header.iter().any(is_side)
}

impl Role {
    /// Returns the role of a column of this name, if it is known.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let name = plain(name);
        let found = WORDS
            .iter()
            .find(|(_, words)| words.concat().contains(&&*name));
        found.map(|&(role, _)| role)
    }
}
