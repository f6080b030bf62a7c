#!/usr/bin/env bash
# Runs the cases from the field, their races, and the model of a session, so many times in a row: cases.sh N. The first failure ends it.
set -euo pipefail

times=${1:?usage: cases.sh N}
log=$(mktemp /var/tmp/cases.XXXXXX)
trap 'rm -f "$log"' EXIT

for n in $(seq "$times"); do
    if ! cargo test --workspace --all-features --locked --no-fail-fast -- case_ races:: a_session_does_what_the_model_says >"$log" 2>&1; then
        cat "$log"
        echo "run $n of $times failed" >&2
        exit 1
    fi
    echo "run $n of $times: $(awk '/^test result: ok/ { passed += $4 } END { print passed }' "$log") passed"
done
