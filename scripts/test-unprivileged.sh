#!/usr/bin/env bash
# Runs the tests that meet the kernel once more as an unprivileged user without any capability, as in a restricted pod:
# the sandbox, the server, the client, and those end-to-end journeys that need no other program.
#
# As root the sandbox could pass by what root may do; here it cannot.
set -euo pipefail

uid=65532
packages='crates/sandbox sidecar agent-client tests/e2e'
# The stock CLI and the MCP suites live in root's home.
skip='*@(stock_cli|mcp_suites|agents)'

if [ "$(id -u)" != 0 ]; then
    echo 'test-unprivileged: not root, so the tests ran without privileges already' >&2
    exit 0
fi

dir=$(mktemp -d /var/tmp/unprivileged.XXXXXX)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
mkdir "$dir/home"
chown "$uid:$uid" "$dir/home"

drop=(setpriv --reuid "$uid" --regid "$uid" --clear-groups --bounding-set -all --inh-caps -all --no-new-privs)
run=("${drop[@]}" env -i "PATH=/usr/local/bin:/usr/bin:/bin" "HOME=$dir/home" "RUST_BACKTRACE=1")

# Tests know the absolute paths of their programs and data from when they were built. Where that user cannot reach
# them, the tests are built once more in a copy of the sources that it can reach.
root=$PWD
if ! "${drop[@]}" test -r "$root/Cargo.toml" -a -x "$(dirname "${E2E_BIN_DIR:-$root/target/debug}")"; then
    echo "test-unprivileged: uid $uid cannot reach $root; building in $dir/src" >&2
    mkdir "$dir/src"
    git ls-files -z --cached --others --exclude-standard | tar -c --null --files-from=- | tar -x -C "$dir/src"
    root=$dir/src
    export CARGO_TARGET_DIR=$dir/src/target
fi
cd "$root"

cargo build --quiet --workspace --all-features --bins --locked
# One line per test program: package folder, name, path. Built for the whole workspace, as `make test-rust` does, since what
# is built for some packages alone has other features, and so is built once more.
mapfile -t tests < <(
    cargo test --quiet --no-run --locked --workspace --all-features --message-format=json | python3 -c '
import json, os, sys
packages = [os.path.join(sys.argv[1], package) for package in sys.argv[2].split()]
for line in sys.stdin:
    m = json.loads(line)
    folder = os.path.dirname(m.get("manifest_path", ""))
    if m.get("executable") and m["profile"]["test"] and folder in packages:
        print(folder, os.path.basename(folder) + " " + m["target"]["name"], m["executable"], sep="\t")
' "$root" "$packages" | sort
)
[ "${#tests[@]}" -gt 0 ] || { echo 'test-unprivileged: no test program was built' >&2; exit 1; }
bins=${CARGO_TARGET_DIR:-$root/target}/debug

failed=()
for line in "${tests[@]}"; do
    IFS=$'\t' read -r folder name program <<<"$line"
    # shellcheck disable=SC2053
    [[ $name != $skip ]] || continue
    echo "     Running $name as uid $uid without capabilities"
    (cd "$folder" && "${run[@]}" "CARGO_MANIFEST_DIR=$folder" "E2E_BIN_DIR=$bins" "$program" --quiet) || failed+=("$name")
done
if [ "${#failed[@]}" -gt 0 ]; then
    echo "test-unprivileged: failed: ${failed[*]}" >&2
    exit 1
fi
echo "test-unprivileged: ok"
