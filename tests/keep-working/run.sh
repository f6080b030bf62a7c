#!/usr/bin/env bash
# Runs the rows in this environment, as this user, under both profiles that may write:
# run.sh NAME DIR [FLAG…], where DIR holds the writable directories `workspace` and `outside`, and FLAG is for the sidecar.
#
# Prints a line per row and profile: NAME, profile, row, and `ok` or `FAILED`; tab-separated. Why a row failed goes to stderr.
# $ROWS names those to run, by a pattern of the shell.
set -euo pipefail

name=$1
dir=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
# The longest that a row may take, on a machine that does much else.
limit=120

# sandboxed ROW PROFILE FLAG…, in the row's directory.
sandboxed() {
    local row=$1 profile=$2 tty=()
    shift 2
    grep -q '^# run: --tty$' "$row" && tty=(--tty)
    timeout "$limit" "$here/sandbox-sidecar" run --profile "$profile" --workspace-root "$dir/workspace" --read-root "$here" \
        "$@" "${tty[@]}" -- bash "$here/row.sh" "$row" "$profile" "$dir/outside"
}

unconfined() { timeout "$limit" bash "$here/row.sh" "$1" "$2" "$dir/outside"; }

# fresh COMMAND…: in a directory that is there for it alone; stdout and stderr go to the files out and err.
fresh() {
    rm -rf "$dir/workspace/"*
    mkdir "$dir/workspace/row"
    (cd "$dir/workspace/row" && "$@" </dev/null) >"$dir/outside/out" 2>"$dir/outside/err"
}

kept() { [ "$(tail -n 1 "$dir/outside/out" | tr -d '\r')" = kept ]; }

# The proof that each row begins with fails without the sandbox.
fresh unconfined "$here/rows/bash.sh" workspaceWrite && code=0 || code=$?
[ "$code" = 99 ] || {
    echo "$name: without the sandbox a row found itself confined (code $code): $(cat "$dir/outside/err")" >&2
    exit 1
}

for profile in workspaceWrite workspaceWriteNoNetwork; do
    # shellcheck disable=SC2231
    for row in "$here/rows/"${ROWS:-*}.*; do
        tool=$(basename "${row%.*}")
        result=ok
        if ! { fresh sandboxed "$row" "$profile" "$@" && kept; }; then
            result=FAILED
            echo "== $name $profile $tool"
            tail -n 20 "$dir/outside/out" "$dir/outside/err"
            if fresh unconfined "$row" none && kept; then
                echo '== without the sandbox it works'
            else
                echo '== without the sandbox it does not work either'
            fi
        fi >&2
        printf '%s\t%s\t%s\t%s\n' "$name" "$profile" "$tool" "$result"
    done
done
rm -rf "$dir/workspace/"*
