//! Compares several trainers of PyTorch-BigGraph with the same number of pbg-host trainers, with the same edges and configuration.
//!
//! Each program is run with one epoch and with more, and the difference counts, so that start-up is not included.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::processes::{self, ResourceUsage};
use super::{BenchResult, VsPbgArgs, print, relations, write_scripts};
use xtask::repo::Repo;
use xtask::{setup, step};

const SCRIPT: &str = include_str!("pbg_together.py");
const PARTITIONS: u32 = 4;

/// Trains with both programs; PBG with partition servers in its trainers, and with partitions in the shared folder.
pub(super) fn compare(
    repo: &Repo,
    python: &Path,
    args: &VsPbgArgs,
    machines: u32,
    folder: &Path,
) -> Result<()> {
    if args.rank {
        bail!(
            "--rank cannot be combined with --machines: ranks do not depend on the number of trainers"
        );
    }
    let lines = fs::read_to_string(folder.join("train.txt")).context("cannot read train.txt")?;
    let edges = lines.lines().count() as f64;
    let epochs = args.given_epochs().unwrap_or(1);
    step::announce("importing for both");
    let nats = setup::nats(repo)?;
    let ours = PbgHostBench {
        repo,
        args,
        machines,
        folder,
        nats,
    };
    ours.import()?;
    let script = folder.join("pbg_together.py");
    write_scripts(&script, SCRIPT)?;
    let pbg = PbgBench {
        python,
        script,
        args,
        machines,
        folder,
    };
    for servers in [-1, 0] {
        pbg.import(servers)?;
        step::announce(&format!(
            "PBG, {machines} trainers, partition servers: {servers}"
        ));
        let theirs = measure_epochs(edges, epochs, |epochs| pbg.train(epochs, servers))?;
        step::announce(&format!("pbg-host, {machines} trainers"));
        let own = measure_epochs(edges, epochs, |epochs| ours.train(epochs))?;
        print(&theirs, &own);
    }
    Ok(())
}

/// Measures the epochs after the first one.
fn measure_epochs(
    edges: f64,
    epochs: u32,
    mut train: impl FnMut(u32) -> Result<ResourceUsage>,
) -> Result<BenchResult> {
    let one = train(1)?;
    let all = train(1 + epochs)?;
    let edges = edges * f64::from(epochs);
    let cpu_seconds = all.cpu_seconds - one.cpu_seconds;
    let start_up = one.cpu_seconds - cpu_seconds / f64::from(epochs);
    Ok(BenchResult {
        epochs,
        start_up: start_up.max(0.0) / cpu_seconds,
        per_cpu_second: edges / cpu_seconds,
        per_second: edges / (all.seconds - one.seconds),
        peak_bytes: all.peak_bytes.max(one.peak_bytes) as f64,
        mrr: None,
    })
}

struct PbgBench<'a> {
    python: &'a Path,
    script: PathBuf,
    args: &'a VsPbgArgs,
    machines: u32,
    folder: &'a Path,
}

impl PbgBench<'_> {
    /// Imports for PBG. Version 1.0.0 has no regulariser, so ours is switched off as well.
    fn import(&self, servers: i32) -> Result<()> {
        let mut config = serde_json::json!({
            "entities": {"all": {"num_partitions": PARTITIONS}},
            "global_emb": false, "lr": 0.1, "eval_fraction": 0, "workers": self.args.workers,
            "checkpoint_path": self.folder.join("pbg-model"),
            "num_machines": self.machines, "num_partition_servers": servers,
            "distributed_init_method": format!("file://{}", self.folder.join("pbg-meeting").display()),
        });
        if let (Value::Object(config), Value::Object(rest)) = (
            &mut config,
            self.args.config.of_pbg(relations(self.folder)?),
        ) {
            config.extend(rest);
        }
        let path = self.folder.join("pbg.json");
        fs::write(&path, config.to_string()).context("cannot write PBG's configuration")?;
        let mut command = Command::new(self.python);
        command
            .arg(&self.script)
            .arg("import")
            .arg(self.folder)
            .arg(path);
        step::output(
            &mut command,
            "run the command by hand to see PBG's messages",
        )
        .map(drop)
    }

    fn train(&self, epochs: u32, servers: i32) -> Result<ResourceUsage> {
        remove(&self.folder.join("pbg-meeting"))?;
        remove(&self.folder.join("pbg-model"))?;
        let command = |rank: u32| {
            let mut command = Command::new(self.python);
            command
                .arg(&self.script)
                .arg(self.folder.join("pbg_config.py"));
            command.args(["--rank", &rank.to_string()]);
            command.args(["--param", &format!("num_epochs={epochs}")]);
            // PBG assigns parameters to owners by the hash of their names.
            command.env("PYTHONHASHSEED", "1");
            command
        };
        let name = format!("pbg{servers}-{epochs}");
        processes::run(self.folder, &name, (0..self.machines).map(command))
    }
}

struct PbgHostBench<'a> {
    repo: &'a Repo,
    args: &'a VsPbgArgs,
    machines: u32,
    folder: &'a Path,
    nats: PathBuf,
}

impl PbgHostBench<'_> {
    fn keys(&self, epochs: u32) -> Vec<String> {
        let mut keys = vec![
            format!("dataset={}", self.folder.join("dataset").display()),
            format!("checkpoint_path={}", self.folder.join("model").display()),
            format!("entities.all.num_partitions={PARTITIONS}"),
            "regularization_coef=0".to_owned(),
            "eval_fraction=0".to_owned(),
            format!("workers={}", self.args.workers),
            format!("num_epochs={epochs}"),
        ];
        keys.extend(self.args.set.iter().cloned());
        keys.into_iter()
            .flat_map(|key| ["--set".to_owned(), key])
            .collect()
    }

    fn command(&self, name: &str, epochs: u32) -> Command {
        let mut command = self.repo.run_program();
        let config = self.repo.root.join(self.args.config.path());
        command.arg(name).arg(config).args(self.keys(epochs));
        command
    }

    fn import(&self) -> Result<()> {
        let mut import = self.command("import", 1);
        for set in super::SETS {
            let edges = self.folder.join(format!("{set}.txt"));
            import.args(["--edges", &format!("{set}={}", edges.display())]);
        }
        step::run(import.stdout(Stdio::null()), "see the message above")
    }

    fn train(&self, epochs: u32) -> Result<ResourceUsage> {
        remove(&self.folder.join("model"))?;
        let meeting = self.folder.join("meeting").display().to_string();
        let command = |rank: u32| {
            let mut command = self.command("train", epochs);
            for key in [
                format!("num_machines={}", self.machines),
                format!("distributed_init_method=file://{meeting}"),
                format!("distributed.nats_server={}", self.nats.display()),
            ] {
                command.args(["--set", &key]);
            }
            command.args(["--progress", "none", "--rank", &rank.to_string()]);
            command.env("PBG_HOST_LISTEN", "127.0.0.1");
            command
        };
        let name = format!("ours-{epochs}");
        processes::run(self.folder, &name, (0..self.machines).map(command))
    }
}

fn remove(path: &Path) -> Result<()> {
    let removed = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false if path.exists() => fs::remove_file(path),
        false => Ok(()),
    };
    removed.with_context(|| format!("cannot remove {}", path.display()))
}
