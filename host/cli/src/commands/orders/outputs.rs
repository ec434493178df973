//! Files with the results of a comparison or a study.

use std::convert::Infallible;
use std::path::PathBuf;

use pbg_report::figure::Figure;
use pbg_report::pages::comparison::PageError;
use pbg_report::provenance::{Documented, Provenance};
use pbg_report::svg;
use serde::Serialize;

use crate::failure::Result;
use crate::output;
use crate::terminal::Terminal;

/// Files to write. Each contains where the results come from.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Results in files")]
pub(super) struct OutputArgs {
    /// Write everything as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write one row per order and seed, in a study also per epoch, as CSV.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a report with figures as one HTML file that needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the tables in LaTeX, for the package booktabs.
    #[arg(long, value_name = "FILE")]
    latex: Option<PathBuf>,
    /// Write every figure as an SVG file into this folder, except those of the buffer over time.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// Write as JSON where the results come from: command, checksums of program and plugins, configuration, dataset, seeds,
    /// processor, date.
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
}

/// Function that returns the text of a file.
type Text<'a> = &'a dyn Fn() -> std::result::Result<String, PageError>;

/// Results in all formats.
pub(super) struct Results<'a, T> {
    pub(super) json: &'a T,
    pub(super) csv: Text<'a>,
    pub(super) html: Text<'a>,
    pub(super) latex: &'a dyn Fn() -> String,
    pub(super) figures: &'a dyn Fn() -> Vec<Figure>,
}

impl OutputArgs {
    /// Whether any file is to be written.
    pub(super) fn any(&self) -> bool {
        let (tables, pages) = (
            [&self.json, &self.csv, &self.latex],
            [&self.html, &self.svg],
        );
        let mut files = tables.into_iter().chain(pages).chain([&self.manifest]);
        files.any(|file| file.is_some())
    }

    /// Writes the files.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn write<T: Serialize>(
        &self,
        terminal: Terminal,
        provenance: &Provenance,
        results: &Results<'_, T>,
    ) -> Result<()> {
        let documented = Documented {
            provenance,
            results: results.json,
        };
        output::json(self.json.as_deref(), terminal, &documented)?;
        output::render(self.csv.as_deref(), terminal, results.csv)?;
        output::render(self.html.as_deref(), terminal, results.html)?;
        let latex = || Ok::<_, Infallible>((results.latex)());
        output::render(self.latex.as_deref(), terminal, latex)?;
        if let Some(folder) = &self.svg {
            for figure in (results.figures)() {
                if let Some(drawing) = svg::draw(&figure) {
                    let path = folder.join(format!("{}.svg", figure.id));
                    output::render(Some(&path), terminal, || Ok::<_, Infallible>(drawing))?;
                }
            }
        }
        output::json(self.manifest.as_deref(), terminal, provenance)
    }
}
