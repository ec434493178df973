//! Answers of a trained model over HTTP, as JSON.
//!
//! In reading order: [`HttpServer`] (connections, bounded in number, size and time), [`Api`] (the routes, and the queue of
//! questions), and `openapi.json`, their description. The model itself is a [`pbg_query::ServedModel`].
//!
//! Invariants:
//!
//! * A connection takes at most one thread, [`HttpLimits::head_bytes`] and [`HttpLimits::body_bytes`], and no request takes
//!   longer than [`HttpLimits::request_time`] to arrive.
//! * As many questions are answered at once as there are workers, and a bounded number waits; further ones are refused.
//! * Whatever a client sends is answered with a status and a sentence; a panic ends one answer and not the server.
//!
//! It must not know files, configurations, training, or the terminal.

mod api;
mod http;
mod server;
mod workers;

pub use api::Api;
pub use http::{HttpLimits, HttpRequest, HttpResponse};
pub use server::HttpServer;
