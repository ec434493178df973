//! Everything that is done with a trained model: ranking of edges, predictions, nearest neighbours, indexes, and the
//! combination of several models into one. Each reads a committed version and keeps little of it in memory; training
//! ranks its validation edges with the same code.
//!
//! In reading order: [`evaluate`](mod@evaluate) (ranks of edges, by one process, by several, or in parts by the
//! trainers of a run), [`Predictor`] (entities that best complete edges), [`index`] (nearest-neighbour indexes: built, opened,
//! walked), [`QueryModel`] (names, embeddings, scores and neighbours of single entities), and [`combine`](fn@combine).
//!
//! Invariants:
//!
//! * A command reads one version of the checkpoint from beginning to end, even if a run commits meanwhile.
//! * Only the table that was read last is kept in memory; a bound of the memory is compared with what is available
//!   before anything is read.
//! * Ranks depend neither on the number of threads nor on the division of edges into blocks. Ties count as the average
//!   rank.
//! * An index answers only for the embeddings that it was built from; scores along a walk are those of the model.
//!
//! It must not know the training loop, the partition buffer, the trainers of a distributed run, or the terminal.

mod calibration;
mod combine;
pub mod evaluate;
pub mod index;
mod query_model;
mod served;
mod without_operators;

pub use calibration::{
    CALIBRATION, Calibration, CalibrationOptions, ReliabilityBin, ScoreCurve, calibrate,
    calibration_needs,
};
pub use combine::{Combination, Combined, combine, last_versions};
pub use evaluate::predict::{
    AnswerNotes, AskedQuestion, MixedPredictions, PredictOptions, Prediction, Predictions,
    Predictor, Question, RelationQuestion, Unanswerable, predict_needs,
};
pub use evaluate::{
    CandidateSet, EvalOptions, EvalReport, GroupBy, GroupRanks, ListedCandidates, ListedLimits,
    ListedRanker, ListedReport, MissingEdge, MissingOptions, MissingSearch, NamedEdge, eval_needs,
    evaluate, evaluate_given, evaluate_together, evaluate_with_seed, listed_needs, missing_needs,
    missing_pairs,
};
pub use index::{
    BeamWidth, BuiltType, ExactReason, IndexOptions, IndexProgress, IndexQueryOptions, IndexReport,
    build_index, has_index, index_needs,
};
pub use query_model::{EntityEmbeddings, NamedEntity, Neighbor, QueryModel};
pub use served::{
    Named, RefusedQuestion, ServeOptions, ServedAnswer, ServedModel, ServedPartitions,
    ServedSearch, ServedWorker, serve_needs,
};
