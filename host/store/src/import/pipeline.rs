//! Reading: one reader, several workers, and a collector that restores the order.
//!
//! A fixed number of buffers circulates between them, which bounds the memory and, with it, how
//! far the workers can run ahead of the slowest.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::block::{BLOCK_BYTES, Block, Content, Done, InputFile, Numbered};
use super::on_disk::Shards;
use super::source::{self, EdgeFormat, Source};
use super::spill::Spill;
use super::table::{self, Sink};
use super::worker::Worker;
use super::{ImportError, ImportJob, ImportProgress};
use crate::files::{self, FileError, SummedFile};

type Progress<'p> = dyn FnMut(ImportProgress) -> ControlFlow<()> + 'p;

/// Reads all sets; their edges end up in one spill file each, their names, if there are `shards`, in those.
pub(super) fn read_all(
    job: &ImportJob<'_>,
    sets: &[(String, Vec<PathBuf>)],
    mut shards: Option<&mut Shards>,
    progress: &mut Progress<'_>,
) -> Result<Vec<Spill>, ImportError> {
    let mut inputs = Vec::new();
    let mut total_bytes = 0;
    for (set, paths) in sets {
        let opened = paths
            .iter()
            .enumerate()
            .map(|(index, path)| open(job, path, index));
        let opened = opened.collect::<Result<Vec<_>, _>>()?;
        check_weights(set, &opened)?;
        total_bytes += paths
            .iter()
            .filter_map(|path| files::size(path).ok())
            .sum::<u64>();
        inputs.push((set, opened));
    }
    let mut meter = Meter {
        progress,
        bytes: 0,
        total_bytes,
        edges: 0,
    };
    inputs
        .into_iter()
        .map(|(set, opened)| {
            let shards = shards.as_deref_mut();
            read_set(job, (set, &opened), shards, &mut meter)
        })
        .collect()
}

struct Meter<'a, 'p> {
    progress: &'a mut Progress<'p>,
    bytes: u64,
    total_bytes: u64,
    edges: u64,
}

fn open(job: &ImportJob<'_>, path: &Path, index: usize) -> Result<Arc<InputFile>, ImportError> {
    let layout = source::layout(path, job.options.columns.as_ref())?;
    if layout.rel.is_none() && job.relations.single().is_none() {
        let what = "it has no column of relations, and the configuration has not exactly one";
        return Err(ImportError::input(path, what));
    }
    Ok(Arc::new(InputFile {
        path: path.to_owned(),
        index,
        layout,
    }))
}

fn check_weights(set: &str, inputs: &[Arc<InputFile>]) -> Result<(), ImportError> {
    let weighted = |input: &Arc<InputFile>| input.layout.weight.is_some();
    match inputs
        .iter()
        .find(|input| weighted(input) != weighted(&inputs[0]))
    {
        None => Ok(()),
        Some(other) => {
            let what = format!("only some files of the edge set `{set}` have weights");
            Err(ImportError::input(&other.path, what))
        }
    }
}

fn read_set(
    job: &ImportJob<'_>,
    (set, inputs): (&str, &[Arc<InputFile>]),
    shards: Option<&mut Shards>,
    meter: &mut Meter<'_, '_>,
) -> Result<Spill, ImportError> {
    let path = job.folder.join(format!("edges_{set}.spill"));
    let threads = job.memory.reading_threads();
    let (free_in, free_out) = channel();
    for _ in 0..job.memory.blocks() {
        let _ = free_in.send(Vec::new());
    }
    let (block_in, block_out) = channel();
    let (done_in, done_out) = channel();
    let block_out = Mutex::new(block_out);
    let edges = std::thread::scope(|scope| {
        scope.spawn(move || {
            Reader {
                blocks: block_in,
                free: free_out,
                number: 0,
            }
            .run(inputs)
        });
        for _ in 0..threads {
            let (blocks, done) = (&block_out, done_in.clone());
            scope.spawn(move || work(job, blocks, &done));
        }
        drop(done_in);
        let mut collector = Collector::new(job, &path, (set, inputs), free_in)?;
        collector.shards = shards;
        collector.run(&done_out, meter)
        // Leaving drops both ends that the collector held: reader and workers end by themselves.
    })?;
    let has_weight = inputs[0].layout.weight.is_some();
    Ok(Spill::open(&path, set, edges, has_weight)?)
}

fn work(
    job: &ImportJob<'_>,
    blocks: &Mutex<Receiver<Numbered<Block>>>,
    done: &Sender<Numbered<Done>>,
) {
    let mut worker = Worker::new(job);
    loop {
        let next = blocks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Numbered { number, item }) = next else {
            return;
        };
        let item = item.and_then(|block| worker.process(block));
        if done.send(Numbered { number, item }).is_err() {
            return;
        }
    }
}

/// Cuts files into blocks.
struct Reader {
    blocks: Sender<Numbered<Block>>,
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
            let result = match EdgeFormat::of(&file.path) {
                EdgeFormat::Lines => read_lines(file, &mut sink),
                EdgeFormat::Csv => table::read_csv(file, &mut sink),
                EdgeFormat::Parquet => table::read_parquet(file, &mut sink),
            };
            if let Err(error) = result {
                self.send(Err(error));
                return;
            }
        }
    }

    fn send(&mut self, item: Result<Block, ImportError>) -> bool {
        let number = self.number;
        self.number += 1;
        self.blocks.send(Numbered { number, item }).is_ok()
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
        self.reader.send(Ok(Block {
            file: Arc::clone(self.file),
            content,
            disk_bytes,
        }))
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads text in blocks of whole lines.
fn read_lines(file: &InputFile, sink: &mut dyn Sink) -> Result<(), ImportError> {
    let Source {
        mut reader,
        disk_bytes,
    } = Source::open(&file.path)?;
    let mut rest = Vec::new();
    let mut told = 0;
    let mut is_first = true;
    loop {
        let Some(mut buffer) = sink.buffer() else {
            return Ok(());
        };
        buffer.append(&mut rest);
        let wanted = (BLOCK_BYTES - buffer.len()) as u64;
        let read = reader.by_ref().take(wanted).read_to_end(&mut buffer);
        let read = read.map_err(|e| FileError::new("read", &file.path, e))?;
        if std::mem::take(&mut is_first) && buffer.starts_with(BYTE_ORDER_MARK) {
            buffer.drain(..BYTE_ORDER_MARK.len());
        }
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
        if !sink.take(Content::Text(buffer), bytes - told) || at_end {
            return Ok(());
        }
        told = bytes;
    }
}

/// Writes records in the order of the files.
struct Collector<'a> {
    job: &'a ImportJob<'a>,
    set: &'a str,
    inputs: &'a [Arc<InputFile>],
    free: Sender<Vec<u8>>,
    file: Option<SummedFile>,
    /// Where names are on the disk.
    shards: Option<&'a mut Shards>,
    waiting: BTreeMap<u64, Result<Done, ImportError>>,
    next: u64,
    /// Lines of the current file before the next block.
    lines: u64,
    current: usize,
    edges: Vec<u64>,
}

impl<'a> Collector<'a> {
    fn new(
        job: &'a ImportJob<'a>,
        path: &Path,
        (set, inputs): (&'a str, &'a [Arc<InputFile>]),
        free: Sender<Vec<u8>>,
    ) -> Result<Self, ImportError> {
        Ok(Self {
            job,
            set,
            inputs,
            free,
            file: Some(SummedFile::create(path)?),
            shards: None,
            waiting: BTreeMap::new(),
            next: 0,
            lines: 0,
            current: 0,
            edges: vec![0; inputs.len()],
        })
    }

    fn run(
        &mut self,
        done: &Receiver<Numbered<Done>>,
        meter: &mut Meter<'_, '_>,
    ) -> Result<u64, ImportError> {
        for Numbered { number, item } in done {
            self.waiting.insert(number, item);
            while let Some(item) = self.waiting.remove(&self.next) {
                self.next += 1;
                self.take(item?, meter)?;
            }
        }
        if let Some(empty) = self.edges.iter().position(|&edges| edges == 0) {
            return Err(ImportError::input(
                &self.inputs[empty].path,
                "it has no edges",
            ));
        }
        if let Some(file) = self.file.take() {
            file.finish(false)?;
        }
        Ok(self.edges.iter().sum())
    }

    fn take(&mut self, done: Done, meter: &mut Meter<'_, '_>) -> Result<(), ImportError> {
        if done.file.index != self.current {
            (self.current, self.lines) = (done.file.index, 0);
        }
        if let Some(wrong) = done.wrong {
            let line = self.lines + wrong.line + 1;
            return Err(ImportError::Line {
                path: done.file.path.clone(),
                line,
                what: wrong.what,
            });
        }
        if let (Some(shards), Some(names)) = (&mut self.shards, &done.names) {
            shards.put(names)?;
        }
        self.job.memory.check_names(self.job.types)?;
        if let Some(file) = &mut self.file {
            file.put(&done.records)?;
        }
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
        super::tell(meter.progress, event)
    }
}
