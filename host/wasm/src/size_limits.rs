//! Limits on what a component contains, checked before it is compiled or instantiated.
//!
//! A child process that compiles (`compiler.rs`) has limits on time and memory besides. Counting still comes first: it
//! costs next to nothing, its message says which count is too large, and nothing else bounds what instances use where
//! no code of the plugin runs.

pub(crate) mod cap;
mod code;
mod tree;

use wasmparser::{Parser, Payload};

use crate::fault::invalid_component;
use code::FunctionCounter;
use tree::InstanceCounter;

/// Returns an error if compiling or instantiating the component would take too long.
pub(crate) fn check(bytes: &[u8]) -> Result<(), String> {
    let (mut tree, mut code) = (InstanceCounter::default(), FunctionCounter::default());
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(invalid_component)?;
        if let Payload::CodeSectionEntry(body) = &payload {
            code.add(body)?;
        }
        tree.add(&payload)?;
    }
    Ok(())
}
