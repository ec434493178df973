//! Random tokens, which identify trainers and records.

use pbg_ledger::Token;
use pbg_model::error::{JoinError, RunError};

/// Returns a token of 64 random bits.
pub(crate) fn random_token() -> Result<Token, RunError> {
    let bits = pbg_clock::random_u64().map_err(|e| JoinError::NoRandomBits(e.to_string()))?;
    Ok(Token(bits))
}
