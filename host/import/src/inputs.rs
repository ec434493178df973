//! Input files of an import: expansion of folders and patterns, and copies of pipes.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

use super::{ImportError, ImportOptions, ImportProgress, pipes};
use pbg_files::remote::{self, LocalCopy, Patience};
use pbg_files::{self as files, FileError};

/// Input file of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InputPath {
    /// Path for messages.
    pub(super) path: PathBuf,
    /// Path of the file that is read; another one if `path` is a pipe.
    pub(super) source: PathBuf,
}

/// All input files of an import.
pub(super) struct InputFiles {
    /// Files by edge set.
    pub(super) sets: Vec<(String, Vec<InputPath>)>,
    /// Files of features by entity type.
    pub(super) features: Vec<(String, InputPath)>,
    /// Open copies of pipes, which have no name and exist only while they are open.
    spools: Vec<File>,
    /// Local copies of objects.
    copies: Vec<LocalCopy>,
}

impl InputFiles {
    /// Finds the input files. Copies the content of pipes to files next to the target, because files are read more than
    /// once.
    pub(super) fn find(
        sets: &[(String, Vec<PathBuf>)],
        options: &ImportOptions,
        progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
    ) -> Result<Self, ImportError> {
        let mut inputs = Self {
            sets: Vec::new(),
            features: Vec::new(),
            spools: Vec::new(),
            copies: Vec::new(),
        };
        let mut expanded = Vec::new();
        for (set, paths) in sets {
            let mut found = Vec::new();
            for path in paths {
                found.extend(match remote::as_url(path) {
                    Some(url) => objects(url)?,
                    None => expand(path)?,
                });
            }
            check_distinct(set, &found)?;
            expanded.push((set, found));
        }
        for (set, paths) in expanded {
            let mut files = Vec::with_capacity(paths.len());
            for path in paths {
                files.push(inputs.input(path, &options.target, progress)?);
            }
            inputs.sets.push((set.clone(), files));
        }
        for (entity_type, path) in &options.features {
            let file = inputs.input(path.clone(), &options.target, progress)?;
            inputs.features.push((entity_type.clone(), file));
        }
        Ok(inputs)
    }

    /// Returns the total size in bytes of the files of all edge sets.
    pub(super) fn bytes(&self) -> u64 {
        let files = self.sets.iter().flat_map(|(_, files)| files);
        files.map(InputPath::bytes).sum()
    }

    /// Removes the local copies of objects, which are kept until here so that an import that was interrupted need not copy
    /// them again.
    pub(super) fn discard_copies(&self) -> Result<(), ImportError> {
        for LocalCopy { folder, lock } in &self.copies {
            // Another import may read the same object.
            let failed = |e| FileError::new("unlock", folder, e);
            lock.unlock().map_err(failed)?;
            if lock.try_lock().is_ok() {
                files::remove_folder(folder)?;
            }
        }
        Ok(())
    }

    fn input(
        &mut self,
        path: PathBuf,
        target: &Path,
        progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
    ) -> Result<InputPath, ImportError> {
        if let Some((folder, name)) = remote::as_url(&path).and_then(remote::split_name) {
            let copy = remote::copy_object(folder, name)?;
            let source = copy.folder.join(name);
            self.copies.push(copy);
            return Ok(InputPath { path, source });
        }
        let is_pipe = fs::metadata(&path).is_ok_and(|found| found.file_type().is_fifo());
        if !is_pipe {
            return Ok(InputPath {
                source: path.clone(),
                path,
            });
        }
        let (file, source) = pipes::spool(&path, target, progress)?;
        self.spools.push(file);
        Ok(InputPath { path, source })
    }
}

impl InputPath {
    /// Returns the size of the file in bytes; 0 if it is unknown.
    pub(super) fn bytes(&self) -> u64 {
        files::size(&self.source).unwrap_or(0)
    }
}

fn check_distinct(set: &str, paths: &[PathBuf]) -> Result<(), ImportError> {
    let mut distinct = BTreeSet::new();
    match paths.iter().find(|path| !distinct.insert(*path)) {
        None => Ok(()),
        Some(twice) => {
            let twice = twice.display();
            let what = format!("the file {twice} is named twice for the edge set `{set}`");
            Err(ImportError::usage(what))
        }
    }
}

/// Expands a path: to the files in a folder, the files that match a pattern, or the file itself.
fn expand(path: &Path) -> Result<Vec<PathBuf>, ImportError> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => in_folder(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_pattern(path) => {
            let found = matching(path)?;
            if found.is_empty() {
                let what =
                    "there is no file of this name, and no file with edges matches it as a pattern";
                return Err(ImportError::input(path, what));
            }
            Ok(found)
        }
        _ => Ok(vec![path.to_owned()]),
    }
}

/// Expands the URL of an object: to the objects in a folder, the objects of a folder that match a pattern, or the object
/// itself. Names that begin with `.` or `_`, and empty objects, are omitted as in folders.
fn objects(url: &str) -> Result<Vec<PathBuf>, ImportError> {
    let within =
        |folder: &str, wanted: &dyn Fn(&str) -> bool| -> Result<Vec<PathBuf>, ImportError> {
            let listed = remote::open_folder(folder, Patience::Long)?.list_here();
            let listed = listed.map_err(|e| FileError::new("list", Path::new(folder), e))?;
            let is_input = |name: &str| !name.contains('/') && !name.starts_with(['.', '_']);
            let files = listed.iter().filter(|file| file.size > 0);
            let names = files.map(|file| file.name.as_str());
            let names = names.filter(|name| is_input(name) && wanted(name));
            Ok(names.map(|name| Path::new(folder).join(name)).collect())
        };
    let found = match remote::split_name(url) {
        Some((folder, pattern)) if is_pattern(Path::new(pattern)) => {
            let pattern: Vec<char> = pattern.chars().collect();
            within(folder, &|name| {
                matches(&pattern, &name.chars().collect::<Vec<_>>())
            })?
        }
        Some((folder, name)) if !url.ends_with('/') && remote::has_object(folder, name)? => {
            vec![PathBuf::from(url)]
        }
        _ => within(url.strip_suffix('/').unwrap_or(url), &|_| true)?,
    };
    match found.is_empty() {
        true => {
            let what = "there is no object of this name, and no object in a folder of this name or that matches it as a pattern";
            Err(ImportError::input(Path::new(url), what))
        }
        false => Ok(found),
    }
}

/// Lists the files in a folder by name. Files that begin with `.` or `_` are metadata of the programs that wrote the
/// others, and empty files are parts without edges; both are omitted.
fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, ImportError> {
    if let Some(edges) = ogb_edges(folder)? {
        return Ok(vec![edges]);
    }
    let mut found = Vec::new();
    for name in file_names(folder)? {
        let path = folder.join(&name);
        let metadata = fs::metadata(&path).map_err(|e| FileError::new("open", &path, e))?;
        if metadata.is_dir() {
            let what = format!(
                "it contains the folder `{name}`, but only files are imported; select files by a pattern, as in \
                 `{}`",
                folder.join("*/*.csv").display()
            );
            return Err(ImportError::input(folder, what));
        }
        if metadata.len() > 0 || !metadata.is_file() {
            found.push(path);
        }
    }
    if found.is_empty() {
        return Err(ImportError::input(folder, "it is a folder without edges"));
    }
    Ok(found)
}

/// Returns the file of edges if the folder has the raw files of a graph of OGB, whose other files are no edges.
fn ogb_edges(folder: &Path) -> Result<Option<PathBuf>, ImportError> {
    let file = |name: &str| {
        let paths = [format!("{name}.csv.gz"), format!("{name}.csv")];
        let mut paths = paths.into_iter().map(|name| folder.join(name));
        paths.find(|path| path.is_file())
    };
    let (Some(edges), Some(_)) = (file("edge"), file("num-node-list")) else {
        return Ok(None);
    };
    match file("edge_reltype") {
        None => Ok(Some(edges)),
        Some(relations) => {
            let what = format!(
                "its relations are in another file than its edges, {}; import it in Python, with the edges of \
                 `pbg_host.datasets.load`",
                relations.file_name().unwrap_or_default().to_string_lossy()
            );
            Err(ImportError::input(&edges, what))
        }
    }
}

/// Lists the names in a folder that do not begin with `.` or `_`, sorted.
fn file_names(folder: &Path) -> Result<Vec<String>, ImportError> {
    let failed = |e| FileError::new("open", folder, e);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = name.into_string().map_err(|name| {
            let shown = name.to_string_lossy();
            ImportError::input(
                folder,
                format!("its entry `{shown}` has a name that is not UTF-8"),
            )
        })?;
        if !name.starts_with(['.', '_']) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn is_pattern(path: &Path) -> bool {
    path.to_str()
        .is_some_and(|text| text.contains(['*', '?', '[']))
}

/// Lists the files that match a pattern, sorted. Within a name, `*` matches any characters, `?` one character, and
/// `[a-z]` one character of the range.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let name = component.as_os_str();
        if !matches!(component, Component::Normal(_)) || !is_pattern(Path::new(name)) {
            found.iter_mut().for_each(|path| path.push(name));
            continue;
        }
        let wanted: Vec<char> = name.to_string_lossy().chars().collect();
        let mut next = Vec::new();
        for folder in found {
            let shown = match folder.as_os_str().is_empty() {
                true => Path::new("."),
                false => &folder,
            };
            if !shown.is_dir() {
                continue;
            }
            for name in file_names(shown)? {
                if matches(&wanted, &name.chars().collect::<Vec<_>>()) {
                    next.push(folder.join(name));
                }
            }
        }
        found = next;
    }
    found.retain(|path| fs::metadata(path).is_ok_and(|f| f.is_file() && f.len() > 0));
    Ok(found)
}

/// Returns whether a name matches a pattern.
fn matches(pattern: &[char], name: &[char]) -> bool {
    // Position to retry from if the rest does not match: the last star then takes one more character.
    let mut retry = None;
    let (mut p, mut n) = (0, 0);
    loop {
        let step = match pattern.get(p) {
            Some('*') => {
                retry = Some((p + 1, n));
                p += 1;
                continue;
            }
            None if n == name.len() => return true,
            None => None,
            Some(_) => name.get(n).and_then(|&c| one(&pattern[p..], c)),
        };
        match (step, retry) {
            (Some(taken), _) => (p, n) = (p + taken, n + 1),
            (None, Some((after_star, at))) if at < name.len() => {
                retry = Some((after_star, at + 1));
                (p, n) = (after_star, at + 1);
            }
            (None, _) => return false,
        }
    }
}

/// Returns how many characters of the pattern match the character `c`, or `None` if they do not match it.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['[', rest @ ..] => {
            // A closing bracket in first position belongs to the set.
            let end = rest.iter().skip(1).position(|&c| c == ']')? + 1;
            let (set, negated) = match &rest[..end] {
                ['!' | '^', set @ ..] if !set.is_empty() => (set, true),
                set => (set, false),
            };
            let mut within = false;
            let mut at = 0;
            while at < set.len() {
                match set[at..] {
                    [from, '-', to, ..] => {
                        within |= (from..=to).contains(&c);
                        at += 3;
                    }
                    _ => {
                        within |= set[at] == c;
                        at += 1;
                    }
                }
            }
            (within != negated).then_some(end + 2)
        }
        [first, ..] => (*first == c).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, name: &str) -> bool {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        matches(&chars(pattern), &chars(name))
    }

    #[test]
    fn patterns() {
        for (pattern, name) in [
            ("*", ""),
            ("*.csv", "a.csv"),
            ("part-*-*.tsv", "part-0-1-2.tsv"),
            ("part-?.tsv", "part-ä.tsv"),
            ("part-[0-3x].tsv", "part-x.tsv"),
            ("part-[!0-3].tsv", "part-4.tsv"),
            ("a*b*c", "abbcbc"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("*.csv", "a.csv.gz"),
            ("part-?", "part-"),
            ("part-[0-3]", "part-4"),
            ("[", "["),
            ("a*b", "a"),
        ] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
        let many = "*a".repeat(50);
        assert!(!fits(&many, &"a".repeat(49)), "and it ends");
    }

    #[test]
    fn folders_and_patterns_stand_for_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, text) in [
            ("b.tsv", "x"),
            ("a.tsv", "x"),
            ("c.csv", ""),
            ("_SUCCESS", "x"),
            (".a.crc", "x"),
        ] {
            fs::write(at(name), text).unwrap();
        }
        assert_eq!(expand(folder.path()).unwrap(), [at("a.tsv"), at("b.tsv")]);
        assert_eq!(expand(&at("*.tsv")).unwrap(), [at("a.tsv"), at("b.tsv")]);
        let error = expand(&at("*.parquet")).unwrap_err().to_string();
        assert!(error.contains("matches it as a pattern"), "{error}");
        fs::create_dir(at("more")).unwrap();
        let error = expand(folder.path()).unwrap_err().to_string();
        assert!(error.contains("the folder `more`"), "{error}");
        fs::write(at("more/[1].tsv"), "x").unwrap();
        assert_eq!(expand(&at("*/*")).unwrap(), [at("more/[1].tsv")]);
        assert_eq!(expand(&at("more/[1].tsv")).unwrap(), [at("more/[1].tsv")]);
    }
}
