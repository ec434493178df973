//! Check of the C++ compiler that builds bridges to libtorch.

use std::env;
use std::ffi::OsString;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::step;

/// Compiles a program that uses the standard library, since a compiler without its headers is not sufficient.
pub(crate) fn check() -> Result<()> {
    let compiler = env::var_os("CXX").unwrap_or_else(|| OsString::from("c++"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/setup/probe.cpp");
    let works = step::succeeds(
        Command::new(&compiler)
            .args(["-std=c++17", "-fsyntax-only", source])
            .stdin(Stdio::null()),
    );
    ensure!(
        works,
        "`{}` is not a working C++17 compiler\nwhat to do: install one (`apt-get install g++`), or set CXX to another one",
        compiler.display()
    );
    Ok(())
}
