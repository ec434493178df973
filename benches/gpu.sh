#!/bin/sh
# Tests and measurements on a machine with a GPU: whether steps equal those of the cores, the results and the speed of
# whole runs, and the errors if something is missing. `cargo xtask gpu` puts the required files next to this script, here
# or in an archive for another machine, which needs a GPU, Python with a torch whose bridge is there, and no compiler.
#
#   run.sh [FOLDER]     FOLDER: FB15k-237 as train.tsv.gz, valid.tsv.gz and test.tsv.gz, to compare with published figures
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
host=$here/bin/pbg-host
export XDG_CACHE_HOME="$work/cache" PBG_TEST_VECTORS="$here/vectors/pbg_steps.json" PBG_TEST_CUDA=1
PBG_HOST_LIBTORCH=$(python3 -c 'import os, torch; print(os.path.join(os.path.dirname(torch.__file__), "lib"))') || exit 8
export PBG_HOST_LIBTORCH PBG_HOST_TORCH_BRIDGES="$here/torch-bridges"
if ! "$host" bench kernels --seconds 0.1 >"$work/said" 2>&1; then
    echo "FAILED  the program does not load the libraries in $PBG_HOST_LIBTORCH"
    cat "$work/said"
    exit 8
fi
failed=0
gpu='--set execution.device="cuda:0"'
started=$(date +%s)
part() { printf '\n== %s (after %s s)\n' "$1" $(($(date +%s) - started)); }
# check WHAT COMMAND...: runs a command and reports whether it succeeded.
check() {
    what=$1
    shift
    if "$@" >"$work/said" 2>&1; then echo "ok      $what"; else
        failed=1
        echo "FAILED  $what"
        tail -n 30 "$work/said"
    fi
}
# refused WHAT CODE TEXT COMMAND...: runs a command that must end with this exit code and this text.
refused() {
    what=$1 code=$2 text=$3
    shift 3
    "$@" >"$work/said" 2>&1
    found=$?
    if [ $found = "$code" ] && grep -q "$text" "$work/said"; then echo "ok      $what"; else
        failed=1
        echo "FAILED  $what: exit code $found"
    fi
    grep -A1 '^error' "$work/said" | cut -c1-300 | sed 's/^/        /'
}
model() { echo "--set dataset=\"$work/$1\" --set checkpoint_path=\"$work/model/$2\""; }
mrr() { sed -n 's/^| *filtered *| *both *| *[0-9]* *| *\([0-9.]*\).*/\1/p' "$work/said"; }
# Prints the rate of the last epoch from the output of `train`.
rate() { grep '^epoch' "$work/said" | tail -n 1 | sed 's/.*(\(.*\)\/s).*/\1/'; }

part 'the machine'
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
echo "$(nproc) cores"

part 'steps on the GPU equal those of the cores and of PBG'
for tests in "$here"/tests/*; do
    check "$(basename "$tests"), tests of a GPU" "$tests" gpu
    grep -q '^test result: ok. [1-9]' "$work/said" || { failed=1 && echo 'FAILED  no test was run'; }
done

# whole NAME CONFIG EDGES: trains on the cores and on the GPU, and ranks test edges.
whole() {
    name=$1 config=$here/configs/$2 edges=$3
    check "$name: import" "$host" import "$config" $(model "$name" "$name") \
        --edges train="$edges/train.tsv.gz" --edges valid="$edges/valid.tsv.gz" --edges test="$edges/test.tsv.gz"
    shift 3
    for device in cpu cuda:0; do
        place=$(model "$name" "$name-$device")
        check "$name on $device" "$host" train "$config" $place "$@" --set execution.device="\"$device\""
        rate=$(rate)
        check "$name on $device: evaluation" "$host" eval "$config" $place --edges test --filter train,valid,test
        echo "        filtered MRR $(mrr), $rate edges/s in the last epoch"
    done
}
part 'whole runs'
whole wordnet fb15k237_pbg.toml "$here/edges" --set num_epochs=8
if [ $# -gt 0 ]; then
    whole fb15k237 fb15k237_pbg.toml "$1"
    place=$(model fb15k237 n3)
    config=$here/configs/fb15k237_complex_n3.toml
    check 'fb15k237 with all negatives and N3' "$host" train "$config" $place $gpu
    grep '^trained' "$work/said" | sed 's/^/        /'
    check 'the same: evaluation' "$host" eval "$config" $place --edges test --filter train,valid,test
    echo "        filtered MRR $(mrr)"
fi

part 'partitions are swapped, and a killed run resumes'
config=$here/configs/fb15k237_pbg_partitioned.toml
set -- $(model parted parted) --set num_edge_chunks=4 --set num_epochs=6
check 'import in 4 partitions' "$host" import "$config" "$@" \
    --edges train="$here/edges/train.tsv.gz" --edges valid="$here/edges/valid.tsv.gz" --edges test="$here/edges/test.tsv.gz"
"$host" train "$config" "$@" $gpu >"$work/killed" 2>&1 &
pid=$!
sleep 4
kill -9 $pid 2>/dev/null || echo '        the run had already ended'
wait $pid 2>/dev/null
echo "        killed after 4 s: $(tail -n 1 "$work/killed")"
check 'the same command resumes' "$host" train "$config" "$@" $gpu
check 'evaluation' "$host" eval "$config" "$@" --edges test --filter train,valid,test
echo "        filtered MRR $(mrr)"

part 'speed: ComplEx, 100 dimensions, 1,000 uniform negatives of 1,000 positives, both sides'
config=$here/speed.toml
"$host" generate --entities 500000 --edges 5000000 --relations 100 --out "$work/big.tsv" >"$work/said" 2>&1
check 'import' "$host" import "$config" $(model big big) --edges train="$work/big.tsv"
speed() {
    what=$1
    shift
    rm -rf "$work/model/big"
    check "$what" "$host" train "$config" $(model big big) "$@"
    echo "        $(rate) edges/s in the last of three epochs"
    # Without the time in which training waited for edges that no earlier epoch had requested.
    python3 - "$work/model/big/metrics.jsonl" <<'PYTHON'
import json, sys
epochs = [json.loads(line) for line in open(sys.argv[1])]
last = [line for line in epochs if line["event"] == "epoch_finished"][-1]
groups = {group["group"]: group for group in last["groups"]}
training = last["seconds"] - last["io"]["wait_seconds"]
print(f"        {last['stats']['count'] / training / 1e6:.2f} M/s without waiting for edges; busy of "
      f"{last['seconds']:.2f} s: " + ", ".join(f"{name} {group['busy']:.2f}" for name, group in groups.items()))
PYTHON
}
speed 'batches of 1,000' --set batch_size=1000
speed 'batches of 10,000'
speed 'batches of 50,000' --set batch_size=50000
speed 'batches of 50,000, bf16' --set batch_size=50000 --set 'execution.precision="bf16"'
if command -v ncu >/dev/null; then
    ncu --clock-control none --metrics gpu__time_duration.sum --launch-skip 1000 --launch-count 152 --csv \
        --log-file "$work/kernels.csv" "$host" bench train "$config" $(model big big) >"$work/said" 2>&1
    python3 - "$work/kernels.csv" <<'PYTHON'
import collections, csv, re, sys
rows = list(csv.reader(line for line in open(sys.argv[1]) if not line.startswith("==")))[1:]
times = collections.Counter()
for row in rows:
    name = re.sub(r"at::(native::)?|void |<.*", "", row[4])
    times[name[:60]] += float(row[-1].replace(",", "")) / 1000
total = sum(times.values())
print(f"        {len(rows)} kernels, {total / len(rows):.1f} us each (batches of 10,000):")
for name, time in times.most_common(10):
    print(f"        {100 * time / total:5.1f} %  {name}")
PYTHON
fi

part 'errors'
refused 'no visible GPU' 8 'libtorch finds no GPU' \
    env CUDA_VISIBLE_DEVICES= "$host" train "$config" $(model big none)
refused 'a GPU that does not exist' 8 'there is no GPU 7' \
    "$host" train "$config" $(model big none) --set 'execution.device="cuda:7"'
refused 'too little memory' 8 'out of memory' \
    "$host" train "$config" $(model big none) --set batch_size=2000000 --set chunk_size=50000 \
    --set num_uniform_negs=50000 --set execution.slice_bytes=1099511627776

part 'end'
[ $failed = 0 ] && echo 'all checks passed'
exit $failed
