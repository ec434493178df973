//! A NATS client with its own runtime, for callers that block.

use std::fs;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::rustls::{ClientConfig, crypto};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, RequestErrorKind};
use futures_util::StreamExt;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::ConnectError;
use crate::init_method::Address;
use crate::options::{ConnectionOptions, RunName};
use crate::secret::Secret;
use crate::signals::ConnectionEvents;

/// Timeout of connecting to a server.
const DIAL_WITHIN: Duration = Duration::from_secs(3);
/// Interval between pings. A server that leaves three of them unanswered is given up, and others are tried.
const PING_EVERY: Duration = Duration::from_secs(4);
/// Longest pause between two attempts to reconnect.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Longest time that tasks may take to end.
const END_WITHIN: Duration = Duration::from_secs(1);
/// Interval at which a client without a connection is checked.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Most unread messages of one subscription; further ones are dropped. At the largest size, this many take 128 MiB.
const QUEUE: usize = 128;

/// Credentials with which a client authenticates, and by which it verifies the server.
#[derive(Default)]
pub(crate) struct ServerAccess {
    seed: Option<String>,
    credentials: Option<String>,
    token: Option<String>,
    tls: Option<Tls>,
    follows: bool,
}

enum Tls {
    /// With the authority derived from a secret.
    Own(Box<ClientConfig>),
    /// With the files that the options name.
    Files(Box<ConnectionOptions>),
}

impl ServerAccess {
    /// Returns the access to a server that rank 0 has started. Beyond the local machine, traffic is encrypted.
    ///
    /// # Errors
    /// Fails if no keys can be created.
    pub(crate) fn private(secret: Option<&Secret>, to: &Address) -> Result<Self, ConnectError> {
        let Some(secret) = secret else {
            return Ok(Self::default());
        };
        let tls = match to.is_loopback() {
            true => None,
            false => Some(Tls::Own(Box::new(secret.tls()?))),
        };
        Ok(Self {
            seed: Some(secret.user_seed()?),
            tls,
            ..Self::default()
        })
    }

    /// Returns the access to the user's servers, which may announce further servers of their cluster.
    ///
    /// # Errors
    /// [`ConnectError::File`] if the credentials, or a certificate or its key, cannot be read.
    pub(crate) fn of_user(options: &ConnectionOptions, tls: bool) -> Result<Self, ConnectError> {
        let read = |path| fs::read_to_string(path).map_err(ConnectError::file(path));
        let credentials = options.credentials.as_deref().map(read).transpose()?;
        if tls {
            // They are read again for every connection, whose failure would not name the file.
            let identity = options
                .identity
                .iter()
                .flat_map(|(certificate, key)| [certificate, key]);
            for path in options.authority.iter().chain(identity) {
                fs::read(path).map_err(ConnectError::file(path))?;
            }
        }
        Ok(Self {
            seed: None,
            credentials,
            token: options
                .token
                .as_ref()
                .map(|token| token.expose().to_owned()),
            tls: tls.then(|| Tls::Files(Box::new(options.clone()))),
            follows: true,
        })
    }

    fn apply(&self, mut to: ConnectOptions) -> Result<ConnectOptions, DialFailure> {
        if let Some(seed) = &self.seed {
            to = to.nkey(seed.clone());
        }
        if let Some(token) = &self.token {
            to = to.token(token.clone());
        }
        if let Some(credentials) = &self.credentials {
            let used = to.credentials(credentials);
            // The parser's message could contain a part of the file.
            to =
                used.map_err(|_| DialFailure::Refused("the credentials file is invalid".into()))?;
        }
        if !self.follows {
            to = to.ignore_discovered_servers();
        }
        Ok(match &self.tls {
            None => to,
            Some(Tls::Own(config)) => to.tls_client_config((**config).clone()).require_tls(true),
            Some(Tls::Files(options)) => {
                to = to.require_tls(true);
                if let Some(authority) = &options.authority {
                    to = to.add_root_certificates(authority.clone());
                }
                match &options.identity {
                    Some((certificate, key)) => {
                        to.add_client_certificate(certificate.clone(), key.clone())
                    }
                    None => to,
                }
            }
        })
    }
}

/// Reason for which a server cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialFailure {
    /// Authentication failed, of the client or of the server.
    #[error("{0}")]
    Refused(String),
    /// It does not answer like a server.
    #[error("{0}")]
    Silent(String),
}

/// Runtime that ends in bounded time. A name lookup, which cannot be interrupted, may continue without it.
struct Bounded(Option<Runtime>);

impl Drop for Bounded {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_timeout(END_WITHIN);
        }
    }
}

/// Connector to servers.
#[derive(Clone)]
pub(crate) struct Dialer {
    /// Ends the runtime when the last user is dropped.
    _runtime: Arc<Bounded>,
    handle: Handle,
    run: RunName,
}

impl Dialer {
    /// Creates a dialer with its own runtime.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub(crate) fn new(run: &RunName) -> Result<Self, ConnectError> {
        // The first caller decides for the whole process; another choice would work as well.
        crypto::ring::default_provider().install_default().ok();
        let mut builder = Builder::new_multi_thread();
        let built = builder
            .worker_threads(1)
            .thread_name("pbg-transport")
            .enable_all()
            .build();
        let runtime =
            built.map_err(|error| ConnectError::System(format!("start threads: {error}")))?;
        Ok(Self {
            handle: runtime.handle().clone(),
            _runtime: Arc::new(Bounded(Some(runtime))),
            run: run.clone(),
        })
    }

    /// Connects to the first of `servers` that answers.
    ///
    /// # Errors
    /// Fails if none answers, or if authentication fails.
    pub(crate) fn dial(
        &self,
        servers: &[Address],
        access: &ServerAccess,
    ) -> Result<NatsConnection, DialFailure> {
        let signals = Arc::new(ConnectionEvents::default());
        let hears = Arc::clone(&signals);
        let options = ConnectOptions::new()
            .name(format!("pbg-host {}", self.run.as_str()))
            .custom_inbox_prefix(format!("pbg.{}.inbox", self.run.as_str()))
            .connection_timeout(DIAL_WITHIN)
            .ping_interval(PING_EVERY)
            .subscription_capacity(QUEUE)
            .reconnect_delay_callback(|attempt| {
                let exponent = u32::try_from(attempt).unwrap_or(u32::MAX).min(20);
                Duration::from_millis(1 << exponent).min(LONGEST_PAUSE)
            })
            .event_callback(move |event| {
                hears.record_event(&event);
                std::future::ready(())
            });
        let options = access.apply(options)?;
        let scheme = if access.tls.is_some() { "tls" } else { "nats" };
        let urls: Vec<String> = servers
            .iter()
            .map(|server| format!("{scheme}://{server}"))
            .collect();
        let all = servers.len().max(1) as u32;
        match self.block(DIAL_WITHIN * 2 * all, options.connect(urls)) {
            None => Err(DialFailure::Silent("does not answer".into())),
            Some(Ok(client)) => Ok(NatsConnection {
                dialer: self.clone(),
                client,
                signals,
            }),
            Some(Err(error)) => Err(failure(&error)),
        }
    }

    /// Runs a future to completion, or returns `None` after `within`.
    pub(crate) fn block<T>(&self, within: Duration, future: impl Future<Output = T>) -> Option<T> {
        let bounded = async { tokio::time::timeout(within, future).await };
        self.handle.block_on(bounded).ok()
    }

    /// Runs a future that does not wait in the context of the runtime.
    pub(crate) fn run_now<T>(&self, future: impl Future<Output = T>) -> T {
        self.handle.block_on(future)
    }

    /// Runs a future in the background.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(future);
    }
}

fn failure(error: &async_nats::ConnectError) -> DialFailure {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    let is_refusal = match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => true,
        // A certificate that this client does not trust, or one of this client that the server does not.
        _ => text.contains("invalid peer certificate") || text.contains("received fatal alert"),
    };
    match is_refusal {
        true => DialFailure::Refused(text),
        false => DialFailure::Silent(text),
    }
}

/// Connection to a server, which reconnects by itself.
#[derive(Clone)]
pub(crate) struct NatsConnection {
    pub(crate) dialer: Dialer,
    pub(crate) client: Client,
    pub(crate) signals: Arc<ConnectionEvents>,
}

impl NatsConnection {
    /// Whether the client is connected to a server.
    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Waits until the client is connected. Otherwise it would queue messages, however large, and send them when no
    /// caller waits for the reply any more.
    pub(crate) async fn connected(&self) {
        while !self.is_connected() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until the server has processed everything sent before, including subscriptions. An error means that it has
    /// not.
    pub(crate) async fn flushed(&self, run: &RunName) -> Result<(), async_nats::RequestError> {
        self.connected().await;
        // No subscriber answers there, which the server reports at once.
        let nobody = format!("pbg.{}.nobody", run.as_str());
        match self.client.request(nobody, Vec::new().into()).await {
            Err(error) if error.kind() != RequestErrorKind::NoResponders => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether a heartbeat of a trainer of another run is received within `within`.
    pub(crate) fn receives_heartbeats(&self, run: &str, within: Duration) -> bool {
        let Ok(run) = RunName::new(run) else {
            return false;
        };
        let heard = async {
            match self
                .client
                .subscribe(format!("pbg.{}.beat", run.as_str()))
                .await
            {
                Ok(mut beats) => beats.next().await.is_some(),
                Err(_) => false,
            }
        };
        self.dialer.block(within, heard).unwrap_or(false)
    }
}
