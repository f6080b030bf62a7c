#!/usr/bin/env bash
# Fuzzes: fuzz.sh SECONDS [TARGET…]. Two targets at a time; at the end a table, and exit code 1 where one has crashed,
# hung or grown. What they find is in fuzz/artifacts, what they learn in fuzz/corpus. FUZZ_JOBS sets how many run at once,
# FUZZ_SEED what chance begins with: a change is then not refused for what another day's run would have found.
set -euo pipefail

seconds=${1:?usage: fuzz.sh SECONDS [TARGET…]}
shift
cd "$(dirname "$0")/.."
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(sed -n '/\[\[bin\]\]/{n;s/name = "\(.*\)"/\1/p}' fuzz/Cargo.toml)

# An input may take so long, seconds; a process may grow so far, MB.
hang=25
memory=1024

# Without a sanitizer: the unsafe code is raw system calls, and a launch shares memory with its shim, which none of them
# understands.
cargo +nightly fuzz build --sanitizer none
programs=fuzz/target/$(rustc +nightly -vV | sed -n 's/host: //p')/release

scratch=$(mktemp -d /var/tmp/fuzz.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
# No input fills the disk. The fuzzer's main function is not Rust's, which would ignore SIGPIPE.
ulimit -f $((64 * 1024))
trap '' XFSZ PIPE

one() {
    local target=$1 log=$scratch/$1.log
    mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target" "$scratch/$target"
    scripts/fuzz-corpus.py "$target" "$scratch/seeds-$target"
    TMPDIR=$scratch/$target "$programs/$target" "fuzz/corpus/$target" "$scratch/seeds-$target" \
        -dict=fuzz/dictionary.txt -artifact_prefix="fuzz/artifacts/$target/" -max_len=65536 -timeout=$hang \
        -rss_limit_mb=$memory -max_total_time="$seconds" ${FUZZ_SEED:+"-seed=$FUZZ_SEED"} -print_final_stats=1 >"$log" 2>&1 || echo "$target" >>"$scratch/failed"
}

echo "${targets[@]}" | tr ' ' '\n' | {
    running=0
    while read -r target; do
        one "$target" &
        running=$((running + 1))
        if [ "$running" -ge "${FUZZ_JOBS:-2}" ]; then
            wait -n || true
            running=$((running - 1))
        fi
    done
    wait
}

# Its own statistics: "#123 REDUCE cov: 1 ft: 2 corp: 3/4b lim: 5 exec/s: 6 rss: 78Mb …".
last() { grep -o "$2: [0-9]*" "$1" | sed -n "$3s/.*: //p"; }
printf '%-10s %12s %9s %9s %8s %8s %8s\n' target executions coverage corpus 'rss MB' 'at end' result
for target in "${targets[@]}"; do
    log=$scratch/$target.log
    result=ok
    grep -qx "$target" "$scratch/failed" 2>/dev/null && result=FAILED
    printf '%-10s %12s %9s %9s %8s %8s %8s\n' "$target" \
        "$(sed -n 's/stat::number_of_executed_units: *//p' "$log")" "$(last "$log" cov '$')" \
        "$(find "fuzz/corpus/$target" -type f | wc -l)" "$(last "$log" rss 1)" "$(last "$log" rss '$')" "$result"
    [ $result = ok ] || tail -n 30 "$log" >&2
done
[ ! -e "$scratch/failed" ]
