//! Demo: trains embeddings of WordNet from its edges, and prints every command so that it can be typed.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::repo::Repo;
use crate::{build, step};

mod distributed;
mod page;

const EXAMPLE: &str = "examples/wordnet";
const FOLDER: &str = "target/demo";

/// Synsets whose neighbours are looked up: an animal, an artefact, a place, a person, a quality and an action.
const WELL_KNOWN: [&str; 6] = [
    "dog.n.01",
    "piano.n.01",
    "paris.n.01",
    "einstein.n.01",
    "happy.a.01",
    "swim.v.01",
];

/// Questions, which are edges of `test` with one side open: hypernyms, parts and wholes.
const ASKED: [[&str; 4]; 6] = [
    ["--head", "asp.n.02", "--relation", "hypernym"],
    ["--head", "american_elm.n.01", "--relation", "hypernym"],
    ["--head", "alberta.n.01", "--relation", "instance_hypernym"],
    [
        "--head",
        "gregorian_calendar.n.01",
        "--relation",
        "part_meronym",
    ],
    ["--relation", "part_meronym", "--tail", "leg.n.01"],
    [
        "--relation",
        "part_meronym",
        "--tail",
        "great_barrier_reef.n.01",
    ],
];

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

/// Runs a command in the repository's folder, so that it can be repeated as it is shown.
fn pbg_host(repo: &Repo, args: &[&str]) -> Result<()> {
    let program = repo.program();
    println!("\n$ {} {}", repo.short(&program), args.join(" "));
    let mut command = Command::new(&program);
    let status = command.args(args).current_dir(&repo.root).status();
    let status = status.with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(
        status.success(),
        "the command above failed ({status}); it can be repeated by hand"
    );
    Ok(())
}
