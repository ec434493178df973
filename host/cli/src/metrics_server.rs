//! HTTP server of the figures of a run.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use pbg_serve::{HttpLimits, HttpRequest, HttpResponse, HttpServer};

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::terminal::Terminal;
use crate::training_metrics::TrainingMetrics;

/// Media type of the answers.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Path of the figures.
const PATH: &str = "/metrics";

/// Server that answers with the figures of a run until it is dropped.
pub(crate) struct MetricsServer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Checks that figures are not sent to other machines without encryption, unless that is `allowed`.
fn require_safe(address: SocketAddr, allowed: bool) -> Result<()> {
    if allowed || address.ip().is_loopback() {
        return Ok(());
    }
    let what = format!(
        "--metrics-listen {address} would send the figures of this run to other machines without encryption; listen on \
         127.0.0.1 and forward the port (a proxy with TLS, `ssh -L`), or set distributed.insecure = true if nobody else is \
         on that network"
    );
    Err(Failure::message(FailureKind::Usage, what))
}

impl MetricsServer {
    /// Starts a server on `address`, and prints where the figures are. `insecure` says whether other machines may reach
    /// it.
    ///
    /// # Errors
    /// When the address cannot be listened on, or must not be.
    pub(crate) fn start(
        address: SocketAddr,
        insecure: bool,
        metrics: Arc<TrainingMetrics>,
        terminal: Terminal,
    ) -> Result<Self> {
        require_safe(address, insecure)?;
        let failed = |error| {
            Failure::new(FailureKind::Io, error).context(format!("cannot listen on {address}"))
        };
        let limits = HttpLimits {
            connections: 16,
            body_bytes: 0,
            ..HttpLimits::default()
        };
        let server = HttpServer::bind(address, limits).map_err(failed)?;
        let bound = server.address().map_err(failed)?;
        terminal.print_line(format_args!(
            "figures of this run are at http://{bound}{PATH}"
        ));
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let serve = move || {
            // It fails only without an address, and has one.
            let _ended = server.run(&|request| answer(&metrics, request), &is_over);
        };
        let named = thread::Builder::new().name("metrics".to_owned());
        Ok(Self {
            thread: Some(named.spawn(serve).map_err(failed)?),
            stop,
        })
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

fn answer(metrics: &TrainingMetrics, request: &HttpRequest) -> HttpResponse {
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", PATH) => HttpResponse::text(OPEN_METRICS, metrics.text()),
        (_, PATH) => HttpResponse::error(405, "only GET is answered"),
        _ => HttpResponse::error(404, "figures of the run are at /metrics"),
    }
}
