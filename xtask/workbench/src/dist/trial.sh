#!/bin/sh
# trial.sh PROGRAM: trains a small graph twice in an empty folder. Both runs give the same bytes, and the model answers.
set -eu
program=$1
cd "$(mktemp -d)"
"$program" --version
"$program" generate --entities 300 --edges 3000 --relations 3 --groups 10 --out train.tsv
for run in first second; do
    {
        printf 'workers = 1\nseed = 1\n'
        "$program" config new --preset complex | sed -e "s/^checkpoint_path = .*/checkpoint_path = \"$run\"/" \
            -e 's/^dimension = .*/dimension = 64/' -e 's/^num_epochs = .*/num_epochs = 3/' \
            -e 's/^num_uniform_negs = .*/num_uniform_negs = 100/' -e 's/^num_partitions = .*/num_partitions = 2/'
    } >"$run.toml"
    [ -e dataset ] || "$program" import "$run.toml" --edges train=train.tsv
    "$program" train "$run.toml"
    "$program" export "$run" --format npy --out "$run-vectors"
done
for file in first-vectors/*; do
    cmp "$file" "second-vectors/${file#*/}"
done
"$program" predict second --head e1 --relation r0 -k 3
"$program" plugin list
