//! Partition servers, which keep partitions in memory between checkpoints.
//!
//! A server adds itself to the record, and again whenever the register has lost that. It is removed when it ends, or when
//! it was silent for the duration of a lease. The record does not say which server has which file.

use std::collections::BTreeSet;

use super::{LedgerRecord, MAX_ADDRESS, MAX_SERVERS, PartitionServer, Token, TransactionError};

impl LedgerRecord {
    /// Adds a partition server. One that is there already is not changed.
    pub(super) fn add_server(
        &mut self,
        token: Token,
        server: &PartitionServer,
    ) -> Result<(), TransactionError> {
        let (found, most) = (server.address.len(), MAX_ADDRESS);
        if found > most {
            return Err(TransactionError::Address { found, most });
        }
        if self.servers.len() >= MAX_SERVERS && !self.servers.contains_key(&token) {
            let (what, most) = ("partition servers of a run", MAX_SERVERS);
            return Err(TransactionError::TooMany { what, most });
        }
        self.servers.entry(token).or_insert_with(|| server.clone());
        self.end_gathering();
        Ok(())
    }

    /// Removes a partition server. Files that only it had are lost.
    pub(super) fn remove_server(&mut self, token: Token) -> Result<(), TransactionError> {
        match self.servers.remove(&token) {
            Some(_) => Ok(()),
            None => Err(TransactionError::NoServer { token }),
        }
    }

    /// Checks that at least one server of each set is still part of the run: files on the others are lost.
    pub(super) fn have_one_of_each(
        &self,
        sets: &[BTreeSet<Token>],
    ) -> Result<(), TransactionError> {
        let is_lost = |set: &&BTreeSet<Token>| set.iter().all(|t| !self.servers.contains_key(t));
        match sets.iter().find(is_lost).and_then(BTreeSet::first) {
            Some(&token) => Err(TransactionError::NoServer { token }),
            None => Ok(()),
        }
    }

    /// Ends the wait before the first bucket if all trainers and servers are there.
    pub(super) fn end_gathering(&mut self) {
        let servers = self.terms.servers.and_then(|servers| servers.count);
        let has_servers = self.servers.len() >= servers.unwrap_or(0) as usize;
        if self.trainers.len() >= self.wanted as usize && has_servers {
            self.wanted = 0;
        }
    }

    /// Checks the servers of a record that was read.
    pub(super) fn check_servers(&self) -> Result<(), String> {
        if self.servers.len() > MAX_SERVERS {
            return Err(format!("it has {} partition servers", self.servers.len()));
        }
        if let Some(terms) = &self.terms.servers
            && !matches!(terms.replicas, 1 | 2)
        {
            return Err(format!("it has {} replicas", terms.replicas));
        }
        let mut servers = self.servers.values();
        match servers.find(|server| server.address.len() > MAX_ADDRESS) {
            Some(server) => Err(format!(
                "the address of a partition server has {} bytes",
                server.address.len()
            )),
            None => Ok(()),
        }
    }
}
