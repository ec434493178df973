//! Reading pipeline: one reader, several workers, and a collector that restores the order.
//!
//! A fixed number of buffers circulates between them. This bounds the memory, and also how far the fastest worker can
//! run ahead of the slowest.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::block::{
    BLOCK_BYTES, Content, EdgeFormat, InputBlock, InputFile, LineError, ParsedBlock, Sequenced,
};
use super::job::ImportJob;
use super::on_disk::Shards;
use super::opening;
use super::progress::report_progress;
use super::rdf::{self, RdfSyntax};
use super::reading;
use super::report::SkippedLines;
use super::source::TextSource;
use super::spill::Spill;
use super::table::{self, Sink};
use super::worker::ParseWorker;
use super::{ImportError, ImportProgress, Progress, csv};
use pbg_files::{ChecksummedFile, FileError};

/// Reads all sets. Edges are written to one spill file per set; names are written to `shards`, if given. Also returns
/// the skipped lines of each set.
pub(super) fn read_all(
    job: &ImportJob<'_>,
    mut shards: Option<&mut Shards>,
    progress: &mut Progress<'_>,
) -> Result<Vec<(Spill, SkippedLines)>, ImportError> {
    let mut inputs = Vec::new();
    for (set, opened) in opening::open_all(job)? {
        for what in reading::lines(&opened, job.relations.single_name().as_deref()) {
            report_progress(progress, ImportProgress::ReadAs { what })?;
        }
        let opened: Vec<_> = opened.into_iter().map(|(file, _)| file).collect();
        inputs.push((set, opened));
    }
    let mut meter = Meter {
        progress,
        bytes: 0,
        total_bytes: job.inputs.bytes(),
        edges: 0,
    };
    let read = inputs.into_iter().map(|(set, opened)| {
        let shards = shards.as_deref_mut();
        read_set(job, set, &opened, shards, &mut meter)
    });
    read.collect()
}

struct Meter<'a, 'p> {
    progress: &'a mut Progress<'p>,
    bytes: u64,
    total_bytes: u64,
    edges: u64,
}

fn read_set(
    job: &ImportJob<'_>,
    set: &str,
    inputs: &[Arc<InputFile>],
    shards: Option<&mut Shards>,
    meter: &mut Meter<'_, '_>,
) -> Result<(Spill, SkippedLines), ImportError> {
    let path = job.folder.join(format!("edges_{set}.spill"));
    let threads = job.memory.reading_threads();
    let (free_in, free_out) = channel();
    for _ in 0..job.memory.blocks() {
        let _ = free_in.send(Vec::new());
    }
    let (block_in, block_out) = channel();
    let (done_in, done_out) = channel();
    let block_out = Mutex::new(block_out);
    let (edges, skipped) = std::thread::scope(|scope| {
        let reader = Reader {
            blocks: block_in,
            free: free_out,
            number: 0,
        };
        scope.spawn(move || reader.run(inputs));
        for _ in 0..threads {
            let (blocks, done) = (&block_out, done_in.clone());
            scope.spawn(move || work(job, blocks, &done));
        }
        drop(done_in);
        let collector = Collector {
            job,
            set,
            inputs,
            free: free_in,
            file: ChecksummedFile::create(&path)?,
            shards,
            waiting: BTreeMap::new(),
            next: 0,
            lines: inputs.first().map_or(0, |file| file.preamble()),
            current: 0,
            edges: vec![0; inputs.len()],
            literals: vec![0; inputs.len()],
            skipped: SkippedLines::default(),
        };
        collector.run(&done_out, meter)
        // Returning drops both channel ends of the collector, so reader and workers end too.
    })?;
    let has_weight = inputs[0].layout.weight.is_some();
    Ok((Spill::open(&path, set, edges, has_weight)?, skipped))
}

fn work(
    job: &ImportJob<'_>,
    blocks: &Mutex<Receiver<Sequenced<InputBlock>>>,
    done: &Sender<Sequenced<ParsedBlock>>,
) {
    let mut worker = ParseWorker::new(job);
    loop {
        let next = blocks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Sequenced { number, item }) = next else {
            return;
        };
        let item = item.and_then(|block| worker.process(block));
        if done.send(Sequenced { number, item }).is_err() {
            return;
        }
    }
}

/// Reader that divides files into blocks.
struct Reader {
    blocks: Sender<Sequenced<InputBlock>>,
    free: Receiver<Vec<u8>>,
    number: u64,
}

impl Reader {
    fn run(mut self, inputs: &[Arc<InputFile>]) {
        for file in inputs {
            let mut sink = FileSink {
                reader: &mut self,
                file,
            };
            let result = match file.format {
                EdgeFormat::Parquet => table::read_parquet(file, &mut sink),
                EdgeFormat::Rdf(format) => match format.syntax {
                    RdfSyntax::Turtle => rdf::read_turtle(file, format, &mut sink),
                    syntax => read_lines(file, &mut sink, |text| Content::Triples(text, syntax)),
                },
                EdgeFormat::Text(format) => match format.separator.quotable() {
                    Some(delimiter) => csv::read(file, format, delimiter, &mut sink),
                    None => read_lines(file, &mut sink, |text| Content::Text(text, format)),
                },
            };
            if let Err(error) = result {
                self.send(Err(error));
                return;
            }
        }
    }

    fn send(&mut self, item: Result<InputBlock, ImportError>) -> bool {
        let number = self.number;
        self.number += 1;
        self.blocks.send(Sequenced { number, item }).is_ok()
    }
}

struct FileSink<'r> {
    reader: &'r mut Reader,
    file: &'r Arc<InputFile>,
}

impl Sink for FileSink<'_> {
    fn buffer(&mut self) -> Option<Vec<u8>> {
        let mut buffer = self.reader.free.recv().ok()?;
        buffer.clear();
        Some(buffer)
    }

    fn take(&mut self, content: Content, disk_bytes: u64) -> bool {
        self.reader.send(Ok(InputBlock {
            file: Arc::clone(self.file),
            content,
            disk_bytes,
        }))
    }
}

/// Reads text in blocks of whole lines.
fn read_lines(
    file: &InputFile,
    sink: &mut dyn Sink,
    content: impl Fn(Vec<u8>) -> Content,
) -> Result<(), ImportError> {
    let TextSource {
        mut reader,
        disk_bytes,
    } = TextSource::open_behind(&file.file, file.preamble())?;
    let mut rest = Vec::new();
    let mut told = 0;
    loop {
        let Some(mut buffer) = sink.buffer() else {
            return Ok(());
        };
        buffer.append(&mut rest);
        let wanted = (BLOCK_BYTES - buffer.len()) as u64;
        let read = reader.by_ref().take(wanted).read_to_end(&mut buffer);
        let read = read.map_err(|e| FileError::new("read", &file.file.path, e))?;
        let at_end = (read as u64) < wanted;
        if at_end {
            if buffer.last().is_some_and(|&byte| byte != b'\n') {
                buffer.push(b'\n');
            }
        } else if let Some(newline) = memchr::memrchr(b'\n', &buffer) {
            rest.extend_from_slice(&buffer[newline + 1..]);
            buffer.truncate(newline + 1);
        }
        let bytes = disk_bytes.load(std::sync::atomic::Ordering::Relaxed);
        if !sink.take(content(buffer), bytes - told) || at_end {
            return Ok(());
        }
        told = bytes;
    }
}

/// Collector that writes records in the order of the files.
struct Collector<'a> {
    job: &'a ImportJob<'a>,
    set: &'a str,
    inputs: &'a [Arc<InputFile>],
    free: Sender<Vec<u8>>,
    file: ChecksummedFile,
    /// Files of names, if names are on disk.
    shards: Option<&'a mut Shards>,
    waiting: BTreeMap<u64, Result<ParsedBlock, ImportError>>,
    next: u64,
    /// Number of lines of the current file before the next block.
    lines: u64,
    current: usize,
    /// Number of edges of each file.
    edges: Vec<u64>,
    /// Number of triples of each file that were skipped because their object is a literal.
    literals: Vec<u64>,
    skipped: SkippedLines,
}

impl Collector<'_> {
    fn run(
        mut self,
        done: &Receiver<Sequenced<ParsedBlock>>,
        meter: &mut Meter<'_, '_>,
    ) -> Result<(u64, SkippedLines), ImportError> {
        for Sequenced { number, item } in done {
            self.waiting.insert(number, item);
            while let Some(item) = self.waiting.remove(&self.next) {
                self.next += 1;
                self.take(item?, meter)?;
            }
        }
        if let Some(empty) = self.edges.iter().position(|&edges| edges == 0) {
            let path = &self.inputs[empty].file.path;
            let what = match self.literals[empty] {
                0 => "it has no edges".to_owned(),
                count => format!(
                    "it has no edges but {count} triples with literals; `--literals entities` reads them"
                ),
            };
            return Err(ImportError::input(path, what));
        }
        self.file.finish(false)?;
        Ok((self.edges.iter().sum(), self.skipped))
    }

    fn take(&mut self, done: ParsedBlock, meter: &mut Meter<'_, '_>) -> Result<(), ImportError> {
        if done.file.index != self.current {
            (self.current, self.lines) = (done.file.index, done.file.preamble());
        }
        let lines = self.lines;
        let named = |wrong: LineError| ImportError::Line {
            path: done.file.file.path.clone(),
            line: lines + wrong.line + 1,
            what: wrong.what,
        };
        if let Some(wrong) = done.wrong {
            return Err(named(wrong));
        }
        self.literals[self.current] += done.bad.literals;
        self.skipped.literals += done.bad.literals;
        self.skipped.add(done.bad.count, done.bad.first.map(named));
        if let (Some(shards), Some(names)) = (&mut self.shards, &done.names) {
            shards.put(names)?;
        }
        self.job.memory.check_names(self.job.types)?;
        self.file.put(&done.records)?;
        self.lines += done.lines;
        self.edges[self.current] += done.edges;
        meter.edges += done.edges;
        meter.bytes += done.disk_bytes;
        // The reader may have ended already.
        let _ = self.free.send(done.buffer);
        let event = ImportProgress::Reading {
            set: self.set.to_owned(),
            bytes: meter.bytes,
            total_bytes: meter.total_bytes,
            edges: meter.edges,
        };
        report_progress(meter.progress, event)
    }
}
