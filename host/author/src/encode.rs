//! Encoding of core WebAssembly modules as components. A module describes the WIT types of its world in a custom
//! section.

use wit_component::ComponentEncoder;

/// Magic number and version of a core module.
const HEADER: &[u8] = b"\0asm\x01\0\0\0";
/// Section id of custom sections.
const CUSTOM_SECTION: u8 = 0;

/// Reason why bytes cannot be encoded as a component.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The bytes are not a module.
    #[error("is not a WebAssembly module: {0}")]
    NotAModule(&'static str),
    /// The module does not match its world.
    #[error("cannot be encoded as a component: {0}")]
    WorldMismatch(String),
}

/// Encodes `module` as a component, without its debug information and other sections that only tools read.
///
/// # Errors
/// [`EncodeError::NotAModule`] if the bytes are not a core module. [`EncodeError::WorldMismatch`] if the module does not
/// describe the types of its world, or if its imports or exports do not have these types.
pub fn encode(module: &[u8]) -> Result<Vec<u8>, EncodeError> {
    let module = strip_custom_sections(module).map_err(EncodeError::NotAModule)?;
    ComponentEncoder::default()
        .validate(true)
        .module(&module)
        .and_then(|mut encoder| encoder.encode())
        // The text of the error includes all causes.
        .map_err(|error| EncodeError::WorldMismatch(format!("{error:#}")))
}

/// Removes custom sections, except two kinds: `name` has the names of functions, which make the backtrace of a trap
/// readable, and `component-type*` has the WIT types that the encoder needs.
fn strip_custom_sections(module: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut rest = module.strip_prefix(HEADER).ok_or("wrong header")?;
    let mut kept = HEADER.to_vec();
    while let Some((id, after_id)) = rest.split_first() {
        let (size, body) = leb128(after_id)?;
        if size > body.len() {
            return Err("a section extends beyond the file");
        }
        let (section, next) = body.split_at(size);
        if *id != CUSTOM_SECTION || is_needed(section)? {
            kept.extend_from_slice(&rest[..rest.len() - next.len()]);
        }
        rest = next;
    }
    Ok(kept)
}

/// Returns whether a custom section is kept, by its name.
fn is_needed(custom: &[u8]) -> Result<bool, &'static str> {
    let (size, name) = leb128(custom)?;
    let name = name
        .get(..size)
        .ok_or("a name extends beyond its section")?;
    Ok(name == b"name" || name.starts_with(b"component-type"))
}

/// Decodes an unsigned LEB128 number of at most 5 bytes. Returns the number and the remaining bytes.
fn leb128(bytes: &[u8]) -> Result<(usize, &[u8]), &'static str> {
    let mut value = 0u64;
    for (i, byte) in bytes.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            let value = usize::try_from(value).map_err(|_| "a number is too large")?;
            return Ok((value, &bytes[i + 1..]));
        }
    }
    Err("a number is incomplete or longer than 5 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn custom(name: &str, n_bytes: u8) -> Vec<u8> {
        let name_len = u8::try_from(name.len()).expect("a short name");
        let size = 1 + name_len + n_bytes;
        [
            &[CUSTOM_SECTION, size | 0x80, 0, name_len],
            name.as_bytes(),
            &vec![7; n_bytes.into()],
        ]
        .concat()
    }

    #[test]
    fn keeps_names_types_and_code_and_drops_the_rest() {
        let code = [10, 2, 1, 2].as_slice();
        let (names, types) = (custom("name", 9), custom("component-type:order", 3));
        let module = [
            HEADER,
            &custom(".debug_info", 60),
            code,
            &names,
            &custom("producers", 5),
            &types,
        ]
        .concat();
        assert_eq!(
            strip_custom_sections(&module),
            Ok([HEADER, code, &names, &types].concat())
        );
    }

    #[test]
    fn refuses_what_is_no_module() {
        for bytes in [
            b"".as_slice(),
            b"\x7fELF\x02\x01\x01\0\0",
            b"\0asm\x01\0\0\0\0\x05\x01a",
            b"\0asm\x01\0\0\0\0\xff\xff",
        ] {
            assert!(
                matches!(encode(bytes), Err(EncodeError::NotAModule(_))),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn refuses_a_module_that_exports_what_no_world_has() {
        // (module (import "env" "exit" (func)))
        let module = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x02\x0c\x01\x03env\x04exit\0\0";
        assert!(matches!(encode(module), Err(EncodeError::WorldMismatch(_))));
    }
}
