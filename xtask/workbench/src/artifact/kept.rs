//! What is kept in the repository, compared with what is made or replaced by it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::table::{CellRule, MarkdownTable};

/// What is kept in the repository.
pub(super) struct KeptResults {
    /// Folder of the repository.
    pub(super) root: PathBuf,
    /// Whether to replace it.
    pub(super) record: bool,
    pub(super) verdicts: Verdicts,
}

/// Results of all comparisons.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    lines: Vec<String>,
    differing: usize,
    failed: Vec<String>,
}

impl Verdicts {
    /// Returns the number of tables and files that differ by more than their tolerance.
    pub(super) fn differing(&self) -> usize {
        self.differing
    }

    /// Returns the names of the parts that could not be made.
    pub(super) fn failed(&self) -> &[String] {
        &self.failed
    }

    /// Adds a remark that is no difference.
    pub(super) fn note(&mut self, text: &str) {
        self.lines.push(text.to_owned());
    }

    /// Writes the verdicts to a file. If that fails, a verdict says so, since they are printed as well.
    pub(super) fn store(&mut self, path: &Path) {
        if let Err(error) = fs::write(path, self.to_string()) {
            let line = format!("warning: cannot write {}: {error}", path.display());
            if !self.lines.contains(&line) {
                self.lines.push(line);
            }
        }
    }

    fn add(&mut self, what: &str, cells: &str, differences: &[String], differs: bool) {
        self.differing += usize::from(differs);
        let verdict = match (differs, differences.is_empty()) {
            (true, _) => "DIFFERS",
            (false, false) => "within tolerance",
            (false, true) => "the same",
        };
        self.lines.push(format!("{what}: {cells}, {verdict}"));
        self.lines
            .extend(differences.iter().map(|line| format!("    {line}")));
    }
}

impl fmt::Display for Verdicts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines
            .iter()
            .try_for_each(|line| writeln!(out, "{line}"))
    }
}

impl KeptResults {
    /// Makes a part. If it fails, the verdicts about what came before stay, and the other parts can be made.
    pub(super) fn part(&mut self, name: &str, make: impl FnOnce(&mut Self) -> Result<()>) {
        if let Err(error) = make(self) {
            let verdicts = &mut self.verdicts;
            verdicts.failed.push(name.to_owned());
            verdicts.lines.push(format!("{name}: FAILED"));
            let causes = error.chain().map(ToString::to_string);
            let lines: Vec<String> = causes
                .flat_map(|cause| lines(&cause))
                .map(|line| format!("    {line}"))
                .collect();
            verdicts.lines.extend(lines);
        }
    }

    /// Compares a table with the one of a page that has the same header, or replaces that one.
    pub(super) fn table(
        &mut self,
        page: &str,
        made: &MarkdownTable,
        rule: &dyn Fn(&str) -> CellRule,
    ) -> Result<()> {
        let path = self.root.join(page);
        let text = read(&path)?;
        let columns = made.head.join(" | ");
        let lacks = || format!("{page} has no table with the columns {columns}");
        let kept = made.kept_in(&text).with_context(lacks)?;
        let (cells, differences) = made.compare(&kept, rule);
        let lines: Vec<String> = differences
            .iter()
            .map(|d| {
                let verdict = if d.allowed { "" } else { "  <- DIFFERS" };
                format!("{}: kept {}, made {}{verdict}", d.place, d.kept, d.made)
            })
            .collect();
        let differs = differences.iter().any(|difference| !difference.allowed);
        let what = format!(
            "{page}, table of {}",
            made.head[0..made.head.len().min(3)].join(", ")
        );
        self.verdicts
            .add(&what, &format!("{cells} cells"), &lines, differs);
        if self.record && !differences.is_empty() {
            write(&path, &made.replaced_in(&text).with_context(lacks)?)?;
        }
        Ok(())
    }

    /// Checks that a page has a sentence that follows from what is made.
    pub(super) fn sentence(&mut self, page: &str, sentence: &str) -> Result<()> {
        let lacks = !read(&self.root.join(page))?.contains(sentence);
        let lines = Vec::from_iter(lacks.then(|| format!("only made: {sentence}")));
        self.verdicts.add(page, "1 sentence", &lines, lacks);
        Ok(())
    }

    /// Compares a file with the kept one after `essence` has taken what may not differ from both, or replaces that one.
    pub(super) fn file(
        &mut self,
        name: &str,
        made: &str,
        essence: &dyn Fn(&str) -> Vec<String>,
    ) -> Result<()> {
        let path = self.root.join(name);
        let kept = match path.exists() {
            true => read(&path)?,
            false => String::new(),
        };
        let (before, now) = (essence(&kept), essence(made));
        let missing = before.iter().filter(|line| !now.contains(line));
        let new = now.iter().filter(|line| !before.contains(line));
        let mut lines: Vec<String> = missing
            .map(|line| format!("only kept: {}", shortened(line)))
            .chain(new.map(|line| format!("only made: {}", shortened(line))))
            .collect();
        if lines.len() > SHOWN {
            let more = lines.len() - SHOWN;
            lines.truncate(SHOWN);
            lines.push(format!("and {more} more"));
        }
        let differs = before != now;
        self.verdicts
            .add(name, &format!("{} parts", now.len()), &lines, differs);
        if self.record && kept != made {
            write(&path, made)?;
        }
        Ok(())
    }
}

/// Maximum number of differences of a file that are shown.
const SHOWN: usize = 8;

/// Returns the beginning of a part of a file.
fn shortened(part: &str) -> String {
    part.chars().take(120).collect()
}

/// Returns all lines of a file.
pub(super) fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// Returns the texts of a figure that are no numbers: its axes, and the names of its curves.
pub(super) fn labels(svg: &str) -> Vec<String> {
    let texts = svg.split("<text").skip(1).filter_map(|part| {
        let (_, rest) = part.split_once('>')?;
        let (text, _) = rest.split_once("</text")?;
        Some(text.to_owned())
    });
    texts
        .filter(|text| text.chars().any(char::is_alphabetic) && !is_number(text))
        .collect()
}

/// Returns whether a text is a number, which may have a prefix of a unit, such as `500M`.
fn is_number(text: &str) -> bool {
    let digits = text.trim_end_matches(|c: char| "kKMGTµm".contains(c));
    digits.trim_start_matches('−').parse::<f64>().is_ok()
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_file_is_told_and_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = KeptResults {
            root: folder.path().to_owned(),
            record: true,
            verdicts: Verdicts::default(),
        };
        kept.file("plans", "a beta\nb optimal\n", &lines).unwrap();
        assert_eq!(kept.verdicts.differing(), 1);
        (kept.record, kept.verdicts) = (false, Verdicts::default());
        kept.file("plans", "a beta\nb optimal\n", &lines).unwrap();
        assert_eq!(kept.verdicts.differing(), 0);
        kept.file("plans", "a beta\nc optimal\n", &lines).unwrap();
        assert_eq!(kept.verdicts.differing(), 1);
        let shown = kept.verdicts.to_string();
        assert!(
            shown.contains("only kept: b optimal") && shown.contains("only made: c optimal"),
            "{shown}"
        );
    }

    #[test]
    fn a_part_that_fails_takes_no_verdicts_with_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("plans"), "a\n").unwrap();
        let mut kept = KeptResults {
            root: folder.path().to_owned(),
            record: false,
            verdicts: Verdicts::default(),
        };
        kept.part("first", |kept| {
            kept.file("plans", "b\n", &lines)?;
            anyhow::bail!("the disk is full")
        });
        kept.part("second", |kept| kept.file("plans", "a\n", &lines));
        assert_eq!(kept.verdicts.failed(), ["first"]);
        let shown = kept.verdicts.to_string();
        for line in [
            "plans: 1 parts, DIFFERS",
            "only made: b",
            "first: FAILED",
            "the disk is full",
            "plans: 1 parts, the same",
        ] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
    }

    #[test]
    fn verdicts_that_cannot_be_written_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut verdicts = Verdicts::default();
        verdicts.note("a verdict");
        let file = folder.path().join("verdicts.txt");
        verdicts.store(&file);
        assert_eq!(fs::read_to_string(&file).unwrap(), "a verdict\n");
        for _ in 0..2 {
            verdicts.store(&folder.path().join("gone/verdicts.txt"));
        }
        let shown = verdicts.to_string();
        assert!(
            shown.starts_with("a verdict\nwarning: cannot write "),
            "{shown}"
        );
        assert_eq!(shown.lines().count(), 2);
    }

    #[test]
    fn numbers_are_no_labels_of_a_figure() {
        let svg = "<svg><text x=\"1\">beta</text><text>500M</text><text>0.04</text><text y=\"2\">seconds of training</text></svg>";
        assert_eq!(labels(svg), ["beta", "seconds of training"]);
    }
}
