//! The documented limits are those of the code.

use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- limits: written by `UPDATE_DOCS=1 cargo test --release -p pbg-library-tests`, do not edit -->\n";
const END: &str = "<!-- end of limits -->\n";

#[test]
fn the_page_on_safety_lists_the_limits_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plugins/safety.md");
    let page = fs::read_to_string(&path).expect("the page is there");
    let (before, rest) = page.split_once(BEGIN).expect("the list begins");
    let (listed, after) = rest.split_once(END).expect("the list ends");
    let limits = pbg_wasm::limits_markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let page = format!("{before}{BEGIN}{limits}{END}{after}");
        return fs::write(path, page).expect("the page can be written");
    }
    assert_eq!(
        listed, limits,
        "write it with `UPDATE_DOCS=1 cargo test --release -p pbg-library-tests sandbox::docs`"
    );
}
