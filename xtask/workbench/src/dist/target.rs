//! Systems for which a release is built, and what they must not need.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use xtask::native::{Needs, SystemVersion, manylinux, needs};

/// System for which a release is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum DistTarget {
    /// Linux on x86-64.
    #[value(name = "x86_64")]
    X86_64,
    /// Linux on 64-bit Arm.
    Aarch64,
    /// macOS on Apple's processors.
    Macos,
}

/// The newest C library whose symbols a release may use.
pub(super) const GLIBC: SystemVersion = SystemVersion(2, 28);
/// The newest version behind `GLIBCXX_3.` that a bridge to libtorch may use, that of GCC 5; PyTorch needs a newer one.
const LIBSTDCXX: SystemVersion = SystemVersion(4, 21);
/// The C++ library, which bridges to libtorch need, and nothing else.
const CPP_LIBRARY: &str = "libstdc++.so.6";
/// The oldest macOS on which a release runs.
pub(super) const MACOS: SystemVersion = SystemVersion(11, 0);

/// Libraries that every Linux with that C library has (PEP 600).
const LINUX_LIBRARIES: [&str; 8] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "librt.so.1",
    "libpthread.so.0",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
];
/// Folders of libraries that every macOS has.
const MACOS_LIBRARIES: [&str; 2] = ["/usr/lib/", "/System/Library/Frameworks/"];

impl DistTarget {
    pub(super) const ALL: [Self; 3] = [Self::X86_64, Self::Aarch64, Self::Macos];

    /// Returns the name of the target for Rust.
    pub(super) fn triple(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-gnu",
            Self::Aarch64 => "aarch64-unknown-linux-gnu",
            Self::Macos => "aarch64-apple-darwin",
        }
    }

    /// Returns the name of the target for Zig, with the version of the C library or the system.
    pub(super) fn zig(self) -> String {
        match self {
            Self::X86_64 => format!("x86_64-linux-gnu.{GLIBC}"),
            Self::Aarch64 => format!("aarch64-linux-gnu.{GLIBC}"),
            Self::Macos => format!("aarch64-macos.{MACOS}-none"),
        }
    }

    /// Returns the tag of wheels for this target.
    pub(super) fn tag(self) -> String {
        match self {
            Self::X86_64 => manylinux(GLIBC, "x86_64"),
            Self::Aarch64 => manylinux(GLIBC, "aarch64"),
            Self::Macos => format!("macosx_{}_{}_arm64", MACOS.0, MACOS.1),
        }
    }

    /// Checks that a file which was built needs nothing beyond what the tag promises, and returns what it needs.
    ///
    /// # Errors
    /// When it is for another kind of system, or needs a newer one or libraries that not every machine has.
    pub(super) fn check(self, file: &Path) -> Result<SystemVersion> {
        self.check_needs(file, needs(file)?)
    }

    fn check_needs(self, file: &Path, needs: Needs) -> Result<SystemVersion> {
        let shown = file.display();
        let (version, limit, libraries) = match (self, needs) {
            (
                Self::X86_64 | Self::Aarch64,
                Needs::Linux {
                    glibc,
                    libstdcxx,
                    libraries,
                },
            ) => {
                ensure!(
                    libstdcxx <= Some(LIBSTDCXX),
                    "{shown} needs GLIBCXX_3.{} of the C++ library, newer than GLIBCXX_3.{LIBSTDCXX}",
                    libstdcxx.unwrap_or(LIBSTDCXX)
                );
                let version = glibc.unwrap_or(SystemVersion(2, 17));
                (version, GLIBC, libraries)
            }
            (Self::Macos, Needs::MacOs { minimum, libraries }) => (minimum, MACOS, libraries),
            (_, needs) => bail!("{shown} is not for {}: {needs:?}", self.triple()),
        };
        ensure!(
            version <= limit,
            "{shown} needs version {version} of the system, but {} promises {limit}",
            self.tag()
        );
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let is_bridge = name.starts_with("torch-") && name.ends_with(".so");
        let everywhere = |name: &String| match self {
            Self::Macos => MACOS_LIBRARIES
                .iter()
                .any(|folder| name.starts_with(folder)),
            _ if is_bridge && name == CPP_LIBRARY => true,
            // The extension itself has a name as well.
            _ => LINUX_LIBRARIES.contains(&name.as_str()),
        };
        if let Some(missing) = libraries.iter().find(|name| !everywhere(name)) {
            bail!("{shown} needs the library {missing}, which not every machine has");
        }
        Ok(version)
    }

    /// Returns the folder of what Cargo builds for this target with the profile `dist`.
    pub(super) fn built(self, cross: &Path) -> PathBuf {
        cross.join(self.triple()).join("dist")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linux(minor: u32, library: &str) -> Needs {
        Needs::Linux {
            glibc: Some(SystemVersion(2, minor)),
            libstdcxx: None,
            libraries: vec!["libc.so.6".to_owned(), library.to_owned()],
        }
    }

    #[test]
    fn the_tag_says_what_may_be_needed() {
        let tags = DistTarget::ALL.map(DistTarget::tag);
        assert_eq!(
            tags,
            [
                "manylinux_2_28_x86_64",
                "manylinux_2_28_aarch64",
                "macosx_11_0_arm64"
            ]
        );
        let check = |target: DistTarget, needs| target.check_needs(Path::new("file"), needs);
        let needed = check(DistTarget::X86_64, linux(17, "libm.so.6")).unwrap();
        assert_eq!(needed, SystemVersion(2, 17));
        let newer = check(DistTarget::Aarch64, linux(34, "libm.so.6")).unwrap_err();
        assert!(newer.to_string().contains("needs version 2.34"), "{newer}");
        let other = check(DistTarget::X86_64, linux(28, "libstdc++.so.6")).unwrap_err();
        assert!(other.to_string().contains("libstdc++"), "{other}");
        let bridge = |libstdcxx| {
            let needs = Needs::Linux {
                glibc: Some(SystemVersion(2, 14)),
                libstdcxx: Some(libstdcxx),
                libraries: vec![CPP_LIBRARY.to_owned()],
            };
            DistTarget::X86_64.check_needs(Path::new("bridges/torch-2.9.so"), needs)
        };
        bridge(LIBSTDCXX).unwrap();
        let newer = bridge(SystemVersion(4, 29)).unwrap_err();
        assert!(newer.to_string().contains("GLIBCXX_3.4.29"), "{newer}");
        check(DistTarget::Macos, linux(28, "libm.so.6")).unwrap_err();
        let mac = |minimum, library: &str| Needs::MacOs {
            minimum,
            libraries: vec![library.to_owned()],
        };
        check(DistTarget::Macos, mac(MACOS, "/usr/lib/libSystem.B.dylib")).unwrap();
        check(
            DistTarget::Macos,
            mac(SystemVersion(14, 0), "/usr/lib/libSystem.B.dylib"),
        )
        .unwrap_err();
        check(
            DistTarget::Macos,
            mac(MACOS, "/opt/homebrew/lib/libzstd.dylib"),
        )
        .unwrap_err();
    }

    /// What this machine builds by itself needs newer symbols, or fewer, and is read all the same.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_needs_of_a_real_program_are_checked() {
        let here = std::env::current_exe().unwrap();
        let refused = DistTarget::Macos.check(&here).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("is not for aarch64-apple-darwin"),
            "{refused}"
        );
        let Needs::Linux { glibc, .. } = needs(&here).unwrap() else {
            panic!("this is a Linux program");
        };
        assert_eq!(
            DistTarget::X86_64.check(&here).is_ok(),
            glibc.unwrap() <= GLIBC
        );
    }
}
