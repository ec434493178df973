//! A core module with the WIT of its world in it becomes a component.

use anyhow::{Context, Result, ensure};
use wit_component::ComponentEncoder;

const HEADER: &[u8] = b"\0asm\x01\0\0\0";
const CUSTOM_SECTION: u8 = 0;

/// The component of `module`, without what only tools read.
pub(crate) fn encode(module: &[u8]) -> Result<Vec<u8>> {
    let module = without_clutter(module).context("it is no WebAssembly module")?;
    ComponentEncoder::default()
        .validate(true)
        .module(&module)?
        .encode()
}

/// Keeps the names of functions, which make a trap readable, and the types that the encoder needs.
fn without_clutter(module: &[u8]) -> Result<Vec<u8>> {
    let mut rest = module.strip_prefix(HEADER).context("wrong header")?;
    let mut kept = HEADER.to_vec();
    while let Some((id, after_id)) = rest.split_first() {
        let (size, body) = leb128(after_id)?;
        ensure!(size <= body.len(), "a section ends after the file");
        let (section, next) = body.split_at(size);
        if *id != CUSTOM_SECTION || is_needed(section)? {
            kept.extend_from_slice(&rest[..rest.len() - next.len()]);
        }
        rest = next;
    }
    Ok(kept)
}

fn is_needed(custom: &[u8]) -> Result<bool> {
    let (size, name) = leb128(custom)?;
    let name = name.get(..size).context("a name ends after its section")?;
    Ok(name == b"name" || name.starts_with(b"component-type"))
}

/// An unsigned number of at most 32 bits, and what follows it.
fn leb128(bytes: &[u8]) -> Result<(usize, &[u8])> {
    let mut value = 0u64;
    for (i, byte) in bytes.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Ok((usize::try_from(value)?, &bytes[i + 1..]));
        }
    }
    anyhow::bail!("a number does not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn custom(name: &str, n_bytes: u8) -> Vec<u8> {
        let name_len = u8::try_from(name.len()).unwrap();
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
            without_clutter(&module).unwrap(),
            [HEADER, code, &names, &types].concat()
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
            assert!(encode(bytes).is_err(), "{bytes:?}");
        }
    }
}
