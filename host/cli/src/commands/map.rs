//! `pbg-host map`, and maps in reports.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use pbg_core::model::Comparator;
use pbg_model::ResolvedConfig;
use pbg_query::{EntityEmbeddings, NamedEntity, QueryModel};
use pbg_report::map::{self, MapError, MapPoint};
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
/// Similarity is distance if the comparator is l2 or squared_l2, otherwise direction. The same model gives the same
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
        Some(file) => MapEntities::named(file, &mut model, entity_type)?,
        None => MapEntities::most_connected(args.count, &resolved, &mut model, entity_type)?,
    };
    let spots = wanted.place(&resolved, &mut model)?;
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

/// Entities of a map, with their groups if given.
pub(crate) struct MapEntities {
    entities: Vec<NamedEntity>,
    groups: Option<Vec<String>>,
}

impl MapEntities {
    /// Reads the entities and groups from a file.
    ///
    /// # Errors
    /// When the file cannot be read or contains an unknown name.
    pub(crate) fn named(
        file: &Path,
        model: &mut QueryModel<'_>,
        entity_type: Option<&str>,
    ) -> Result<Self> {
        let mut lines = LineReader::open(file)?;
        let (mut entities, mut groups) = (Vec::new(), Vec::new());
        let mut seen = HashSet::new();
        while let Some(line) = lines.next()? {
            let (name, group) = line.split_once('\t').unwrap_or((&line, ""));
            if name.is_empty() || !seen.insert(name.to_owned()) {
                continue;
            }
            if entities.len() == map::MOST {
                return Err(
                    refused(MapError::TooMany(entities.len() + 1)).context(lines.location())
                );
            }
            let found = model.named(name, entity_type);
            entities.push(found.map_err(|e| Failure::from(e).context(lines.location()))?);
            groups.push(group.to_owned());
        }
        let grouped = groups.iter().any(|group| !group.is_empty());
        Ok(Self {
            entities,
            groups: grouped.then_some(groups),
        })
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
    ) -> Result<Self> {
        let sets = &resolved.config().edge_sets;
        Ok(Self {
            entities: model.most_connected(count as usize, sets, entity_type)?,
            groups: None,
        })
    }

    /// Computes the places of the entities.
    ///
    /// # Errors
    /// When there are too few entities, or the model cannot be read.
    pub(crate) fn place(
        self,
        resolved: &ResolvedConfig,
        model: &mut QueryModel<'_>,
    ) -> Result<Vec<MapPoint>> {
        // Long embeddings have large inner products with all others, so directions measure similarity.
        let comparator = match resolved.config().comparator {
            Comparator::Dot | Comparator::Cos => Comparator::Cos,
            Comparator::L2 | Comparator::SquaredL2 => Comparator::L2,
        };
        let chosen = model.embeddings(self.entities, Some(comparator))?;
        let places = map::project(&chosen.rows, chosen.dimension).map_err(refused)?;
        let groups = self.groups.unwrap_or_else(|| groups(&chosen));
        let spots = chosen.entities.into_iter().zip(groups).zip(places);
        let spot = |((entity, group), [x, y]): ((NamedEntity, String), [f64; 2])| MapPoint {
            name: entity.name,
            group,
            x,
            y,
        };
        Ok(spots.map(spot).collect())
    }
}

/// Returns the groups of entities if none are given: their types, or groups of similar embeddings.
fn groups(chosen: &EntityEmbeddings) -> Vec<String> {
    let entities = &chosen.entities;
    let types: HashSet<&str> = entities.iter().map(|e| e.entity_type.as_str()).collect();
    if types.len() > 1 {
        return entities.iter().map(|e| e.entity_type.clone()).collect();
    }
    let (groups, middles) = map::groups(&chosen.rows, chosen.dimension);
    let name = |group: usize| format!("around {}", entities[middles[group]].name);
    groups.into_iter().map(name).collect()
}

fn refused(error: MapError) -> Failure {
    match error {
        MapError::Thread(_) => Failure::new(FailureKind::Internal, error),
        _ => Failure::message(FailureKind::Usage, error),
    }
}
