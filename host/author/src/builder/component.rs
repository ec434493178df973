//! Conversion of a core module to a component.

use std::fs;
use std::path::Path;

use crate::encode::encode;
use crate::error::BuildError;

/// Encodes a core module as a component.
pub(super) fn componentize(module: &Path, component: &Path) -> Result<(), BuildError> {
    let bytes = fs::read(module).map_err(|e| BuildError::io("read", module, e))?;
    let encoded = encode(&bytes).map_err(|error| BuildError::Encode {
        module: module.to_owned(),
        error,
    })?;
    fs::write(component, encoded).map_err(|e| BuildError::io("write", component, e))
}
