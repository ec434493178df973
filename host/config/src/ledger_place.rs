//! Where the ledger of a configured run is.

use std::path::Path;

use pbg_files::remote;

use super::{Config, LedgerChoice, LedgerPlace};

impl Config {
    /// Returns where the trainers of the run keep their ledger; `None` for a single trainer, which needs none. A trainer
    /// that trains into an object store alone is one of several.
    #[must_use]
    pub fn ledger_place(&self) -> Option<LedgerPlace<'_>> {
        let has_server = self.distributed_init_method.is_some();
        let url = remote::as_url(Path::new(&self.checkpoint_path));
        match (self.distributed.ledger, url) {
            (LedgerChoice::Nats, _) | (_, None) => has_server.then_some(LedgerPlace::Server),
            (_, Some(url)) => Some(LedgerPlace::Store(url)),
        }
    }

    /// Returns whether the run has a ledger, as that of several trainers has, even if one takes part.
    #[must_use]
    pub fn is_distributed(&self) -> bool {
        self.ledger_place().is_some()
    }
}
