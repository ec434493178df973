//! `pbg-host bench storage`.

use std::io::{self, Write};
use std::path::PathBuf;

use pbg_bench::{IoRate, StorageReport};

use crate::failure::Result;
use crate::scratch::BenchFolder;
use crate::terminal;
use crate::{format, options};

/// Measure how fast a partition of a checkpoint is written and read.
///
/// Writes the partition and syncs it to disk, then reads it with an empty page cache and verifies its checksum. The
/// speeds are compared with those of plain files of the same size, and of a copy in memory. Of three rounds, the
/// fastest is reported.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host bench storage
  pbg-host bench storage --folder /mnt/disk --size 4G --json")]
pub(crate) struct Args {
    /// Folder on the disk to measure; temporary files in it are removed afterwards.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Size of the partition.
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = options::bytes)]
    size: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// When the folder cannot be written.
pub(crate) fn run(args: &Args) -> Result<()> {
    let scratch = BenchFolder::create(&args.folder.join("storage"))?;
    let report = pbg_bench::storage(scratch.path(), args.size)?;
    terminal::print_result(args.json, &report, |out| print_report(out, &report))
}

fn print_report(out: &mut dyn Write, report: &StorageReport) -> io::Result<()> {
    writeln!(out, "a partition of {}", format::bytes(report.bytes))?;
    print_line(out, "write", &report.write, &report.plain_write)?;
    print_line(out, "read", &report.read, &report.plain_read)?;
    let copy = &report.memory_copy;
    writeln!(out, "  a copy in memory: {}/s", rate(copy))
}

fn print_line(out: &mut dyn Write, what: &str, ours: &IoRate, plain: &IoRate) -> io::Result<()> {
    writeln!(
        out,
        "  {what:<6} {:>10}/s, {:.0} % of the {}/s of plain files; {:.2} CPU-seconds per GB, plain {:.2}",
        rate(ours),
        100.0 * ours.bytes_per_second / plain.bytes_per_second,
        rate(plain),
        ours.cpu_seconds_per_gb,
        plain.cpu_seconds_per_gb,
    )
}

fn rate(rate: &IoRate) -> String {
    format::bytes(rate.bytes_per_second as u64)
}
