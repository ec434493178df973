//! Worker of an import: converts a block of text to records of provisional ids.

use super::block::{BadLines, Content, EdgeRows, InputBlock, LineError, ParsedBlock};
use super::intern::{Interner, SHARDS};
use super::job::ImportJob;
use super::on_disk::ShardDivider;
use super::rdf;
use super::relations::{RelationCache, ResolvedRelation};
use super::text::{self, ParseOptions};
use super::types::Types;
use super::{ImportError, NameStorage};

/// Worker with buffers that it reuses for every block.
pub(super) struct ParseWorker<'a> {
    types: &'a Types,
    single: Option<ResolvedRelation>,
    relations: RelationCache<'a>,
    /// Distributor of names over shards, if names are on disk.
    scatter: Option<ShardDivider>,
    rows: EdgeRows,
    resolved: Vec<ResolvedRelation>,
    /// Hash of every name: left and right sides alternate.
    hashes: Vec<u64>,
    /// Group (type and shard) of every name.
    groups: Vec<u32>,
    /// Names in the order of their groups.
    order: Vec<u32>,
    ids: Vec<u32>,
}

impl<'a> ParseWorker<'a> {
    pub(super) fn new(job: &'a ImportJob<'a>) -> Self {
        Self {
            types: job.types,
            single: job.relations.single(),
            relations: RelationCache::new(job.relations),
            scatter: (job.name_storage == NameStorage::Files).then(|| ShardDivider::new(job)),
            rows: EdgeRows::default(),
            resolved: Vec::new(),
            hashes: Vec::new(),
            groups: Vec::new(),
            order: Vec::new(),
            ids: Vec::new(),
        }
    }

    /// Parses a block and numbers its names.
    pub(super) fn process(&mut self, block: InputBlock) -> Result<ParsedBlock, ImportError> {
        let mut bad = BadLines::default();
        let (buffer, lines, mut wrong) = match block.content {
            Content::Text(buffer, format) => {
                let how = ParseOptions::of(&block.file, format);
                match text::parse(&buffer, &how, &mut self.rows, &mut bad) {
                    Ok(lines) => (buffer, lines, None),
                    Err(wrong) => (buffer, 0, Some(wrong)),
                }
            }
            Content::Triples(mut buffer, syntax) => {
                let (file, rows) = (&block.file, &mut self.rows);
                match rdf::parse_lines(&mut buffer, syntax, file, rows, &mut bad) {
                    Ok(lines) => (buffer, lines, None),
                    Err(wrong) => (buffer, 0, Some(wrong)),
                }
            }
            Content::EdgeRows {
                buffer,
                rows,
                lines,
                bad: skipped,
                wrong,
            } => {
                self.rows = rows;
                bad = skipped;
                (buffer, lines, wrong)
            }
        };
        let (mut records, mut names) = (Vec::new(), None);
        if wrong.is_none() {
            wrong = self.resolve_relations(&buffer);
        }
        match &mut self.scatter {
            _ if wrong.is_some() => {}
            Some(scatter) => {
                names = Some(scatter.divide(&buffer, &self.rows, &self.resolved, &mut records));
            }
            None => {
                self.number_names(&buffer)?;
                self.write_records(&mut records);
            }
        }
        let edges = self.rows.lhs.len() as u64;
        Ok(ParsedBlock {
            file: block.file,
            buffer,
            records,
            names,
            edges,
            lines,
            disk_bytes: block.disk_bytes,
            bad,
            wrong,
        })
    }

    fn resolve_relations(&mut self, buffer: &[u8]) -> Option<LineError> {
        self.resolved.clear();
        if self.rows.rel.is_empty() {
            let single = self.single.unwrap_or_default();
            self.resolved.resize(self.rows.lhs.len(), single);
            return None;
        }
        for (row, span) in self.rows.rel.iter().enumerate() {
            match self.relations.resolve(span.of(buffer)) {
                Ok(resolved) => self.resolved.push(resolved),
                Err(what) => {
                    return Some(LineError {
                        line: self.rows.line(row),
                        what,
                    });
                }
            }
        }
        None
    }

    /// Determines the numbers of all names. They are looked up shard by shard, so that one lock serves many names, and
    /// the accessed part of the table fits the cache better.
    fn number_names(&mut self, buffer: &[u8]) -> Result<(), ImportError> {
        let Self {
            types,
            rows,
            resolved,
            hashes,
            groups,
            order,
            ids,
            ..
        } = self;
        hashes.clear();
        groups.clear();
        let mut ends = vec![0_u32; types.names.len() * SHARDS + 1];
        for ((lhs, rhs), relation) in rows.lhs.iter().zip(&rows.rhs).zip(&*resolved) {
            for (span, of_type) in [(lhs, relation.lhs), (rhs, relation.rhs)] {
                let hash = types.names[of_type as usize].interner.hash(span.of(buffer));
                let group = of_type * SHARDS as u32 + Interner::shard_of(hash) as u32;
                ends[group as usize + 1] += 1;
                hashes.push(hash);
                groups.push(group);
            }
        }
        for group in 1..ends.len() {
            ends[group] += ends[group - 1];
        }
        let starts = ends.clone();
        order.resize(groups.len(), 0);
        for (name, &group) in groups.iter().enumerate() {
            let next = &mut ends[group as usize];
            order[*next as usize] = name as u32;
            *next += 1;
        }
        ids.resize(groups.len(), 0);
        for group in 0..starts.len() - 1 {
            let members = &order[starts[group] as usize..starts[group + 1] as usize];
            if members.is_empty() {
                continue;
            }
            let name_of = |name: u32| {
                let row = name as usize / 2;
                let span = if name.is_multiple_of(2) {
                    rows.lhs[row]
                } else {
                    rows.rhs[row]
                };
                span.of(buffer)
            };
            let interner = &types.names[group / SHARDS].interner;
            interner.count_all(group % SHARDS, members, hashes, name_of, ids)?;
        }
        Ok(())
    }

    fn write_records(&self, records: &mut Vec<u8>) {
        records.reserve(self.resolved.len() * 16);
        for (row, (pair, relation)) in self.ids.chunks_exact(2).zip(&self.resolved).enumerate() {
            records.extend_from_slice(&pair[0].to_le_bytes());
            records.extend_from_slice(&relation.id.to_le_bytes());
            records.extend_from_slice(&pair[1].to_le_bytes());
            if let Some(weight) = self.rows.weight.get(row) {
                records.extend_from_slice(&weight.to_le_bytes());
            }
        }
    }
}
