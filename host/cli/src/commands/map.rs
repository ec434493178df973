//! `pbg-host map`, and maps in reports.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use pbg_model::ResolvedConfig;
use pbg_query::QueryModel;
use pbg_report::map::{self, MapEntities, MapError, MapPoint};
use pbg_report::pages;

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::line_reader::LineReader;
use crate::options::TrainedArgs;
use crate::terminal::{self, Terminal};
use crate::{load, model_notes, output};

/// Default number of entities of a map.
pub(crate) const COUNT: u32 = 400;

/// Draw a map of entities in two dimensions.
///
/// Places entities with similar embeddings near each other, by t-SNE that starts from the principal components.
/// Similarity is direction if the comparator is dot or cos, otherwise distance. The same model gives the same
/// map.
///
/// The map shows the entities that a file names, coloured by the groups in the file, or else the entities with the most
/// edges, coloured by entity type, or by groups of similar embeddings if there is only one type.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host map pbg.toml --html map.html
  pbg-host map model --entity-type city --count 1000 --html cities.html
  printf 'dog.n.01\\tanimals\\ncat.n.01\\tanimals\\npiano.n.01\\tinstruments\\n' | pbg-host map pbg.toml --names -
  pbg-host map pbg.toml --names topics.tsv --csv map.csv")]
pub(crate) struct Args {
    /// Arguments that name the model.
    #[command(flatten)]
    model: TrainedArgs,
    /// File of entities, one per line, optionally followed by a tab and a group; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    names: Option<PathBuf>,
    /// Number of entities to show, without `--names`.
    #[arg(long, value_name = "N", default_value_t = COUNT, conflicts_with = "names",
          value_parser = clap::value_parser!(u32).range(2..=map::MOST as i64))]
    count: u32,
    /// Entity type of the entities.
    #[arg(long, value_name = "TYPE")]
    entity_type: Option<String>,
    /// Write an HTML page that needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write name, group, x and y as CSV.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command. Without an output file, the coordinates are printed.
///
/// # Errors
/// When the model cannot be opened, an entity is unknown, or a file cannot be written.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let resolved = load::trained(&args.model, terminal)?;
    let mut model = pbg_query::QueryModel::open(&resolved)?;
    model_notes::warn_about_missing_rows(model.missing(), &resolved, terminal);
    let entity_type = args.entity_type.as_deref();
    let wanted = match &args.names {
        Some(file) => named(file, &mut model, entity_type)?,
        None => most_connected(args.count, &resolved, &mut model, entity_type)?,
    };
    let spots = place(wanted, &resolved, &mut model)?;
    output::render(args.csv.as_deref(), terminal, || pages::map::csv(&spots))?;
    output::render(args.html.as_deref(), terminal, || {
        pages::map::page(&spots, &resolved.config().checkpoint_path)
    })?;
    if args.json {
        return terminal::print_json(&spots);
    }
    if args.html.is_some() || args.csv.is_some() {
        return Ok(());
    }
    terminal::print(|out| {
        spots.iter().try_for_each(|spot| {
            let MapPoint { name, group, x, y } = spot;
            writeln!(out, "{name}\t{group}\t{x:.3}\t{y:.3}")
        })
    })
}

/// Reads the entities and groups from a file.
///
/// # Errors
/// When the file cannot be read or contains an unknown name.
pub(crate) fn named(
    file: &Path,
    model: &mut QueryModel<'_>,
    entity_type: Option<&str>,
) -> Result<MapEntities> {
    let mut lines = LineReader::open(file)?;
    let (mut entities, mut groups) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    while let Some(line) = lines.next()? {
        let (name, group) = line.split_once('\t').unwrap_or((&line, ""));
        if name.is_empty() || !seen.insert(name.to_owned()) {
            continue;
        }
        if entities.len() == map::MOST {
            return Err(refused(MapError::TooMany(entities.len() + 1)).context(lines.location()));
        }
        let found = model.named(name, entity_type);
        entities.push(found.map_err(|e| Failure::from(e).context(lines.location()))?);
        groups.push(group.to_owned());
    }
    let grouped = groups.iter().any(|group| !group.is_empty());
    Ok(MapEntities::new(entities, grouped.then_some(groups)))
}

/// Chooses the entities with the most trained edges.
///
/// # Errors
/// When the edges cannot be read, or the type does not exist.
pub(crate) fn most_connected(
    count: u32,
    resolved: &ResolvedConfig,
    model: &mut QueryModel<'_>,
    entity_type: Option<&str>,
) -> Result<MapEntities> {
    let sets = &resolved.config().edge_sets;
    let entities = model.most_connected(count as usize, sets, entity_type)?;
    Ok(MapEntities::new(entities, None))
}

/// Computes the places of entities.
///
/// # Errors
/// When there are too few entities, or the model cannot be read.
pub(crate) fn place(
    entities: MapEntities,
    resolved: &ResolvedConfig,
    model: &mut QueryModel<'_>,
) -> Result<Vec<MapPoint>> {
    let placed = entities.place(resolved.blueprint().spec.comparator, model);
    placed.map_err(refused)
}

fn refused(error: MapError) -> Failure {
    match error {
        MapError::Model(error) => error.into(),
        MapError::Thread(_) => Failure::new(FailureKind::Internal, error),
        _ => Failure::message(FailureKind::Usage, error),
    }
}
