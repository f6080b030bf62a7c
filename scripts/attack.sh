#!/usr/bin/env bash
# Runs the attack suite: attack.sh [host|kernels|containers …], all of them without an argument. Each prints a table; the
# last line counts. As root, since it also runs as an unprivileged user and in containers; without root only as that user.
#
#   host         as root, and as uid 65532 without capabilities
#   kernels      as older kernels would have it: maxAbi 1 to 5, and 6 without the signal scope
#   containers   as uid 65532 in a restricted container, under podman's seccomp profile and under RuntimeDefault's, which must
#                be what the installed containerd makes of it
#
# ATTACK_BIN names the directory of the built programs; default target/debug.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
uid=65532
built=${ATTACK_BIN:-$here/../target/debug}

# Where that user reaches them, and a launch of the profile `none` does no harm.
bin=$(mktemp -d /var/tmp/attack.XXXXXX)
trap 'rm -rf "$bin"' EXIT
chmod 755 "$bin"
for program in sandbox-sidecar attack without_landlock examples/hostile; do
    install -m 755 "$built/$program" "$bin/"
done

passed=0 failed=0 misses=() unchecked=
# run TITLE COMMAND…: one table.
run() {
    local title=$1 out counts
    shift
    out=$bin/out
    "$@" --title "$title" 2>"$bin/err" | tee "$out" || true
    counts=$(sed -n "s/^$title: \([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p" "$out")
    if [ -z "$counts" ]; then
        echo "attack: $title did not come to its end:" >&2
        # Why is said first; the servers' logs follow it.
        grep -v '^{' "$bin/err" | head -n 40 >&2 || true
        tail -n 20 "$bin/err" >&2
        counts='0 1'
    fi
    passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
    [ "${counts#* }" = 0 ] || misses+=("$title")
}

as_root=(env "E2E_BIN_DIR=$bin" "$bin/attack")
drop=(setpriv --reuid "$uid" --regid "$uid" --clear-groups --bounding-set -all --inh-caps -all --no-new-privs)
[ "$(id -u)" = 0 ] || drop=()
unprivileged=("${drop[@]}" env -i "PATH=/usr/local/bin:/usr/bin:/bin" "E2E_BIN_DIR=$bin" "$bin/attack")

host() {
    [ "$(id -u)" != 0 ] || run 'host, root' "${as_root[@]}"
    run "host, uid $uid" "${unprivileged[@]}"
}

kernels() {
    local abi
    for abi in 1 2 3 4 5; do
        run "host, maxAbi $abi" "${unprivileged[@]}" --max-abi "$abi"
    done
    run 'host, ABI 6 without the signal scope' "${unprivileged[@]}" --max-abi 6 --without-signal-scope
}

containers() {
    if [ "$(id -u)" != 0 ]; then
        echo 'attack: not root, so not in containers' >&2
        return
    fi
    "$here/containers.sh" base
    # What cannot be had here is no fault of the sandbox, and is no pass either.
    if ! "$here/setup.sh" containerd; then
        unchecked='; NOT CHECKED, for there is no containerd: scripts/containers/runtime-default.json'
    elif "$here/containers.sh" profile; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1)) misses+=('runtime-default.json')
    fi
    local seccomp
    for seccomp in podman runtime-default; do
        run "container, $seccomp" "$here/containers.sh" restricted "$seccomp" --volume "$bin:/attack:ro" \
            --tmpfs /var/tmp:rw,exec,nosuid,nodev,mode=1777,notmpcopyup --env E2E_BIN_DIR=/attack \
            debian:bookworm-slim /attack/attack
    done
}

[ $# -gt 0 ] || set -- host kernels containers
for part in "$@"; do
    case $part in
    host | kernels | containers) "$part" ;;
    *) echo "attack: unknown: $part" >&2 && exit 64 ;;
    esac
done
echo "attack: $passed passed, $failed failed${misses[*]:+ (in: $(printf '%s; ' "${misses[@]}"))}$unchecked"
[ "$failed" = 0 ]
