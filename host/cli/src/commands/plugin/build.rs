//! `pbg-host plugin build`.

use std::path::{Path, PathBuf};

use pbg_author::{Language, Manifest};
use pbg_wasm::{Limits, PluginSource};

use crate::failure::Result;
use crate::format;
use crate::terminal::{self, Terminal};

use super::sandbox;

/// Build a plugin's project, and make a component of it.
///
/// Calls the tools of the project's language, whose messages appear as they are, encodes what
/// they leave as a component, and loads that once, so that what is wrong with it comes to light.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host plugin build
  pbg-host plugin build my_order")]
pub(crate) struct Args {
    /// Folder of the project.
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
}

pub(super) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let manifest = Manifest::read(&args.folder)?;
    if matches!(manifest.language, Language::Python | Language::JavaScript) {
        let (name, language) = (&manifest.name, manifest.language);
        terminal.say(format_args!(
            "building {name} with its {language} interpreter, which takes some seconds"
        ));
    }
    let built = pbg_author::build(&args.folder)?;
    let shown = shortest(&built.component);
    let plugin = sandbox(Limits::default(), terminal)?.open(PluginSource::File(built.component))?;
    let inspection = plugin.inspection();
    terminal.say(format_args!(
        "{} {}: a {} in {}, {}",
        inspection.metadata.name,
        inspection.metadata.version,
        inspection.kind,
        built.manifest.language,
        format::bytes(inspection.size)
    ));
    terminal.help(format_args!(
        "`pbg-host plugin check {0}` tries its promises, `pbg-host train --plugin {0}` trains with it",
        shown.display()
    ));
    terminal::print(|out| writeln!(out, "{}", shown.display()))
}

/// `./x.wasm` is `x.wasm`.
fn shortest(path: &Path) -> PathBuf {
    path.strip_prefix(".").unwrap_or(path).to_owned()
}
