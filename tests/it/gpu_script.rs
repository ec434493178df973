//! `benches/gpu.sh`, on machines without a GPU.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::support::{Workplace, finish};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/gpu.sh");

/// The program gets the folder of the installed torch, and the script ends if the program cannot load it.
#[test]
fn it_ends_at_its_first_line_where_the_program_does_not_load_libtorch() {
    let place = Workplace::empty();
    fs::copy(SCRIPT, place.path("run.sh")).unwrap();
    let program = "#!/bin/sh\necho \"$* with $PBG_HOST_LIBTORCH and $PBG_HOST_TORCH_BRIDGES\" >>\"${0%/bin/*}/seen\"\n\
                   echo 'libtorch_cpu.so: cannot open shared object file' >&2\nexit 8\n";
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
    let mut script = Command::new("sh");
    script.arg(place.path("run.sh")).env("PATH", &path);
    let finished = finish(&mut script);
    let said = &finished.stdout;
    assert_eq!(finished.code(), Some(8), "{said}");
    assert!(said.contains("does not load"), "{said}");
    assert!(said.contains("libtorch_cpu.so: cannot open"), "{said}");
    assert!(!said.contains("== "), "{said}");
    let bridges = place.path("torch-bridges").display().to_string();
    let expected = format!("bench kernels --seconds 0.1 with /torch/lib and {bridges}\n");
    assert_eq!(place.read("seen"), expected);
}
