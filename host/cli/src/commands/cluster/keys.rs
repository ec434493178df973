//! `pbg-host cluster keys`.

use std::path::{Path, PathBuf};

use pbg_transport::{ConnectError, KeyFiles};

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::terminal;

/// Make a private authority, and certificates that it has signed for your NATS servers and for the trainers.
///
/// Servers and trainers then trust nobody else. The files are readable by their owner only, do not expire, and are never
/// replaced: other keys, for instance for another host, are made in another folder, with an authority of their own, and
/// replace those of all servers and trainers. Keep `authority-key.pem` to yourself: it can sign certificates. Prints what
/// to put into the configurations of the servers and of the run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host cluster keys keys --host nats.example.org
  pbg-host cluster keys keys --host 10.0.0.5 --host 10.0.0.6 --host 10.0.0.7")]
pub(crate) struct Args {
    /// Folder of the files. It is created if necessary.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Host name or IP address by which trainers reach a server. Repeat it for each server and each of its names.
    #[arg(long = "host", value_name = "HOST", required = true)]
    hosts: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// When the files cannot be written, or one of them exists.
pub(super) fn run(args: &Args) -> Result<()> {
    let folder = std::path::absolute(&args.folder).map_err(|error| {
        Failure::new(FailureKind::Io, error).context("cannot find the working folder")
    })?;
    let files = KeyFiles::create(&folder, &args.hosts).map_err(|error| {
        let kind = match error {
            ConnectError::Host(_) => FailureKind::Usage,
            _ => FailureKind::Io,
        };
        Failure::new(kind, error)
    })?;
    let text = |path: &Path| format!("{:?}", path.display().to_string());
    let (authority, server) = (text(&files.authority), text(&files.server));
    let (server_key, trainer) = (text(&files.server_key), text(&files.trainer));
    let trainer_key = text(&files.trainer_key);
    let addresses = args.hosts.iter().map(|host| match host.contains(':') {
        true => format!("[{host}]:4222"),
        false => format!("{host}:4222"),
    });
    let addresses = addresses.collect::<Vec<_>>().join(",");
    let tls = format!(
        "tls {{\n  cert_file: {server}\n  key_file: {server_key}\n  ca_file: {authority}\n  verify: true\n}}"
    );
    terminal::print_result(false, &(), |out| {
        writeln!(
            out,
            "wrote a private authority and its certificates to {}\n\
             \n\
             for the configuration of each nats-server, which needs copies of these files:\n\
             \n\
             jetstream {{\n  store_dir: \"nats-store\"\n  sync_interval: always\n}}\n\
             {tls}\n\
             \n\
             for the configuration of the run, on each machine:\n\
             \n\
             distributed_init_method = \"tls://{addresses}\"\n\
             [distributed]\n\
             authority = {authority}\n\
             certificate = {trainer}\n\
             key = {trainer_key}",
            args.folder.display()
        )?;
        if args.hosts.len() > 1 {
            writeln!(
                out,
                "\nif the hosts are three servers, each `cluster` block needs the same `tls` block, since servers connect to \
                 each other, and the run `replicas = 3`"
            )?;
        }
        Ok(())
    })
}
