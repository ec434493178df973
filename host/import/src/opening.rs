//! Detection of the formats of all files of an import, before the first is read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::ImportError;
use super::block::{EdgeFormat, InputFile};
use super::detect::detected::DetectedFormat;
use super::detect::{self, UserOptions};
use super::inputs::InputPath;
use super::job::ImportJob;
use super::rdf::{PrefixTable, RdfOptions, TermNames};
use super::reading::FormatDescription;

/// File whose format is known, and the description of the format.
pub(super) type OpenedFile = (Arc<InputFile>, FormatDescription);

/// Detects the formats of the files of all edge sets.
///
/// # Errors
/// When a file cannot be read or understood, or files contradict each other.
pub(super) fn open_all<'a>(
    job: &'a ImportJob<'_>,
) -> Result<Vec<(&'a str, Vec<OpenedFile>)>, ImportError> {
    let mut sets = Vec::new();
    for (set, files) in &job.inputs.sets {
        let found = files.iter().map(|file| Ok((file, detect(job, file)?)));
        let found = found.collect::<Result<Vec<_>, ImportError>>()?;
        sets.push((set.as_str(), found));
    }
    check_options(job, sets.iter().flat_map(|(_, files)| files))?;
    let rules = TermRules::new(job, sets.iter().flat_map(|(_, files)| files))?;
    let mut opened = Vec::new();
    for (set, found) in sets {
        let files = found.into_iter().enumerate();
        let files = files.map(|(index, (file, found))| rules.open(job, file, index, found));
        let files: Vec<_> = files.collect();
        check_weights(set, &files)?;
        opened.push((set, files));
    }
    Ok(opened)
}

fn detect(job: &ImportJob<'_>, input: &InputPath) -> Result<DetectedFormat, ImportError> {
    let relation = job.relations.single_name();
    let said = UserOptions {
        columns: job.options.columns.as_ref(),
        text: &job.options.text,
        rdf: &job.options.rdf,
        relation: relation.as_deref(),
    };
    let found = detect::detect(input, said)?;
    if found.layout.rel.is_none() && relation.is_none() {
        let what = "it has no column of relations, and the configuration does not have exactly one relation, which its \
                    edges would then have: name the column with `--columns`, or leave one relation in `relations`";
        return Err(ImportError::input(&input.path, what));
    }
    Ok(found)
}

/// Checks that options for one kind of files are not given without such a file: they would have no effect.
fn check_options<'f>(
    job: &ImportJob<'_>,
    files: impl Iterator<Item = &'f (&'f InputPath, DetectedFormat)> + Clone,
) -> Result<(), ImportError> {
    let any = |is: fn(&EdgeFormat) -> bool| files.clone().any(|(_, found)| is(&found.format));
    let options = job.options;
    if let Some(header) = &options.text.header_file
        && !any(|format| matches!(format, EdgeFormat::Text(_)))
    {
        let what = format!(
            "`--header-file {}` names the columns of text files, and none of the files is one",
            header.display()
        );
        return Err(ImportError::Usage(what));
    }
    if options.rdf != RdfOptions::default() && !any(|format| matches!(format, EdgeFormat::Rdf(_))) {
        let what = "`--literals`, `--blank-nodes`, `--prefix` and `--file-prefixes` are for RDF files, and none of the \
                    files is one; leave them out, or name the syntax with `--separator ntriples|nquads|turtle`";
        return Err(ImportError::Usage(what.to_owned()));
    }
    Ok(())
}

fn check_weights(set: &str, inputs: &[OpenedFile]) -> Result<(), ImportError> {
    let weighted = |at: usize| inputs[at].0.layout.weight.is_some();
    match (1..inputs.len()).find(|&at| weighted(at) != weighted(0)) {
        None => Ok(()),
        Some(other) => {
            let what = format!("only some files of the edge set `{set}` have weights");
            Err(ImportError::input(&inputs[other].0.file.path, what))
        }
    }
}

/// Rules for the names of the terms of all RDF files. They share the prefixes, so that an IRI has one name.
struct TermRules<'a> {
    prefixes: Arc<PrefixTable>,
    /// Names of the files in the names of blank nodes.
    file_names: BTreeMap<&'a Path, String>,
}

impl<'a> TermRules<'a> {
    fn new<'f>(
        job: &ImportJob<'_>,
        files: impl Iterator<Item = &'f (&'a InputPath, DetectedFormat)>,
    ) -> Result<Self, ImportError>
    where
        'a: 'f,
    {
        let is_rdf =
            |(_, found): &&(&InputPath, DetectedFormat)| matches!(found.format, EdgeFormat::Rdf(_));
        let files: Vec<_> = files.filter(is_rdf).collect();
        let declared = files
            .iter()
            .map(|(file, found)| (file.path.as_path(), &found.prefixes[..]));
        let declared: Vec<_> = declared.collect();
        let paths = files.iter().map(|(file, _)| file.path.as_path());
        Ok(Self {
            prefixes: Arc::new(PrefixTable::gather(&job.options.rdf, &declared)?),
            file_names: short_names(paths.collect()),
        })
    }

    fn open(
        &self,
        job: &ImportJob<'_>,
        input: &InputPath,
        index: usize,
        found: DetectedFormat,
    ) -> OpenedFile {
        let mut reading = found.reading;
        let mut terms = TermNames::default();
        if let EdgeFormat::Rdf(format) = found.format {
            let name = self.file_names.get(input.path.as_path());
            terms = TermNames::new(
                &job.options.rdf,
                &self.prefixes,
                name.map_or("", String::as_str),
            );
            reading.notes = terms.notes(format.syntax);
            let names = reading.first.iter_mut().flatten();
            names.for_each(|name| *name = terms.rename(name));
        }
        let file = InputFile {
            file: input.clone(),
            index,
            format: found.format,
            layout: found.layout,
            terms,
            on_bad_line: job.options.on_bad_line,
        };
        (Arc::new(file), reading)
    }
}

/// Returns the shortest ends of the paths, in whole components, that tell them apart.
fn short_names(paths: BTreeSet<&Path>) -> BTreeMap<&Path, String> {
    let longest = paths.iter().map(|path| path.components().count()).max();
    let longest = longest.unwrap_or(0);
    let mut named = BTreeMap::new();
    let mut unnamed: Vec<&Path> = paths.into_iter().collect();
    for length in 1..=longest {
        let mut by_name: BTreeMap<String, Vec<&Path>> = BTreeMap::new();
        for path in unnamed.drain(..) {
            let skipped = path.components().count().saturating_sub(length);
            let end: std::path::PathBuf = path.components().skip(skipped).collect();
            let name = end.to_string_lossy().into_owned();
            by_name.entry(name).or_default().push(path);
        }
        for (name, same) in by_name {
            match same[..] {
                [path] => drop(named.insert(path, name)),
                _ if length == longest => {
                    named.extend(same.iter().map(|&path| (path, name.clone())));
                }
                _ => unnamed.extend(same),
            }
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_tell_files_apart() {
        let paths = ["/x/a/1.nt", "/x/b/1.nt", "/y/b/1.nt", "/x/b/2.nt"].map(Path::new);
        let names = short_names(paths.into());
        let names: Vec<&str> = paths.iter().map(|path| names[path].as_str()).collect();
        assert_eq!(names, ["a/1.nt", "x/b/1.nt", "y/b/1.nt", "2.nt"]);
    }
}
