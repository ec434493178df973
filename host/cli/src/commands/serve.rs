//! `pbg-host serve`.

use std::net::SocketAddr;

use pbg_query::{IndexQueryOptions, RefusedQuestion, ServeOptions, ServedModel};
use pbg_serve::{Api, HttpLimits, HttpServer};

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::options::TrainedArgs;
use crate::terminal::Terminal;
use crate::{interrupt, load};

/// Answer questions over HTTP, until Ctrl-C.
///
/// POST /score, /predict, /neighbors and /names take and return JSON; GET /openapi.json describes them. The answers are
/// those of the commands, of the version of the checkpoint that was current at the start. Names, known edges and, if
/// there is room, embeddings are in memory. An index that `index` has built is used where its recall is high enough.
///
/// There is no password and no encryption: only programs on this machine can ask unless `--listen` says otherwise.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host serve model
  pbg-host serve model --listen 127.0.0.1:8080 --unfiltered
  curl -d '{\"head\": \"dog.n.01\", \"relation\": \"hypernym\", \"k\": 3}' http://127.0.0.1:7070/predict
  curl -d '{\"edges\": [[\"dog.n.01\", \"hypernym\", \"canine.n.02\"]]}' http://127.0.0.1:7070/score")]
pub(crate) struct Args {
    /// Arguments that name the model.
    #[command(flatten)]
    model: TrainedArgs,
    /// Address to listen on; port 0 chooses a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7070")]
    listen: SocketAddr,
    /// Edge sets whose edges are left out of predictions, separated by commas [default: all edge sets of the dataset].
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    filter: Option<Vec<String>>,
    /// Do not leave out known edges.
    #[arg(long, conflicts_with = "filter")]
    unfiltered: bool,
    /// Compare all entities, also if there is an index.
    #[arg(long)]
    exact: bool,
    /// Beam width of the search over the index in each partition [default: the width that found 95 % when the index was
    /// built; if none did, all entities are compared].
    #[arg(long, value_name = "N", conflicts_with = "exact", value_parser = clap::value_parser!(u32).range(1..))]
    width: Option<u32>,
    /// Number of questions that are answered at once [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// Largest number of questions that wait; further ones are answered with status 503.
    #[arg(long, value_name = "N", default_value_t = 64)]
    queue: u32,
    /// Only show the maximum memory that the command would use.
    #[arg(long)]
    check: bool,
    /// Print JSON with `--check`.
    #[arg(long, requires = "check")]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// When the model cannot be opened, or the address cannot be listened on.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let resolved = load::trained(&args.model, terminal)?;
    let sets = &resolved.dataset().manifest().edge_sets;
    let filter = match &args.filter {
        _ if args.unfiltered => Vec::new(),
        Some(named) => named.clone(),
        None => sets.keys().cloned().collect(),
    };
    let threads = args
        .threads
        .map_or_else(pbg_model::settings::cores, |n| n as usize);
    let has_index = pbg_query::has_index(&resolved);
    let is_wanted = !args.exact && (has_index || args.width.is_some());
    let options = ServeOptions {
        filter,
        index: is_wanted.then_some(IndexQueryOptions { width: args.width }),
        threads,
    };
    if args.check {
        resolved.admit_checkpoint()?;
        let [_, needs] = pbg_query::serve_needs(&resolved, &options)?;
        return super::check::print_needs("serving", &needs, args.json, terminal);
    }
    let model = ServedModel::open(&resolved, &options)?;
    let partitions = model.partitions()?;
    let api = Api::new(&model, &partitions, threads, args.queue as usize);
    let api = api.map_err(|refused| match refused {
        RefusedQuestion::Name(what) => Failure::message(FailureKind::Internal, what),
        RefusedQuestion::Run(error) => error.into(),
    })?;
    let failed = |error| {
        let failure = Failure::new(FailureKind::Io, error);
        failure.context(format!("cannot listen on {}", args.listen))
    };
    let server = HttpServer::bind(args.listen, HttpLimits::default()).map_err(failed)?;
    let address = server.address().map_err(failed)?;
    if !args.listen.ip().is_loopback() {
        terminal.warn(format_args!(
            "everybody who reaches {address} can ask this model: there is no password and no encryption"
        ));
    }
    for search in partitions.searches() {
        let how = match (search.width, search.reason) {
            (Some(width), _) => format!("found by the index, with width {width}"),
            // The reason begins with the word "exact".
            (None, Some(reason)) => reason.to_string(),
            (None, None) => "found by comparing all entities".to_owned(),
        };
        terminal.print_line(format_args!(
            "answers of type {} are {how}",
            search.entity_type
        ));
    }
    let place = if model.is_in_memory() {
        "in memory"
    } else {
        "read from disk"
    };
    terminal.print_line(format_args!(
        "version {}, embeddings {place}; listening on http://{address}, Ctrl-C ends",
        model.version()
    ));
    let stop = interrupt::watch("answering the last questions", terminal.announcer())?;
    server
        .run(&|request| api.answer(request), &stop)
        .map_err(failed)
}
