//! Pages of the site: those in the table of contents and the files that they link to. They keep their folders of the
//! repository, so that links between them need not change.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

use super::links;

/// Path of the table of contents.
pub(super) const CONTENTS: &str = "docs/SUMMARY.md";

/// Copies the pages and the files that they link to from `root` to `source`.
pub(super) fn collect(root: &Path, source: &Path) -> Result<()> {
    let contents = read(&root.join(CONTENTS))?;
    save(&source.join("SUMMARY.md"), as_page(&contents, "docs"))?;
    let mut copied = BTreeSet::new();
    let mut left = leads_to(&contents, Path::new(CONTENTS));
    while let Some(path) = left.pop() {
        if !copied.insert(path.clone()) {
            continue;
        }
        let target = source.join(in_site(&path));
        if path.extension().is_some_and(|ending| ending == "md") {
            let text = read(&root.join(&path))?;
            left.extend(leads_to(&text, &path));
            save(&target, as_page(&text, ""))?;
        } else {
            let bytes = fs::read(root.join(&path));
            let bytes = bytes.with_context(|| format!("cannot read {}", path.display()))?;
            save(&target, bytes)?;
        }
    }
    Ok(())
}

/// Writes a file, creating its folder.
pub(super) fn save(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder
        .and_then(|()| fs::write(path, bytes))
        .with_context(|| format!("cannot write {}", path.display()))
}

pub(super) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Returns the files to which the page at `path` links.
pub(super) fn leads_to(text: &str, path: &Path) -> Vec<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let links = links::of(text).into_iter();
    let files = links.filter(|link| !link.path.is_empty());
    files.map(|link| normal(&folder.join(link.path))).collect()
}

/// Rewrites the links of a page for the site. If `folder` is not empty, links relative to it become relative to the
/// repository's root.
fn as_page(text: &str, folder: &str) -> String {
    let mut page = text.to_owned();
    for link in links::of(text).into_iter().rev() {
        let path = match folder {
            "" => PathBuf::from(&link.path),
            folder => normal(&Path::new(folder).join(&link.path)),
        };
        page.replace_range(link.at, &in_site(&path).display().to_string());
    }
    page
}

/// Returns the path of a file in the site: `README.md` becomes the index of its folder.
fn in_site(path: &Path) -> PathBuf {
    match path.file_name() {
        Some(name) if name == "README.md" => path.with_file_name("index.md"),
        _ => path.to_owned(),
    }
}

/// Removes `.` and `..` from a path where possible.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if normal.file_name().is_some() => {
                normal.pop();
            }
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    /// Every page in Markdown below `folder` of the repository.
    fn below(folder: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let entry = entry.unwrap();
            let path = Path::new(folder).join(entry.file_name());
            if entry.path().is_dir() {
                found.extend(below(&path.display().to_string()));
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path);
            }
        }
        found
    }

    #[test]
    fn the_table_of_contents_has_every_page_once() {
        let listed = leads_to(&read(&root().join(CONTENTS)).unwrap(), Path::new(CONTENTS));
        let once: BTreeSet<PathBuf> = listed.iter().cloned().collect();
        assert_eq!(once.len(), listed.len(), "a page is listed twice");
        for page in below("docs") {
            let named = once.contains(&page) || page == Path::new(CONTENTS);
            assert!(named, "{CONTENTS} lacks {}", page.display());
        }
    }

    #[test]
    fn links_lead_to_what_there_is() {
        let mut pages = [below("docs"), below("examples")].concat();
        pages.extend(["README.md", "CHANGELOG.md"].map(PathBuf::from));
        for page in pages {
            let text = read(&root().join(&page)).unwrap();
            for link in links::of(&text) {
                let folder = page.parent().unwrap();
                let target = match link.path.as_str() {
                    "" => page.clone(),
                    path => normal(&folder.join(path)),
                };
                let (from, to) = (page.display(), target.display());
                // The site shows the table of contents next to every page, but has no page of it.
                assert_ne!(target, Path::new(CONTENTS), "{from} links to {to}");
                assert!(root().join(&target).is_file(), "{from} links to {to}");
                if let Some(anchor) = link.anchor {
                    let text = read(&root().join(&target)).unwrap();
                    let has = links::anchors(&text).contains(&anchor);
                    assert!(has, "{from} links to {to}, which has no heading #{anchor}");
                }
            }
        }
    }

    #[test]
    fn the_site_has_the_folders_of_the_repository() {
        let place = tempfile::tempdir().unwrap();
        collect(&root(), place.path()).unwrap();
        let contents = read(&place.path().join("SUMMARY.md")).unwrap();
        assert!(contents.contains("[pbg-host](index.md)") && contents.contains("(docs/config.md)"));
        let first = read(&place.path().join("index.md")).unwrap();
        assert!(first.contains("](docs/plugins/index.md)"));
        for file in ["docs/images/overview.svg", "examples/python/search.py"] {
            assert!(place.path().join(file).is_file(), "{file}");
        }
    }
}
