//! The scripts of examples/cluster, with programs that run everything on this machine in place of those of a cluster.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use super::{Trainer, edges, nats_server};
use crate::support::Workplace;
use crate::support::graph::CONFIG;

/// Starts the same command for each task, and waits for all of them. If one fails, the others are ended.
const SRUN: &str = "#!/bin/bash
processes=()
for rank in $(seq 0 $((SLURM_NTASKS - 1))); do
  SLURM_PROCID=$rank \"$@\" & processes+=($!)
done
for process in \"${processes[@]}\"; do
  wait \"$process\" || { code=$?; kill \"${processes[@]}\"; exit $code; }
done
";
const SCONTROL: &str = "#!/bin/sh
[ \"$1 $2 $3\" = 'show hostnames here[1-2]' ] && echo 127.0.0.1 && echo 127.0.0.2
";

#[test]
fn a_slurm_job_trains_with_every_task() {
    let Some(nats) = nats_server() else { return };
    let place =
        Workplace::with_dataset(&CONFIG.replace("num_partitions = 3", "num_partitions = 4"));
    fs::create_dir(place.path("programs")).unwrap();
    for (name, text) in [("srun", SRUN), ("scontrol", SCONTROL)] {
        let path = format!("programs/{name}");
        place.write(&path, text);
        fs::set_permissions(place.path(&path), fs::Permissions::from_mode(0o755)).unwrap();
    }
    symlink(nats, place.path("programs/nats-server")).unwrap();
    symlink(
        env!("CARGO_BIN_EXE_pbg-host"),
        place.path("programs/pbg-host"),
    )
    .unwrap();

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cluster/slurm.sbatch");
    let mut programs = OsString::from(place.path("programs"));
    programs.push(":");
    programs.push(env::var_os("PATH").unwrap_or_default());
    let submit = || {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = port.local_addr().unwrap().port();
        let mut job = Command::new("bash");
        job.arg(&script)
            .current_dir(place.path(""))
            .env("PATH", &programs)
            .env("SLURM_JOB_NODELIST", "here[1-2]")
            .env("SLURM_NTASKS", "2")
            .env("MASTER_PORT", port.to_string())
            .env("PBG_HOST_CACHE", place.path("cache"));
        Trainer::spawn(&place, 0, &mut job)
    };
    let mut job = submit();
    let mut code = job.ends();
    // Another process may take the port in between.
    while job.errors().contains("address already in use") {
        job = submit();
        code = job.ends();
    }
    assert_eq!(code, Some(0), "{}", job.errors());

    let history = place
        .run(["cluster", "history", "--json"])
        .succeeds()
        .stdout;
    let history: Vec<serde_json::Value> = serde_json::from_str(&history).unwrap();
    assert_eq!(history.len(), 2 * 16);
    let trained = history.iter().map(|row| row["edges"].as_u64().unwrap());
    assert_eq!(trained.sum::<u64>(), 2 * edges(&place.path("train.tsv")));
    let names = history.iter().map(|row| row["trainer"].as_str().unwrap());
    let names: std::collections::BTreeSet<_> = names.collect();
    assert_eq!(names.len(), 2, "{names:?}");
}
