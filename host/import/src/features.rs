//! Import of the features of featurized entity types.

use std::io::{BufRead, BufReader, Read};

use super::assign::{Assignment, DROPPED};
use super::block::MAX_NAME;
use super::inputs::InputPath;
use super::intern::Interner;
use super::job::ImportJob;
use super::shorten::shorten;
use super::source::TextSource;
use super::{ImportError, ImportReport, assign};
use pbg_dataset::Dataset;
use pbg_dataset::manifest::{DatasetManifest, FeatureInfo};
use pbg_dataset::write;
use pbg_files::FileError;

/// Reads the features of the entity type with this index, if it is featurized, and writes the two feature files.
pub(super) fn import(
    job: &ImportJob<'_>,
    index: usize,
    places: &Assignment,
    manifest: &mut DatasetManifest,
    report: &mut ImportReport,
) -> Result<Option<FeatureInfo>, ImportError> {
    let names = &job.types.names[index];
    let entity_type = &names.entity_type;
    let Some((_, file)) = job.inputs.features.iter().find(|(of, _)| of == entity_type) else {
        return Ok(None);
    };
    let mut bags = Bags::new(places.order().len());
    let known = bags.keep(job.old, entity_type)?;
    report.unused_features += bags.read(file, &names.interner, places)?;
    if let Some(missing) = bags.ranges.iter().position(|range| range.1 == 0) {
        let names = names.interner.read();
        let name = shorten(names.name(places.order()[missing]));
        let what = format!("it has no features of `{name}`, which occurs in the edges");
        return Err(ImportError::input(&file.path, what));
    }
    let count = known.len() as u32;
    let placed = assign::place(
        &bags.interner,
        &known,
        &[count],
        1,
        job.options.seed,
        "features",
    )?;
    let mut info = FeatureInfo {
        file: format!("features_{entity_type}.arrow"),
        names_file: format!("feature_names_{entity_type}.arrow"),
        count: placed.order().len() as u32,
        names_crc32: None,
    };
    for id in &mut bags.ids {
        *id = placed.global(*id);
    }
    let lists = bags
        .ranges
        .iter()
        .map(|&(start, end)| &bags.ids[start..end]);
    let summary = write::features(&job.folder.join(&info.file), lists)?;
    manifest.files.insert(info.file.clone(), summary);
    let feature_names = bags.interner.read();
    let listed = placed.order().iter().map(|&id| feature_names.name(id));
    let (summary, sum) = write::names(&job.folder.join(&info.names_file), listed)?;
    info.names_crc32 = Some(sum);
    manifest.files.insert(info.names_file.clone(), summary);
    Ok(Some(info))
}

/// Features of every entity, by global number.
struct Bags {
    interner: Interner,
    /// Range of each entity's features in `ids`; an end of 0 marks an entity without features.
    ranges: Vec<(usize, usize)>,
    ids: Vec<u32>,
}

/// Maximum length of a line in bytes. An entity may have many features, so it is large.
const MAX_LINE: u64 = 16 << 20;

impl Bags {
    fn new(entities: usize) -> Self {
        Self {
            interner: Interner::new(),
            ranges: vec![(0, 0); entities],
            ids: Vec::new(),
        }
    }

    /// Adds the features of the previous dataset for `entity_type`, if it has any. Returns their numbers.
    fn keep(&mut self, old: Option<&Dataset>, entity_type: &str) -> Result<Vec<u32>, ImportError> {
        let mut known = Vec::new();
        if let Some(old) = old.filter(|old| old.manifest().entities.contains_key(entity_type)) {
            for name in old.features(entity_type)?.names() {
                known.push(self.interner.add(name.as_bytes())?);
            }
        }
        Ok(known)
    }

    /// Reads lines of a name, a tab, and features separated by tabs or spaces. Returns the number of entities without
    /// edges.
    fn read(
        &mut self,
        file: &InputPath,
        names: &Interner,
        places: &Assignment,
    ) -> Result<u64, ImportError> {
        let path = &file.path;
        let mut reader = BufReader::new(TextSource::open(file)?.reader);
        let mut unused = 0;
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
            if read.map_err(|e| FileError::new("read", path, e))? == 0 {
                break;
            }
            let wrong = |what: String| ImportError::Line {
                path: path.clone(),
                line: number,
                what,
            };
            if line.len() as u64 == MAX_LINE {
                return Err(wrong(format!("the line is longer than {MAX_LINE} bytes")));
            }
            let text = std::str::from_utf8(&line);
            let text = text.map_err(|_| wrong("it is not UTF-8 text".to_owned()))?;
            let text = text.trim_end_matches(['\n', '\r']);
            if !text.is_empty() && !self.add(text, names, places).map_err(wrong)? {
                unused += 1;
            }
        }
        Ok(unused)
    }

    fn add(&mut self, line: &str, names: &Interner, places: &Assignment) -> Result<bool, String> {
        let Some((name, features)) = line.split_once('\t') else {
            return Err("the line must have an entity, a tab and its features".to_owned());
        };
        let global = names
            .find(name.as_bytes())
            .map_or(DROPPED, |id| places.global(id));
        if global == DROPPED {
            return Ok(false);
        }
        let range = &mut self.ranges[global as usize];
        if range.1 > 0 {
            return Err(format!(
                "the features of `{}` are given twice",
                shorten(name)
            ));
        }
        let start = self.ids.len();
        for feature in features
            .split(['\t', ' '])
            .filter(|feature| !feature.is_empty())
        {
            if feature.len() > MAX_NAME {
                return Err(format!("a feature is longer than {MAX_NAME} bytes"));
            }
            self.ids.push(
                self.interner
                    .count_one(feature.as_bytes())
                    .map_err(|e| e.to_string())?,
            );
        }
        if self.ids.len() == start {
            return Err(format!("`{}` has no features", shorten(name)));
        }
        *range = (start, self.ids.len());
        Ok(true)
    }
}
