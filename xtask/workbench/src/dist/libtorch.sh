#!/bin/sh
# libtorch.sh PROGRAM LIBTORCH...: loads each libtorch with the bridge for its version, and multiplies matrices with it.
set -eu
program=$1
shift
cd "$(mktemp -d)"
"$program" generate --entities 300 --edges 3000 --relations 3 --groups 10 --out train.tsv
"$program" config new --preset small >small.toml
"$program" import small.toml --edges train=train.tsv
for libtorch in "$@"; do
    echo "with the libtorch in $libtorch"
    PBG_HOST_LIBTORCH=$libtorch/lib "$program" bench train small.toml >said
    cat said
    grep -q "that libtorch's bmm alone would allow" said
done
