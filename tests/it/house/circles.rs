//! No files of a crate use one another in a circle, except in pairs such as a type and its error.
//!
//! A file uses another one if it names an item that the other one defines, by `use` or by a path. A parent that only
//! declares a child or re-exports its items does not use it. Test modules are left out.

use std::collections::{BTreeMap, BTreeSet};

use super::sources;

#[test]
fn no_files_use_one_another_in_a_circle() {
    let mut crates: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (file, text) in ["host", "xtask"].into_iter().flat_map(sources) {
        if let Some((folder, path)) = file.split_once("/src/") {
            let files = crates.entry(folder.to_owned()).or_default();
            files.push((path.to_owned(), text));
        }
    }
    assert!(crates.len() > 20, "{:?}", crates.keys());
    for (folder, files) in crates {
        let circles = FileGraph::of(&files).circles();
        assert!(
            circles.is_empty(),
            "{folder}: files use one another in a circle: move what they share into a file of its own: {circles:#?}"
        );
    }
}

#[test]
fn a_circle_of_three_files_is_found() {
    let files = |c: &str| {
        let text = |text: &str| text.to_owned();
        vec![
            (
                "lib.rs".to_owned(),
                text("mod a;\nmod b;\nmod c;\npub use a::A;\n"),
            ),
            (
                "a.rs".to_owned(),
                text("use crate::b::B;\npub struct A(B);\n"),
            ),
            (
                "b.rs".to_owned(),
                text("pub struct B;\nfn f() {\n    super::c::call()\n}\n"),
            ),
            ("c.rs".to_owned(), text(c)),
        ]
    };
    let circles = |c| FileGraph::of(&files(c)).circles();
    let expected = vec![vec![
        "a.rs".to_owned(),
        "b.rs".to_owned(),
        "c.rs".to_owned(),
    ]];
    assert_eq!(circles("use super::A;\n"), expected);
    assert_eq!(
        circles("// crate::A\nconst TEXT: &str = \"crate::A\";\n"),
        Vec::<Vec<String>>::new()
    );
    let tests = "#[cfg(test)]\nmod tests {\n    use crate::A;\n}\n";
    assert_eq!(circles(tests), Vec::<Vec<String>>::new());
}

/// Path of a module, or of an item, from the root of its crate.
type ItemPath = Vec<String>;

/// Source file: what it imports, and what it names.
struct SourceFile {
    name: String,
    imports: Vec<Import>,
    /// Paths of at least two segments in the code, without imports.
    paths: Vec<ItemPath>,
    /// Identifiers in the code, without imports.
    words: BTreeSet<String>,
    /// Names of the items that the file defines.
    items: BTreeSet<String>,
}

/// Path that a `use` declaration names.
struct Import {
    path: ItemPath,
    /// Name in the file; `*` for all items.
    alias: String,
    is_public: bool,
}

/// Files of a crate, by the path of their module.
struct FileGraph {
    files: BTreeMap<ItemPath, SourceFile>,
}

impl FileGraph {
    fn of(files: &[(String, String)]) -> Self {
        let has_library = files.iter().any(|(path, _)| path == "lib.rs");
        let sources = files
            .iter()
            .filter(|(path, _)| !has_library || path != "main.rs");
        let by_module = sources.map(|(path, text)| {
            let stem = path.strip_suffix(".rs").unwrap_or(path);
            let stem = stem.strip_suffix("/mod").unwrap_or(stem);
            let module = match stem {
                "lib" | "main" => Vec::new(),
                stem => stem.split('/').map(str::to_owned).collect(),
            };
            (module, SourceFile::parse(path, text))
        });
        Self {
            files: by_module.collect(),
        }
    }

    /// Returns the path from the root of the crate; `None` for a path into another crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<ItemPath> {
        let first = path.first()?.as_str();
        let supers = path
            .iter()
            .take_while(|segment| *segment == "super")
            .count();
        let (from, rest) = match first {
            "crate" => (&module[..0], &path[1..]),
            "self" => (module, &path[1..]),
            "super" => (
                &module[..module.len().checked_sub(supers)?],
                &path[supers..],
            ),
            _ => {
                let child = [module, &path[..1]].concat();
                self.files.contains_key(&child).then_some((module, path))?
            }
        };
        Some([from, rest].concat())
    }

    /// Returns the module whose file defines the item at `path`, through re-exports.
    fn definer(&self, path: &[String], depth: usize) -> Option<ItemPath> {
        let is_module = |length: &usize| self.files.contains_key(&path[..*length]);
        let length = (1..=path.len()).take_while(is_module).last().unwrap_or(0);
        let module = &path[..length];
        let Some(item) = path.get(length).filter(|item| *item != "*" && depth < 8) else {
            return Some(module.to_vec());
        };
        let file = &self.files[module];
        for import in file.imports.iter().filter(|import| import.alias == *item) {
            let target = self.absolute(module, &import.path)?;
            if target != path[..=length] {
                return self.definer(&[&target, &path[length + 1..]].concat(), depth + 1);
            }
        }
        for import in file.imports.iter().filter(|import| import.alias == "*") {
            let target = self.absolute(module, &import.path);
            let target = target.and_then(|target| self.definer(&target, depth + 1));
            if let Some(target) = target.filter(|target| self.files[target].items.contains(item)) {
                return Some(target);
            }
        }
        Some(module.to_vec())
    }

    /// Returns the modules whose files the file of `module` uses.
    fn used_by(&self, module: &[String]) -> BTreeSet<ItemPath> {
        let file = &self.files[module];
        let mut named = Vec::new();
        let mut local = BTreeMap::new();
        for import in &file.imports {
            let Some(path) = self.absolute(module, &import.path) else {
                continue;
            };
            // The paths through the name of a module say which of its items are used.
            let is_module = self.files.contains_key(&path) && import.alias != "*";
            let is_used = !import.is_public || file.words.contains(&import.alias);
            if is_used && (!is_module || !file.words.contains(&import.alias)) {
                named.push(path.clone());
            }
            local.insert(import.alias.clone(), path);
        }
        for path in &file.paths {
            let through = local.get(&path[0]);
            let full = through.map(|target| [target, &path[1..]].concat());
            named.extend(full.or_else(|| self.absolute(module, path)));
        }
        let used = named.iter().filter_map(|path| self.definer(path, 0));
        used.filter(|other| other != module).collect()
    }

    /// Returns the names of the files of each circle of more than two.
    fn circles(&self) -> Vec<Vec<String>> {
        let uses: BTreeMap<&ItemPath, BTreeSet<ItemPath>> = self
            .files
            .keys()
            .map(|module| (module, self.used_by(module)))
            .collect();
        let reached: BTreeMap<&ItemPath, BTreeSet<&ItemPath>> = self
            .files
            .keys()
            .map(|module| (module, reachable(&uses, module)))
            .collect();
        let mut circles = BTreeSet::new();
        for (module, from) in &reached {
            let circle = from
                .iter()
                .filter(|other| reached[**other].contains(module));
            let names: BTreeSet<String> = circle
                .map(|other| self.files[*other].name.clone())
                .collect();
            circles.insert(names);
        }
        let large = circles.into_iter().filter(|circle| circle.len() > 2);
        large.map(|circle| circle.into_iter().collect()).collect()
    }
}

/// Returns the modules that `from` uses, directly or through others.
fn reachable<'g>(
    uses: &'g BTreeMap<&ItemPath, BTreeSet<ItemPath>>,
    from: &ItemPath,
) -> BTreeSet<&'g ItemPath> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&'g ItemPath> = uses[from].iter().collect();
    while let Some(module) = open.pop() {
        if found.insert(module) {
            open.extend(&uses[module]);
        }
    }
    found
}

impl SourceFile {
    fn parse(name: &str, text: &str) -> Self {
        let (code, _) = text
            .split_once("#[cfg(test)]\nmod tests {")
            .unwrap_or((text, ""));
        let tokens = tokens(code);
        let mut file = Self {
            name: name.to_owned(),
            imports: Vec::new(),
            paths: Vec::new(),
            words: BTreeSet::new(),
            items: BTreeSet::new(),
        };
        let mut at = 0;
        let mut is_public = false;
        while at < tokens.len() {
            let rest = &tokens[at..];
            let end = |mark: &str| rest.iter().position(|token| token == mark).unwrap_or(0) + 1;
            match rest[0].as_str() {
                "pub" => {
                    let has_scope = rest.get(1).is_some_and(|next| next == "(");
                    at += if has_scope { end(")") } else { 1 };
                    is_public = true;
                    continue;
                }
                "use" => {
                    let length = end(";");
                    expand(&rest[1..length - 1], &[], is_public, &mut file.imports);
                    at += length;
                }
                "mod" if rest.get(2).is_some_and(|next| next == ";") => at += 3,
                word if is_word(word) => {
                    let mut path = vec![word.to_owned()];
                    while let [colons, next, ..] = &rest[2 * path.len() - 1..]
                        && colons == "::"
                        && is_word(next)
                    {
                        path.push(next.clone());
                    }
                    let defines = ["struct", "enum", "fn", "trait", "type", "const", "static"];
                    if defines.contains(&word)
                        && let Some(item) = rest.get(1)
                    {
                        file.items.insert(item.clone());
                    }
                    at += 2 * path.len() - 1;
                    file.words.extend(path.iter().cloned());
                    if path.len() > 1 {
                        file.paths.push(path);
                    }
                }
                _ => at += 1,
            }
            is_public = false;
        }
        file
    }
}

/// Adds the paths of a `use` tree, such as `a::{b, c::D as E}`.
fn expand(tree: &[String], before: &[String], is_public: bool, imports: &mut Vec<Import>) {
    let open = tree.iter().position(|token| token == "{");
    let names = tree[..open.unwrap_or(tree.len())].iter();
    let mut path: ItemPath = before.to_vec();
    path.extend(names.clone().filter(|token| *token != "::").cloned());
    let Some(open) = open else {
        let renamed = path.iter().position(|segment| segment == "as");
        let alias = renamed.and_then(|at| path.get(at + 1).cloned());
        path.truncate(renamed.unwrap_or(path.len()));
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        if let Some(last) = path.last().cloned() {
            let alias = alias.unwrap_or(last);
            imports.push(Import {
                path,
                alias,
                is_public,
            });
        }
        return;
    };
    let (mut depth, mut start) = (0, open + 1);
    for (at, token) in tree.iter().enumerate().skip(open + 1) {
        match token.as_str() {
            "{" => depth += 1,
            "}" if depth > 0 => depth -= 1,
            "," | "}" if depth == 0 => {
                if start < at {
                    expand(&tree[start..at], &path, is_public, imports);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Divides code into words, `::` and single characters, without comments and strings.
fn tokens(code: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let word = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let length = if word > 0 {
            tokens.push(rest[..word].to_owned());
            word
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if first == '"' {
            string_end(rest)
        } else if rest.starts_with("'\"'") {
            3
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// Returns the length of the string literal at the beginning of `text`, with its quotes.
fn string_end(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return at + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}
