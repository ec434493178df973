//! What a native file (a program or a library, in ELF or Mach-O) needs of the system that loads it.

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail, ensure};

/// Version of a C library or of a system: major and minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SystemVersion(pub u32, pub u32);

impl fmt::Display for SystemVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl FromStr for SystemVersion {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || format!("{text:?} is not a version");
        let mut parts = text.split('.').map(str::parse);
        let (major, minor) = (parts.next().with_context(wrong)?, parts.next());
        Ok(Self(
            major.with_context(wrong)?,
            minor.unwrap_or(Ok(0)).with_context(wrong)?,
        ))
    }
}

/// Needs of a native file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Of an ELF file: the newest versions of the GNU C and C++ libraries among its symbols, if it uses any, and its
    /// libraries.
    Linux {
        /// Newest version behind `GLIBC_`.
        glibc: Option<SystemVersion>,
        /// Newest version behind `GLIBCXX_3.`.
        libstdcxx: Option<SystemVersion>,
        /// Names of libraries.
        libraries: Vec<String>,
    },
    /// Of a Mach-O file: the oldest macOS that loads it, and its libraries.
    MacOs {
        /// Oldest system.
        minimum: SystemVersion,
        /// Paths of libraries.
        libraries: Vec<String>,
    },
}

/// Reads the needs of a file.
pub fn needs(path: &Path) -> Result<Needs> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    of_bytes(&bytes).with_context(|| format!("{}", path.display()))
}

/// Returns whether a file begins as a native file does.
pub fn is_native(path: &Path) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes.starts_with(ELF) || bytes.starts_with(MACH_O))
}

/// Returns the tag of wheels for a machine such as `x86_64` whose C library has at least this version. No tag is older
/// than that of the first wheels with such tags.
pub fn manylinux(glibc: SystemVersion, machine: &str) -> String {
    let SystemVersion(major, minor) = glibc.max(SystemVersion(2, 17));
    format!("manylinux_{major}_{minor}_{machine}")
}

const ELF: &[u8] = b"\x7fELF\x02\x01";
/// Magic number of a 64-bit file, little-endian.
const MACH_O: &[u8] = &[0xcf, 0xfa, 0xed, 0xfe];

fn of_bytes(bytes: &[u8]) -> Result<Needs> {
    if bytes.starts_with(ELF) {
        elf(bytes)
    } else if bytes.starts_with(MACH_O) {
        mach_o(bytes)
    } else {
        bail!("is not a 64-bit, little-endian native file")
    }
}

/// Kinds of sections (`elf(5)`): libraries and other entries of the dynamic linker, and needed versions of symbols.
const SHT_DYNAMIC: u32 = 6;
const SHT_GNU_VERNEED: u32 = 0x6fff_fffe;
/// Entry of the dynamic section that names a library.
const DT_NEEDED: u64 = 1;

fn elf(bytes: &[u8]) -> Result<Needs> {
    let reader = Reader(bytes);
    let (table, count) = (reader.u64(0x28)?, reader.u16(0x3c)?);
    let place = |index: u64| table.saturating_add(64 * index);
    let (mut glibc, mut libstdcxx) = (None, None);
    let mut libraries = Vec::new();
    for index in 0..u64::from(count) {
        let section = place(index);
        let kind = reader.u32(section + 4)?;
        if kind != SHT_DYNAMIC && kind != SHT_GNU_VERNEED {
            continue;
        }
        let (start, size) = (reader.u64(section + 24)?, reader.u64(section + 32)?);
        let linked = u64::from(reader.u32(section + 40)?);
        let names = reader.u64(place(linked) + 24)?;
        if kind == SHT_DYNAMIC {
            for entry in (0..size / 16).map(|n| start + 16 * n) {
                if reader.u64(entry)? == DT_NEEDED {
                    let name = reader.u64(entry + 8)?;
                    libraries.push(reader.text(names.saturating_add(name))?);
                }
            }
        } else {
            glibc = glibc.max(newest(reader, start, names, "GLIBC_")?);
            libstdcxx = libstdcxx.max(newest(reader, start, names, "GLIBCXX_3.")?);
        }
    }
    Ok(Needs::Linux {
        glibc,
        libstdcxx,
        libraries,
    })
}

/// Returns the newest version whose name begins with `prefix`: reads the chained entries of `.gnu.version_r`, one per
/// library, each with the chain of its versions.
fn newest(
    reader: Reader<'_>,
    start: u64,
    names: u64,
    prefix: &str,
) -> Result<Option<SystemVersion>> {
    let mut newest = None;
    let mut library = start;
    loop {
        let mut version = library + u64::from(reader.u32(library + 8)?);
        for _ in 0..reader.u16(library + 2)? {
            let name = reader.text(names.saturating_add(reader.u32(version + 8)?.into()))?;
            if let Some(number) = name.strip_prefix(prefix) {
                // `GLIBC_PRIVATE` is for the C library's own parts.
                ensure!(
                    number.starts_with(|c: char| c.is_ascii_digit()),
                    "needs {name}"
                );
                newest = newest.max(Some(number.parse()?));
            }
            version += u64::from(reader.u32(version + 12)?);
        }
        match reader.u32(library + 12)? {
            0 => return Ok(newest),
            next => library += u64::from(next),
        }
    }
}

/// Load commands (`mach-o/loader.h`): the oldest system, and libraries, also weak and re-exported ones.
const LC_BUILD_VERSION: u32 = 0x32;
const LC_VERSION_MIN_MACOSX: u32 = 0x24;
const LIBRARIES: [u32; 3] = [0x0c, 0x8000_0018, 0x8000_001f];

fn mach_o(bytes: &[u8]) -> Result<Needs> {
    let reader = Reader(bytes);
    let mut minimum = None;
    let mut libraries = Vec::new();
    let mut command = 32;
    for _ in 0..reader.u32(16)? {
        let (kind, size) = (reader.u32(command)?, reader.u32(command + 4)?);
        match kind {
            LC_BUILD_VERSION => minimum = Some(reader.u32(command + 12)?),
            LC_VERSION_MIN_MACOSX => minimum = Some(reader.u32(command + 8)?),
            kind if LIBRARIES.contains(&kind) => {
                libraries.push(reader.text(command + u64::from(reader.u32(command + 8)?))?);
            }
            _ => {}
        }
        command += u64::from(size);
    }
    let number = minimum.context("does not say which macOS it is for")?;
    let minimum = SystemVersion(number >> 16, (number >> 8) & 0xff);
    Ok(Needs::MacOs { minimum, libraries })
}

/// Little-endian numbers and texts in the bytes of a file.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(self, at: u64) -> Result<[u8; N]> {
        let found = usize::try_from(at).ok().and_then(|at| self.0.get(at..));
        let found = found.and_then(|rest| rest.first_chunk::<N>());
        found.copied().context("ends within its headers")
    }

    fn u16(self, at: u64) -> Result<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    fn u32(self, at: u64) -> Result<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    fn u64(self, at: u64) -> Result<u64> {
        self.array(at).map(u64::from_le_bytes)
    }

    /// Reads a text that ends with a zero.
    fn text(self, at: u64) -> Result<String> {
        let rest = usize::try_from(at).ok().and_then(|at| self.0.get(at..));
        let end = rest.and_then(|rest| Some(&rest[..memchr::memchr(0, rest)?]));
        let text = end.context("ends within a name")?;
        Ok(String::from_utf8_lossy(text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program of these tests is linked with the C library of this machine.
    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn a_program_needs_the_system_that_it_was_built_on() {
        let Needs::Linux {
            glibc, libraries, ..
        } = needs(&std::env::current_exe().unwrap()).unwrap()
        else {
            panic!("this is a Linux program");
        };
        let here = crate::step::output(
            std::process::Command::new("getconf").arg("GNU_LIBC_VERSION"),
            "",
        );
        let here = here.unwrap().trim().replace("glibc ", "").parse().unwrap();
        let glibc = glibc.expect("Rust's library has versioned symbols");
        assert!(
            SystemVersion(2, 17) <= glibc && glibc <= here,
            "{glibc} {here}"
        );
        assert!(
            libraries.iter().any(|name| name == "libc.so.6"),
            "{libraries:?}"
        );
    }

    /// Whatever a file is cut to, it is read to its end or refused.
    #[test]
    #[cfg(target_os = "linux")]
    fn files_that_end_early_are_refused() {
        let whole = fs::read(std::env::current_exe().unwrap()).unwrap();
        for length in [0, 4, 16, 63, 64, whole.len() / 2, whole.len() - 64] {
            of_bytes(&whole[..length]).unwrap_err();
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(!is_native(&path));
        assert!(needs(&path).unwrap_err().to_string().contains("Cargo.toml"));
    }

    /// A header with two load commands, as in `mach-o/loader.h`.
    #[test]
    fn a_mac_program_says_which_system_it_is_for() {
        let library = b"/usr/lib/libSystem.B.dylib\0\0\0\0\0\0";
        let numbers =
            |numbers: &[u32]| -> Vec<u8> { numbers.iter().flat_map(|n| n.to_le_bytes()).collect() };
        let mut bytes = MACH_O.to_vec();
        bytes.extend(numbers(&[0x0100_000c, 0, 2, 2, 80, 0, 0]));
        bytes.extend(numbers(&[LC_BUILD_VERSION, 24, 1, 11 << 16, 14 << 16, 0]));
        bytes.extend(numbers(&[LIBRARIES[0], 56, 24, 0, 0, 0]));
        bytes.extend(library);
        let expected = Needs::MacOs {
            minimum: SystemVersion(11, 0),
            libraries: vec!["/usr/lib/libSystem.B.dylib".to_owned()],
        };
        assert_eq!(of_bytes(&bytes).unwrap(), expected);
    }

    #[test]
    fn tags_follow_the_c_library() {
        assert_eq!("2.28".parse::<SystemVersion>().unwrap().to_string(), "2.28");
        assert!(SystemVersion(2, 9) < "2.17".parse().unwrap());
        "PRIVATE".parse::<SystemVersion>().unwrap_err();
        let tag = |minor| manylinux(SystemVersion(2, minor), "x86_64");
        assert_eq!(tag(34), "manylinux_2_34_x86_64");
        assert_eq!(tag(5), "manylinux_2_17_x86_64");
    }
}
