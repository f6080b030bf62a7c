#!/usr/bin/env bash
# Prints which tools work under the sandbox, and fails where one does not: keep-working.sh SIDECAR [ROWS [COLUMN…]]
#
# Each row of tests/keep-working/rows is run under both profiles that may write: on this machine as root, as a user, and as a uid
# without a passwd entry; then in containers as a restricted pod has them, under podman's seccomp profile and under that of
# `seccompProfile: RuntimeDefault`. ROWS is a pattern of the shell, such as 'git*'. Without root only this user's part is run.
set -euo pipefail

sidecar=$1
export ROWS=${2:-*}
here=$(cd "$(dirname "$0")" && pwd)
uid=65532

# `nohup` and the like look at what stdin is.
exec </dev/null
dir=$(mktemp -d /var/tmp/keep-working.XXXXXX)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$dir"' EXIT
chmod 755 "$dir"
# Where every user can read it.
mkdir "$dir/suite"
cp -r "$here/../tests/keep-working/." "$dir/suite"
cp "$sidecar" "$dir/suite/sandbox-sidecar"
chmod -R a+rX "$dir/suite"

path=/usr/local/bin:/usr/bin:/bin
drop=(setpriv --reuid "$uid" --regid "$uid" --clear-groups --bounding-set -all --inh-caps -all --no-new-privs)
clean=(env -i LANG=C.UTF-8 "ROWS=$ROWS")

# here NAME COMMAND…: the rows on this machine, by that command.
here() {
    local name=$1
    shift
    mkdir -p "$dir/$name/"{workspace,outside,home}
    chmod 777 "$dir/$name/"*
    "$@" bash "$dir/suite/run.sh" "$name" "$dir/$name"
}

# container NAME SECCOMP FLAG…
container() {
    local name=$1 seccomp=$2
    shift 2
    "$here/containers.sh" restricted "$seccomp" "$@" --volume "$dir/suite:/opt/keep-working:ro" --env "ROWS=$ROWS" --env LANG=C.UTF-8 \
        --tmpfs /work:rw,exec,nosuid,nodev,mode=0777,notmpcopyup --workdir / localhost/tools:latest \
        sh -c 'mkdir /work/workspace /work/outside && exec bash /opt/keep-working/run.sh "$@"' sh "$name" /work --write-root /home/agent
}

# Runs the rows of one column.
column() {
    local home=$dir/$1/home
    case $1 in
    host-root | host-self) here "$1" "${clean[@]}" "PATH=$PATH" "HOME=$HOME" ;;
    host-user)
        { cat /etc/passwd && echo "kept:x:$uid:$uid::$home:/bin/bash"; } >"$dir/passwd"
        # Only these processes see that file in the place of /etc/passwd.
        # shellcheck disable=SC2016
        here "$1" unshare --mount sh -c 'mount --bind "$0" /etc/passwd && exec "$@"' "$dir/passwd" \
            "${drop[@]}" "${clean[@]}" "PATH=$path" "HOME=$home"
        ;;
    # What a container runtime gives to such a user.
    host-uid) here "$1" "${drop[@]}" "${clean[@]}" "PATH=$path" HOME=/ ;;
    container-podman) container "$1" podman --passwd=true --passwd-entry "kept:x:$uid:$uid::/home/agent:/bin/bash" ;;
    container-runtime-default) container "$1" runtime-default ;;
    *) echo "keep-working: no such column: $1" >&2 && false ;;
    esac
}

columns=("${@:3}")
if [ "$(id -u)" != 0 ]; then
    echo 'keep-working: not root, so only what this user can do here is tried' >&2
    columns=(host-self)
else
    [ "${#columns[@]}" != 0 ] || columns=(host-root host-user host-uid container-podman container-runtime-default)
    "$here/setup.sh" keep-working
    [[ ${columns[*]} != *container-* ]] || "$here/containers.sh" tools
fi

failed=0
for column in "${columns[@]}"; do
    while [ "$(jobs -pr | wc -l)" -ge "$(nproc)" ]; do
        wait -n || true
    done
    column "$column" >"$dir/$column.rows" 2>"$dir/$column.log" &
done
while [ -n "$(jobs -pr)" ]; do
    wait -n || true
done

# One line per tool; W is workspaceWrite, N workspaceWriteNoNetwork.
(cd "$dir" && cat "${columns[@]/%/.rows}") | awk -F '\t' -v columns="${columns[*]}" '
    BEGIN { n = split(columns, column, " ") }
    !($3 in seen) { seen[$3]; tool[++tools] = $3 }
    { cell[$1, $2, $3] = $4 }
    END {
        printf "%-24s", "tool"
        for (c = 1; c <= n; c++) printf "  %-26s", column[c]
        printf "\n%-24s", ""
        for (c = 1; c <= n; c++) printf "  %-8s%-18s", "write", "write, no network"
        for (t = 1; t <= tools; t++) {
            printf "\n%-24s", tool[t]
            for (c = 1; c <= n; c++) {
                printf "  %-8s%-18s", cell[column[c], "workspaceWrite", tool[t]], cell[column[c], "workspaceWriteNoNetwork", tool[t]]
            }
        }
        print ""
    }'
for column in "${columns[@]}"; do
    cat "$dir/$column.log" >&2
    ! grep -q "FAILED$" "$dir/$column.rows" || failed=1
done
rows=$(cd "$dir" && cat "${columns[@]/%/.rows}" | wc -l)
want=$((${#columns[@]} * 2 * $(find "$dir/suite/rows" -name "$ROWS.*" | wc -l)))
[ "$rows" = "$want" ] || {
    echo "keep-working: $rows results where there should be $want" >&2
    failed=1
}
exit "$failed"
