//! The study of bucket orders, made from nothing and compared with what is kept in the repository, as a committee for the
//! evaluation of artifacts would do.
//!
//! Every table of the study is in a page; every figure, and the checksums of plans, is a file beside a page. The command
//! makes them again, prints how each differs from the kept one, and fails if a difference exceeds its tolerance.

mod commands;
mod kept;
mod orders;
mod table;

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use xtask::repo::Repo;
use xtask::{build, step};

use kept::{KeptResults, Verdicts};

/// Options of the study of bucket orders.
#[derive(Debug, clap::Args)]
pub(crate) struct OrdersArgs {
    /// Replace the kept tables, figures and checksums by those that are made.
    #[arg(long)]
    record: bool,
    /// Make only what has this text in its name, as in `--only plans`; can be repeated.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
}

impl OrdersArgs {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| name.contains(text))
    }
}

/// Makes everything and compares it.
pub(crate) fn run(repo: &Repo, args: &OrdersArgs) -> Result<()> {
    let started = Instant::now();
    let names = orders::PARTS.map(|(name, _)| name);
    ensure!(
        names.iter().any(|name| args.wants(name)),
        "no part has that in its name; the parts are {}",
        names.join(", ")
    );
    build::without_libtorch(repo)?;
    let folder = repo.target.join("artifact/orders");
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut kept = KeptResults {
        root: repo.root.clone(),
        record: args.record,
        verdicts: Verdicts::default(),
    };
    let verdicts = folder.join("verdicts.txt");
    for (name, make) in orders::PARTS {
        if args.wants(name) {
            step::announce(&format!(
                "{name} ({:.0} s so far)",
                started.elapsed().as_secs_f64()
            ));
            kept.part(name, |kept| make(repo, &folder, kept));
            // After each part, so that they are there if the next one is interrupted. They are printed in any case.
            kept.verdicts.store(&verdicts);
        }
    }
    println!("\n{}", kept.verdicts);
    println!(
        "{:.1} minutes; what was made is in {}",
        started.elapsed().as_secs_f64() / 60.0,
        folder.display(),
    );
    let failed = kept.verdicts.failed();
    if !failed.is_empty() {
        bail!(
            "not everything could be made: {}\nwhat to do: see the messages above; `--only` makes a part again",
            failed.join(", ")
        );
    }
    if kept.verdicts.differing() > 0 && !args.record {
        bail!(
            "what was made differs from what is kept\nwhat to do: look at the differences above; `--record` keeps what was made"
        );
    }
    Ok(())
}
