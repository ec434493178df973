//! Listener to messages about the server.

use std::fmt;
use std::sync::Arc;

/// Callback that receives messages about the server, from any thread.
#[derive(Clone)]
pub struct ServerNotice(pub Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for ServerNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}
