//! `pbg-host-torch`: `pbg-host` with libtorch. `pbg-host` replaces itself by it if a run needs libtorch.

fn main() {
    pbg_torch::install();
    pbg_cli::main()
}
