//! `benches/gpu.sh`, on machines without a GPU.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::support::{Workplace, finish};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/gpu.sh");

/// Torch's libraries come first in the search path, whatever the environment sets, and the script ends if the program
/// does not start.
#[test]
fn it_ends_at_its_first_line_where_the_program_does_not_start() {
    let place = Workplace::empty();
    fs::copy(SCRIPT, place.path("run.sh")).unwrap();
    let program = "#!/bin/sh\necho \"$* with $LD_LIBRARY_PATH\" >>\"${0%/bin/*}/seen\"\n\
                   echo 'libtorch_cpu.so: cannot open shared object file' >&2\nexit 127\n";
    for (name, text) in [
        ("bin/pbg-host", program),
        ("fake/python3", "#!/bin/sh\necho /torch/lib\n"),
        ("tests/kernels", program),
    ] {
        let path = place.write(name, text);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = env::var("PATH").unwrap();
    let path = format!("{}:{path}", place.path("fake").display());
    for (set, searched) in [
        (Some("/elsewhere:/more"), "/torch/lib:/elsewhere:/more"),
        (Some(""), "/torch/lib"),
        (None, "/torch/lib"),
    ] {
        let mut script = Command::new("sh");
        script.arg(place.path("run.sh")).env("PATH", &path);
        match set {
            Some(set) => script.env("LD_LIBRARY_PATH", set),
            None => script.env_remove("LD_LIBRARY_PATH"),
        };
        let finished = finish(&mut script);
        let said = &finished.stdout;
        assert_eq!(finished.code(), Some(8), "{said}");
        assert!(said.contains("does not start"), "{said}");
        assert!(said.contains("libtorch_cpu.so: cannot open"), "{said}");
        assert!(!said.contains("== "), "{said}");
        assert_eq!(place.read("seen"), format!("--version with {searched}\n"));
        fs::remove_file(place.path("seen")).unwrap();
    }
}
