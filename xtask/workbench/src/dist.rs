//! What users install: for each system a wheel, and an archive of the program with its plugins, in `target/dist`.
//!
//! Everything is built with the profile `dist` on Linux, x86-64; for other systems and for older C libraries with Zig as
//! the linker ([`zig`]). After the build, each native file is read, and refused if it needs more than the tag of the
//! wheel promises ([`target`]). `docs/releases.md` says what a release consists of.

mod archive;
mod bridges;
mod libtorch;
mod sbom;
mod target;
mod trial;
mod zig;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use xtask::repo::Repo;
use xtask::{build, step, wheel};

use self::archive::{create, remove};
use self::target::DistTarget;
use self::trial::Built;
use self::zig::Zig;

/// Options of the task.
#[derive(Debug, clap::Args)]
pub(crate) struct DistArgs {
    /// Build for this system only [default: all].
    #[arg(long, value_enum, value_name = "SYSTEM")]
    target: Option<DistTarget>,
    /// Also try what was built: in folders with Debian 11 and 12 (as root), and for 64-bit Arm with an emulator.
    ///
    /// What could not be tried is said at the end.
    #[arg(long)]
    test: bool,
}

/// Builds, checks and, if asked, tries the files of a release of `version`.
pub(crate) fn run(repo: &Repo, args: &DistArgs, version: &str) -> Result<()> {
    let targets = match args.target {
        Some(target) => vec![target],
        None => DistTarget::ALL.to_vec(),
    };
    build::plugins(repo)?;
    let zig = Zig::install(repo, &targets)?;
    let folder = repo.target.join("dist");
    create(&folder)?;
    let mut untested = Vec::new();
    for target in targets {
        let built = build_for(repo, &zig, target, &folder, version)?;
        if args.test {
            untested.extend(trial::run(repo, &zig, &built)?);
        }
    }
    let names = archive::release_files(&folder, version)?;
    archive::write_sums(&folder, &names)?;
    println!("\n{}/SHA256SUMS has the checksums of", repo.short(&folder));
    names.iter().for_each(|name| println!("  {name}"));
    if !args.test {
        println!("nothing was run; `cargo xtask dist --test` does");
    }
    untested
        .iter()
        .for_each(|line| println!("not tested: {line}"));
    Ok(())
}

/// Builds the files for one system and moves them to `folder`.
fn build_for(
    repo: &Repo,
    zig: &Zig,
    target: DistTarget,
    folder: &Path,
    version: &str,
) -> Result<Built> {
    let triple = target.triple();
    step::announce(&format!(
        "building pbg-host for {triple} (the first time takes 40 minutes of processor time)"
    ));
    let mut cargo = repo.plain_cargo("build");
    zig.arrange(&mut cargo, target);
    cargo.args(["--locked", "--package", "pbg-host", "--bin", "pbg-host"]);
    step::run(&mut cargo, "see the compiler's message above")?;
    let program = target.built(&zig.cross);
    report_needs(target, &program.join("pbg-host"))?;

    let name = format!("pbg-host-{version}-{triple}");
    let list = sbom::list(repo, triple, version)?;
    let list_path = folder.join(format!("{name}.cdx.json"));
    fs::write(&list_path, &list)
        .with_context(|| format!("cannot write {}", list_path.display()))?;
    step::announce(&format!("packing {name}.tar.gz"));
    let bridges = bridges::build(repo, target)?;
    let archive = archive::pack(repo, (&program, &bridges), &name, &list, folder)?;

    step::announce(&format!(
        "building the extension, and packing the wheel {}",
        target.tag()
    ));
    let staged = zig.cross.join("wheel");
    let wheel = wheel::pack_for_others(repo, (&program, &bridges), &staged, |maturin| {
        zig.arrange(maturin, target);
        maturin.args(["--locked", "--auditwheel", "skip", "--sbom-include"]);
        maturin.arg(&list_path);
        // The tag for macOS follows from MACOSX_DEPLOYMENT_TARGET.
        if target != DistTarget::Macos {
            maturin.args(["--compatibility", &target.tag()]);
        }
    })?;
    check_wheel(target, &wheel, &staged.join("unpacked"))?;
    let name_of_wheel = wheel.file_name().context("a wheel has a name")?;
    let moved = folder.join(name_of_wheel);
    fs::rename(&wheel, &moved).with_context(|| format!("cannot move {}", wheel.display()))?;
    Ok(Built {
        target,
        wheel: moved,
        archive,
        name,
    })
}

/// Checks all native files of a wheel, and that its name has the tag.
fn check_wheel(target: DistTarget, wheel: &Path, unpacked: &Path) -> Result<()> {
    remove(unpacked)?;
    let mut python = Command::new("python3");
    python
        .args(["-m", "zipfile", "-e"])
        .arg(wheel)
        .arg(unpacked);
    step::run(&mut python, "install Python 3")?;
    for file in wheel::native_files(unpacked)? {
        report_needs(target, &file)?;
    }
    remove(unpacked)?;
    let name = wheel.file_name().unwrap_or_default().to_string_lossy();
    ensure!(
        name.ends_with(&format!("-{}.whl", target.tag())),
        "{name} has another tag than {}",
        target.tag()
    );
    Ok(())
}

fn report_needs(target: DistTarget, file: &Path) -> Result<()> {
    let needed = target.check(file)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let system = match target {
        DistTarget::Macos => "macOS",
        _ => "symbols of glibc",
    };
    println!("    {name} needs {system} {needed}");
    Ok(())
}
