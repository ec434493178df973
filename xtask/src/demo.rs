//! Demo: trains embeddings of WordNet from its edges, and prints every command so that it can be typed.

use std::fs;

use crate::repo::Repo;
use crate::{build, step};
use anyhow::{Context, Result};

mod distributed;
mod example;
mod page;

use example::{ASKED, EXAMPLE, FOLDER, WELL_KNOWN, pbg_host};

/// Runs the demo. It uses its own folder and always starts from the edges, so a model trained elsewhere is never touched.
pub(crate) fn run(repo: &Repo, machines: Option<u32>) -> Result<()> {
    build::without_libtorch(repo)?;
    step::announce(&format!(
        "preparing {FOLDER} with the configuration of {EXAMPLE}"
    ));
    prepare(repo, machines)?;

    let config = format!("{FOLDER}/pbg.toml");
    let edges = |set: &str| format!("{set}={EXAMPLE}/{set}.tsv.gz");
    step::announce("importing the edges");
    let (train, valid, test) = (edges("train"), edges("valid"), edges("test"));
    pbg_host(
        repo,
        &[
            "import", &config, "--edges", &train, "--edges", &valid, "--edges", &test,
        ],
    )?;
    match machines {
        None => {
            step::announce("training, with the bucket order in a sandbox");
            pbg_host(repo, &["train", &config, "--plugin", "inside_out.wasm"])?;
        }
        Some(machines) => distributed::train(repo, &config, machines)?,
    }
    step::announce("ranking the edges of the test set");
    pbg_host(
        repo,
        &[
            "eval",
            &config,
            "--edges",
            "test",
            "--filter",
            "train,valid,test",
        ],
    )?;
    ask(repo, &config)?;
    page::write(repo, &config)?;
    println!("The model is in {FOLDER}; {EXAMPLE}/README.md says what the data is.");
    Ok(())
}

/// Creates the folder with the example's configuration, in more partitions if several trainers share the work.
fn prepare(repo: &Repo, machines: Option<u32>) -> Result<()> {
    let folder = repo.root.join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let config = repo.root.join(EXAMPLE).join("pbg.toml");
    let text = fs::read_to_string(&config);
    let text = text.with_context(|| format!("cannot read {}", config.display()))?;
    let text = machines.map_or(text.clone(), |machines| {
        distributed::partitioned(&text, machines)
    });
    let copy = folder.join("pbg.toml");
    fs::write(&copy, text).with_context(|| format!("cannot write {}", copy.display()))
}

/// Queries the model.
fn ask(repo: &Repo, config: &str) -> Result<()> {
    step::announce("looking up the neighbours of some well-known synsets");
    for name in WELL_KNOWN {
        pbg_host(repo, &["neighbors", config, name, "-k", "5"])?;
    }
    step::announce(
        "predicting edges of the test set: hypernyms and parts, without known edges of train and valid",
    );
    for question in ASKED {
        let mut command = vec!["predict", config];
        command.extend(question);
        command.extend(["--filter", "train,valid", "--no-loops", "-k", "5"]);
        pbg_host(repo, &command)?;
    }
    Ok(())
}
