//! The pages that the program writes, opened in a browser if one is installed.

use std::path::Path;
use std::process::Command;

use crate::support::{Workplace, finish, graph::CONFIG};
use crate::tools::without;

/// Returns the name of an installed browser that runs without a screen.
fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let starts = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    names.into_iter().find(starts)
}

/// Returns the page's document after its scripts have run, and the browser's messages.
fn opened(browser: &str, place: &Workplace, page: &Path) -> (String, String) {
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .args(["--disable-dev-shm-usage", "--enable-logging=stderr"])
        // Milliseconds of the browser's virtual time for scripts, which does not depend on the machine's speed.
        .arg("--virtual-time-budget=60000")
        .arg(format!(
            "--user-data-dir={}",
            place.path("browser").display()
        ))
        .arg(format!("file://{}", page.display()));
    let finished = finish(&mut command).succeeds();
    (finished.stdout, finished.stderr)
}

#[test]
fn reports_draw_their_figures_in_a_browser() {
    let Some(browser) = browser() else {
        without("chromium", "there is no Chromium");
        return;
    };
    let place = Workplace::with_dataset(CONFIG);
    let comparison = [
        "orders",
        "compare",
        "--partitions",
        "4,6",
        "--buffer",
        "2,3",
        "--html",
        "orders.html",
    ];
    place.run(comparison).succeeds();
    let study = [
        "orders",
        "train",
        "--order",
        "random",
        "--order",
        "beta",
        "--edges",
        "test",
        "--html",
        "study.html",
    ];
    place.run(study).succeeds();
    place.run(["train", "--progress", "none"]).succeeds();
    place
        .run(["report", "model", "--html", "run.html"])
        .succeeds();
    place.write("questions.tsv", "süden 3\tnext\t?\n");
    let knows = ["report", "--html", "known.html", "--map", "--questions"];
    let knows = [&knows[..], &["questions.tsv", "--filter", "train"]].concat();
    place.run(knows).succeeds();
    place.run(["map", "--html", "map.html"]).succeeds();
    for (page, figures) in [
        ("orders.html", 5),
        ("study.html", 3),
        ("run.html", 3),
        ("known.html", 4),
        ("map.html", 1),
    ] {
        let (dom, said) = opened(browser, &place, &place.path(page));
        let drawn = dom.matches("class=\"main-svg\"").count();
        assert!(drawn >= figures, "{page} shows {drawn} figures:\n{said}");
        // Errors of scripts, and violations of the content security policy.
        let complaint = said.lines().find(|line| line.contains("CONSOLE"));
        assert_eq!(complaint, None, "{page}");
        // Names written next to points.
        let names = dom.matches("class=\"annotation-text\"").count();
        let mapped = ["known.html", "map.html"].contains(&page);
        assert!(names > 5 || !mapped, "{page}: {names}");
    }
}
