//! The server: its address, its threads, and its end.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::objects::ObjectMemory;
use crate::requests::ObjectBucket;
use crate::signature::AccessKey;

/// Largest number of connections at a time.
const MAX_CONNECTIONS: usize = 1024;
/// Time that the head of a request, or the greeting of an encrypted connection, may take.
const HEAD: Duration = Duration::from_secs(30);
/// Pause after a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(50);
/// Number of threads that answer.
const THREADS: usize = 2;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct MemoryServerOptions {
    /// Address at which it listens; with port 0, the system chooses one.
    pub listen: SocketAddr,
    /// Name of its bucket. A server that is started again should have another one, since its memory is empty.
    pub bucket: String,
    /// Largest size of all files together, in bytes.
    pub memory: u64,
    /// Key with which requests must be signed; `None` if all are answered.
    pub key: Option<AccessKey>,
    /// Certificate of an encrypted server.
    pub tls: Option<ServerTls>,
}

/// Certificate and key of an encrypted server, both as PEM.
#[derive(Clone)]
pub struct ServerTls {
    /// Certificate.
    pub certificate: String,
    /// Private key.
    pub key: String,
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerTls")
    }
}

/// Reason for which a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// It cannot listen at its address.
    #[error("cannot listen at {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// Its threads cannot be started.
    #[error("cannot start the threads of a partition server: {0}")]
    Threads(io::Error),
    /// Its certificate cannot be used.
    #[error("cannot use the certificate of a partition server: {0}")]
    Certificate(String),
}

/// Server of files in memory. It ends, and its files are gone, when it is dropped.
pub struct MemoryServer {
    address: SocketAddr,
    bucket: Arc<ObjectBucket>,
    /// Ends its tasks when it is dropped.
    _runtime: Runtime,
}

impl MemoryServer {
    /// Starts a server.
    ///
    /// # Errors
    /// When it cannot listen at its address, its certificate is wrong, or its threads cannot be started.
    pub fn start(options: MemoryServerOptions) -> Result<Self, ServerError> {
        let listen_error = |cause| ServerError::Listen {
            address: options.listen,
            cause,
        };
        let tls = options.tls.as_ref().map(acceptor).transpose()?;
        let listener = TcpListener::bind(options.listen).map_err(listen_error)?;
        listener.set_nonblocking(true).map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let mut builder = Builder::new_multi_thread();
        let builder = builder
            .worker_threads(THREADS)
            .thread_name("partitions")
            .enable_all();
        let runtime = builder.build().map_err(ServerError::Threads)?;
        let bucket = Arc::new(ObjectBucket {
            name: options.bucket,
            key: options.key,
            memory: ObjectMemory::new(options.memory),
        });
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(listen_error)?
        };
        runtime.spawn(accept(listener, Arc::clone(&bucket), tls));
        Ok(Self {
            address,
            bucket,
            _runtime: runtime,
        })
    }

    /// Returns the address at which it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of bytes of memory that files take.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.bucket.memory.held()
    }
}

fn acceptor(tls: &ServerTls) -> Result<TlsAcceptor, ServerError> {
    let wrong = |error: &dyn std::fmt::Display| ServerError::Certificate(error.to_string());
    // Fails if a provider was chosen before, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let certificates = CertificateDer::pem_slice_iter(tls.certificate.as_bytes());
    let certificates = certificates
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| wrong(&e))?;
    let key = PrivateKeyDer::from_pem_slice(tls.key.as_bytes()).map_err(|e| wrong(&e))?;
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config
        .with_single_cert(certificates, key)
        .map_err(|e| wrong(&e))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Takes connections until the runtime ends.
async fn accept(
    listener: tokio::net::TcpListener,
    bucket: Arc<ObjectBucket>,
    tls: Option<TlsAcceptor>,
) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            // For example, too many open files. The client waits.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (bucket, tls) = (Arc::clone(&bucket), tls.clone());
        tokio::spawn(async move {
            serve_connection(stream, bucket, tls).await;
            drop(place);
        });
    }
}

async fn serve_connection(stream: TcpStream, bucket: Arc<ObjectBucket>, tls: Option<TlsAcceptor>) {
    // Without this, only answers are slower.
    let _ = stream.set_nodelay(true);
    match tls {
        None => answer_all(stream, bucket).await,
        Some(tls) => {
            let greeted = tokio::time::timeout(HEAD, tls.accept(stream)).await;
            if let Ok(Ok(stream)) = greeted {
                answer_all(stream, bucket).await;
            }
        }
    }
}

async fn answer_all(stream: impl AsyncRead + AsyncWrite + Unpin, bucket: Arc<ObjectBucket>) {
    let answer = service_fn(|request| {
        let bucket = Arc::clone(&bucket);
        async move { Ok::<_, std::convert::Infallible>(bucket.answer(request).await) }
    });
    let mut http = http1::Builder::new();
    let http = http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    // The client notices an error of the connection as well, and nobody else needs to know.
    let _ = http.serve_connection(TokioIo::new(stream), answer).await;
}
