#!/usr/bin/env bash
# demo.sh AGENT_CLIENT: one command under the sandbox, and the same one without it.
set -euo pipefail

agent_client=$(realpath "$1")
dir=$(mktemp -d /var/tmp/sandbox-demo.XXXXXX)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
mkdir -p "$dir/workspace" "$dir/home/.ssh"
mkdir -m 777 "$dir/elsewhere"
echo 'a secret key, planted for this demo' >"$dir/home/.ssh/id_demo"
export HOME=$dir/home RUST_LOG=warn
unset AGENT_CLIENT_CONFIG CODEX_EXEC_SERVER_URL

if [ -t 1 ]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; else bold='' dim='' plain=''; fi
title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
fail() {
    echo "demo: $*" >&2
    exit 1
}

# One stream, so that complaints stand where they belong.
read -r -d '' script <<'SCRIPT' || true
exec 2>&1
echo "made in the workspace" > note.txt && cat note.txt
echo escaped > ../elsewhere/escaped.txt && echo "escaped.txt was written"
cat ~/.ssh/id_demo
exit 7
SCRIPT

cd "$dir/workspace"
title 'The command: write in the workspace, write outside of it, read a secret, exit 7'
printf '%s%s%s\n' "$dim" "$script" "$plain"

title "In the sandbox: agent-client exec -v -- sh -c '…'"
code=0
"$agent_client" exec -v -- sh -c "$script" 2>"$dir/receipt" || code=$?
echo "exit code $code"
[ "$code" = 7 ] || fail "exit code 7 was expected: $(cat "$dir/receipt")"
[ ! -e ../elsewhere/escaped.txt ] || fail 'the write outside went through'

title 'Its receipt, on stderr by -v'
fold -s -w 100 "$dir/receipt"

title "Without the sandbox: sh -c '…'"
code=0
sh -c "$script" || code=$?
echo "exit code $code"
[ -e ../elsewhere/escaped.txt ] || fail 'the control failed: the write outside does not work without a sandbox either'
