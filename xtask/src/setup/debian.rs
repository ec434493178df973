//! Debian packages that some tests need, where this machine lets them be installed.

use std::process::Command;

use crate::step;

/// Programs, and the packages that have them.
const TOOLS: [(&[&str], &[&str], &str); 2] = [
    (
        &["clang", "wasm-ld"],
        &["clang", "lld"],
        "plugins in C are not built",
    ),
    (
        &["chromium"],
        &["chromium"],
        "reports are not opened in a browser",
    ),
];

/// Installs what is missing if this is root on Debian; else, or where that fails, says which tests do without.
pub(crate) fn install() {
    let missing = || {
        TOOLS
            .iter()
            .filter(|(programs, ..)| !programs.iter().all(|program| starts(program)))
    };
    let packages: Vec<&str> = missing()
        .flat_map(|(_, packages, _)| *packages)
        .copied()
        .collect();
    if packages.is_empty() {
        return;
    }
    if is_root() && starts("apt-get") {
        step::announce(&format!(
            "installing the Debian packages {} for tests",
            packages.join(", ")
        ));
        apt_get(&["update", "--quiet"]);
        let install = ["install", "--yes", "--quiet", "--no-install-recommends"];
        apt_get(&[&install[..], &packages].concat());
    }
    for (_, packages, consequence) in missing() {
        step::announce(&format!(
            "{consequence}: as root `apt-get install {}` gets what that needs",
            packages.join(" ")
        ));
    }
}

/// What fails is told as what is missing afterwards.
fn apt_get(arguments: &[&str]) {
    let mut apt = Command::new("apt-get");
    apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    step::succeeds(&mut apt);
}

fn starts(program: &str) -> bool {
    step::succeeds(Command::new(program).arg("--version"))
}

/// Without asking for rights: what the user has not, set-up does not take.
fn is_root() -> bool {
    step::output(Command::new("id").arg("-u"), "").is_ok_and(|id| id.trim() == "0")
}
