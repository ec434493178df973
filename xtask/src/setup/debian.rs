//! Debian packages that some tests need, installed if possible.

use std::process::Command;

use super::missing_tool::MissingTool;
use crate::step;

/// Tool that tests need.
struct Tool {
    /// Name in `PBG_REQUIRE`.
    name: &'static str,
    programs: &'static [&'static str],
    /// Debian packages with the programs.
    packages: &'static [&'static str],
    /// Description of what is not tested without the tool.
    consequence: &'static str,
}

const TOOLS: [Tool; 3] = [
    Tool {
        name: "clang",
        programs: &["clang", "wasm-ld"],
        packages: &["clang", "lld"],
        consequence: "plugins in C are not built in tests",
    },
    Tool {
        name: "chromium",
        programs: &["chromium"],
        packages: &["chromium"],
        consequence: "reports are not opened in a browser in tests",
    },
    Tool {
        name: "valgrind",
        programs: &["valgrind"],
        packages: &["valgrind"],
        consequence: "instructions are not counted in tests",
    },
];

/// Installs missing tools if this runs as root on Debian. Returns the tools that are still missing.
pub(super) fn install() -> Vec<MissingTool> {
    let missing = || {
        let lacks = |tool: &&Tool| !tool.programs.iter().all(|program| starts(program));
        TOOLS.iter().filter(lacks)
    };
    let packages: Vec<&str> = missing().flat_map(|tool| tool.packages).copied().collect();
    if packages.is_empty() {
        return Vec::new();
    }
    let mut said = None;
    if is_root() && starts("apt-get") {
        step::announce(&format!(
            "installing the Debian packages {} for tests",
            packages.join(", ")
        ));
        let install = ["install", "--yes", "--quiet", "--no-install-recommends"];
        let installed = apt_get(&["update", "--quiet"])
            .and_then(|()| apt_get(&[&install[..], &packages].concat()));
        said = installed.err().map(|error| step::error_text(&error));
    }
    let told = |tool: &Tool| MissingTool {
        tool: tool.name,
        notice: format!(
            "{}; to change that, run `apt-get install {}` as root",
            tool.consequence,
            tool.packages.join(" ")
        ),
        installer_output: said.clone(),
    };
    missing().map(told).collect()
}

fn apt_get(arguments: &[&str]) -> anyhow::Result<()> {
    let mut apt = Command::new("apt-get");
    apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    step::output(&mut apt, "see the output of apt-get above").map(drop)
}

fn starts(program: &str) -> bool {
    step::succeeds(Command::new(program).arg("--version"))
}

/// Returns whether this runs as root. Set-up does not ask for more rights.
fn is_root() -> bool {
    step::output(Command::new("id").arg("-u"), "").is_ok_and(|id| id.trim() == "0")
}
