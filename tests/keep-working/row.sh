#!/usr/bin/env bash
# Runs one row: row.sh FILE PROFILE OUTSIDE, in an empty directory. The last word is `kept`, where it held.
#
# It proves first that it is confined as PROFILE says: it cannot write to OUTSIDE, which is writable for all, and has no
# inet sockets without a network. PROFILE `none` skips that proof.
set -euo pipefail

row=$1
PROFILE=$2
outside=$3
export PROFILE

is() { [ "$1" = "$2" ] || wrong "$1" "$2"; }
has() { [[ $1 == *"$2"* ]] || wrong "$1" "… $2 …"; }
wrong() {
    printf 'got:  %s\nwant: %s\n  at: %s line %s\n' "$1" "$2" "$(basename "$row")" "${BASH_LINENO[1]}" >&2
    return 1
}

# Looks again until the command succeeds; the row's time bounds it.
until_so() { until "$@"; do sleep 0.05; done; }

# For tools that must write to a cache in the home: where they cannot, the row names them another place.
home_may_be_written() { (mkdir -p ~/.cache/kept && echo >~/.cache/kept/file) >/dev/null 2>&1; }

confined() {
    if (echo >"$outside/$$") 2>/dev/null; then
        echo "not confined: $outside could be written to" >&2
        exit 99
    fi
    local socket
    socket=$( (exec 3<>/dev/tcp/127.0.0.1/1) 2>&1) || true
    case $PROFILE in
    workspaceWrite) [[ $socket != *'Operation not permitted'* ]] ;;
    workspaceWriteNoNetwork) [[ $socket == *'Operation not permitted'* ]] ;;
    *) false ;;
    esac || {
        echo "not confined as $PROFILE says: a connection gave: $socket" >&2
        exit 99
    }
}

[ "$PROFILE" = none ] || confined
if [[ $row == *.py ]]; then
    python3 "$row"
else
    # shellcheck source=/dev/null
    . "$row"
fi
echo kept
