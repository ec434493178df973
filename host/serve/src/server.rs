//! Accepts connections, each on a thread of its own.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::http::{HttpConnection, HttpLimits, HttpRequest, HttpResponse, Received};

/// Interval at which the server looks whether it shall stop.
const TICK: Duration = Duration::from_millis(50);
/// Stack of a thread for a connection, in bytes.
const STACK: usize = 1 << 20;

/// Function that answers requests.
pub(crate) type Handler<'h> = dyn Fn(&HttpRequest) -> HttpResponse + Sync + 'h;

/// Server that listens on an address.
pub struct HttpServer {
    listener: TcpListener,
    limits: HttpLimits,
}

impl HttpServer {
    /// Listens on `address`.
    ///
    /// # Errors
    /// When the system refuses the address.
    pub fn bind(address: SocketAddr, limits: HttpLimits) -> io::Result<Self> {
        Ok(Self {
            listener: TcpListener::bind(address)?,
            limits,
        })
    }

    /// Returns the address, with the port that the system has chosen for port 0.
    ///
    /// # Errors
    /// When the system does not know it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests with `handler` until `stop` is set. Returns once all connections are closed.
    ///
    /// # Errors
    /// When the address of the server is unknown.
    pub fn run(&self, handler: &Handler<'_>, stop: &AtomicBool) -> io::Result<()> {
        let address = reachable(self.address()?);
        let open = AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    pbg_clock::sleep(TICK);
                }
                // Wakes the thread that accepts connections.
                let _unanswered = TcpStream::connect_timeout(&address, TICK * 20);
            });
            while !stop.load(Ordering::SeqCst) {
                let Ok((stream, _)) = self.listener.accept() else {
                    // Too many open files, for instance.
                    pbg_clock::sleep(TICK);
                    continue;
                };
                if open.fetch_add(1, Ordering::SeqCst) >= self.limits.connections {
                    open.fetch_sub(1, Ordering::SeqCst);
                    refuse(stream, &self.limits, stop);
                    continue;
                }
                let open = &open;
                let serve = move || {
                    let _closed = OpenConnection(open);
                    self.serve(stream, handler, stop);
                };
                let thread = thread::Builder::new().stack_size(STACK);
                if thread.spawn_scoped(scope, serve).is_err() {
                    // The connection is closed, since the closure that owns it is dropped.
                    open.fetch_sub(1, Ordering::SeqCst);
                }
            }
        });
        Ok(())
    }

    /// Answers the requests of a connection.
    fn serve(&self, stream: TcpStream, handler: &Handler<'_>, stop: &AtomicBool) {
        let Ok(mut connection) = HttpConnection::new(stream, &self.limits, stop) else {
            return;
        };
        loop {
            let (response, closes) = match connection.receive() {
                Received::Ended => return,
                Received::Refused(response) => {
                    if connection.respond(&response, true).is_ok() {
                        connection.close_unread();
                    }
                    return;
                }
                Received::Request(request) => {
                    let answer = catch_unwind(AssertUnwindSafe(|| handler(&request)));
                    let failed = |_| HttpResponse::error(500, "internal error (a bug in pbg-host)");
                    let closes = request.closes() || stop.load(Ordering::SeqCst);
                    (answer.unwrap_or_else(failed), closes)
                }
            };
            if connection.respond(&response, closes).is_err() || closes {
                return;
            }
        }
    }
}

/// Counts a connection until it is closed.
struct OpenConnection<'o>(&'o AtomicUsize);

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Answers a connection that exceeds the limit. The response is short enough for the buffer of a new connection.
fn refuse(stream: TcpStream, limits: &HttpLimits, stop: &AtomicBool) {
    if let Ok(mut connection) = HttpConnection::new(stream, limits, stop) {
        let response = HttpResponse::error(503, "there are too many connections");
        let _unsent = connection.respond(&response, true);
    }
}

/// Returns an address by which this machine reaches `address`.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
