#!/usr/bin/env bash
# Real containers on a bare Debian machine, as root, without an image registry:
#
#   containers.sh base         the image debian:bookworm-slim, made by debootstrap from this machine's Debian mirror
#   containers.sh rust         rust:1.95-bookworm: that, gcc, and this machine's Rust toolchain
#   containers.sh tools        localhost/tools: that base and every program of containers/tools.txt
#   containers.sh profile [write]
#                              checks containers/runtime-default.json against what containerd makes here, or writes it anew
#   containers.sh restricted podman|runtime-default [PODMAN FLAG…] IMAGE [COMMAND…]
#                              one container as a restricted pod has it, under that seccomp profile; see below
#   containers.sh podman …     podman with the settings and the storage of all this
#   containers.sh clean        removes these images, their containers and their storage
#
# An image that is there and of the same recipe is left alone. Nothing is written to /etc; the storage is apart from the
# machine's own (containers/storage.conf).
#
# `restricted`: no capabilities, no_new_privs, a read-only root, no network but loopback, uid 65532 without a passwd
# entry. /workspace, /tmp, /home/agent and /run/sandbox-sidecar are empty and writable for all, as an emptyDir is. A
# later PODMAN FLAG beats these: `--user 1000:0`, `--network host`, `--volume …`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
recipes=$here/containers
export CONTAINERS_CONF=$recipes/containers.conf CONTAINERS_STORAGE_CONF=$recipes/storage.conf
# As in containers/storage.conf and containers/containers.conf.
storage=/var/lib/sandbox-sidecar-tests
runtime=/run/sandbox-sidecar-tests

suite=bookworm
base=localhost/debian:bookworm-slim
rust=localhost/rust:1.95-bookworm
tools=localhost/tools:latest

die() {
    printf 'containers: %s\n' "$*" >&2
    exit 1
}

# The recipe that an image here was made by; nothing where there is no such image.
recipe_of() { podman image inspect --format '{{index .Labels "recipe"}}' "$1" 2>/dev/null || true; }

# make IMAGE BUILDER FILE…: runs BUILDER with the recipe's hash, unless the image is there and of that hash. The hash
# is over the builder, the files, and $from: what the image is made from.
make() {
    local image=$1 builder=$2 recipe
    shift 2
    recipe=$({
        declare -f "$builder"
        printf '%s\n' "${from:-}"
        cat "$@"
    } </dev/null | sha256sum | cut -c-16)
    if [ "$(recipe_of "$image")" != "$recipe" ]; then
        echo "containers: making $image" >&2
        "$builder" "$image" "$recipe"
    fi
    [ "$(recipe_of "$image")" = "$recipe" ] || die "$image was not made"
}

# Sets $dir to a directory that goes with this script.
scratch() {
    dir=$(mktemp -d /var/tmp/containers.XXXXXX)
    # shellcheck disable=SC2064
    trap "rm -rf '$dir'" EXIT
}

# Where apt gets the release's packages of that label from.
mirror() {
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(LABEL)' 'Created-By: Packages' |
        awk -v release="$1" -v label="$2" '$2 == release && $3 == label { print $1; exit }'
}

bootstrap() {
    local image=$1 recipe=$2 main security dir
    main=$(mirror "$suite" Debian)
    security=$(mirror "$suite-security" Debian-Security)
    if [ -z "$main" ]; then
        # Another release's machine: a mirror has them all.
        local own
        own=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
        main=$(mirror "$own" Debian)
        security=$(mirror "$own-security" Debian-Security)
    fi
    [ -n "$main" ] || die "apt knows no mirror of Debian $suite; see \`apt-get indextargets\`, after \`apt-get update\`"
    scratch
    debootstrap --variant=minbase "$suite" "$dir/root" "$main" >"$dir/log" 2>&1 ||
        die "debootstrap failed: $(tail -n 3 "$dir/log")"
    {
        echo "deb $main $suite main"
        [ -z "$security" ] || echo "deb $security $suite-security main"
    } >"$dir/root/etc/apt/sources.list"
    # As the slim image: no packages, lists, manuals.
    rm -rf "$dir"/root/var/cache/apt/*.bin "$dir"/root/var/cache/apt/archives/*.deb "$dir"/root/var/lib/apt/lists/* \
        "$dir"/root/usr/share/{doc,man,info,locale}/* "$dir"/root/var/log/*.log
    printf 'path-exclude /usr/share/%s/*\n' doc info locale >"$dir/root/etc/dpkg/dpkg.cfg.d/slim"
    tar -C "$dir/root" -cf "$dir/root.tar" .
    podman import --quiet --change 'CMD ["bash"]' --change "LABEL recipe=$recipe" "$dir/root.tar" "$image" >/dev/null
}

build_tools() {
    podman build --quiet --network host --label "recipe=$2" --tag "$1" --file "$recipes/tools.Containerfile" "$recipes" >/dev/null
}

build_rust() {
    local image=$1 recipe=$2 sysroot name dir
    sysroot=$(rustc --print sysroot)
    name=$(basename "$sysroot")
    scratch
    local to=$dir/usr/local
    mkdir -p "$to/cargo/bin" "$to/rustup/toolchains/$name" "$to/rustup/update-hashes"
    # Without the manuals and the targets that no image is built for.
    tar -C "$sysroot" --exclude=./share --exclude='./lib/rustlib/*-apple-*' --exclude="./lib/rustlib/${foreign:?}-*" -c . |
        tar -C "$to/rustup/toolchains/$name" -x
    # The name that the official image's toolchain has.
    ln -sfn "$name" "$to/rustup/toolchains/$(rustc --version | cut -d' ' -f2)-${name#*-}"
    printf 'version = "12"\ndefault_toolchain = "%s"\nprofile = "minimal"\nauto_self_update = "disable"\n\n[overrides]\n' \
        "$name" >"$to/rustup/settings.toml"
    cp -L "$(command -v rustup)" "$to/cargo/bin/rustup"
    for command in cargo rustc rustdoc rustfmt cargo-fmt cargo-clippy clippy-driver; do
        ln -s rustup "$to/cargo/bin/$command"
    done
    chmod -R a+rX "$to"
    podman build --quiet --network host --label "recipe=$recipe" --tag "$image" --file "$recipes/rust.Containerfile" "$dir" >/dev/null
}

base() {
    "$here/setup.sh" containers
    make "$base" bootstrap
    podman run --rm --network none "$base" true || die "podman does not run a container on this machine"
}

tools() {
    base
    from=$(recipe_of "$base") make "$tools" build_tools "$recipes/tools.Containerfile" "$recipes/tools.txt"
}

rust() {
    base
    "$here/setup.sh" build musl
    command -v rustup >/dev/null || die "rustup is missing: the toolchain of the image rust is the one that it manages"
    case $(uname -m) in
    x86_64) foreign=aarch64 ;;
    *) foreign=x86_64 ;;
    esac
    from="$(recipe_of "$base") $(rustc --verbose --version) $foreign" make "$rust" build_rust "$recipes/rust.Containerfile"
}

# containers/runtime-default.json is what containerd's default profile comes to for a container without capabilities,
# which is what `seccompProfile: RuntimeDefault` gives to a restricted pod. Here containerd is asked for it anew: it
# writes the profile into the spec of a container that is made and never started.
profile() {
    "$here/setup.sh" containerd
    scratch
    mkdir "$dir/rootfs"
    cat >"$dir/config.toml" <<END
version = 2
root = "$dir/root"
state = "$dir/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
address = "$dir/socket"
END
    containerd --config "$dir/config.toml" >"$dir/log" 2>&1 &
    local daemon=$!
    # shellcheck disable=SC2064
    trap "kill $daemon; wait $daemon || true; rm -rf '$dir'" EXIT
    local ctr=(ctr --address "$dir/socket" --connect-timeout 60s)
    until "${ctr[@]}" version >/dev/null 2>&1; do
        kill -0 "$daemon" 2>/dev/null || die "containerd does not run: $(tail -n 3 "$dir/log")"
    done
    local drop
    mapfile -t drop < <("${ctr[@]}" oci spec | python3 -c '
import json, sys
for name in json.load(sys.stdin)["process"]["capabilities"]["bounding"]:
    print("--cap-drop=" + name)')
    "${ctr[@]}" container create --seccomp "${drop[@]}" --rootfs "$dir/rootfs" probe true
    "${ctr[@]}" container info probe | python3 -c '
import json, sys
spec = json.load(sys.stdin)["Spec"]
assert not any(spec["process"]["capabilities"].values()), "the probe has capabilities"
json.dump(spec["linux"]["seccomp"], sys.stdout, indent=1, sort_keys=True)
print()' >"$dir/profile.json"
    [ "${1:-}" != write ] || cp "$dir/profile.json" "$recipes/runtime-default.json"
    diff -u "$recipes/runtime-default.json" "$dir/profile.json" ||
        die "$recipes/runtime-default.json is not what $(containerd --version | cut -d' ' -f2,3) makes; scripts/containers.sh profile write makes it so"
    echo "containers: runtime-default.json is what $(containerd --version | cut -d' ' -f2,3) makes" >&2
}

restricted() {
    local seccomp=$1 flags=() given=" ${*:2} "
    shift
    case $seccomp in
    podman) ;;
    runtime-default) flags+=("--security-opt=seccomp=$recipes/runtime-default.json") ;;
    *) die "restricted: $seccomp is no seccomp profile; podman and runtime-default are" ;;
    esac
    # A container on the machine's own root would have its devices changed.
    [[ $given != *" --rootfs"* ]] || die 'restricted: takes an image, not --rootfs'
    # podman adds up what is given twice.
    [[ $given == *" --network"* ]] || flags+=(--network=none)
    local dir
    for dir in /workspace /tmp /home/agent /run/sandbox-sidecar; do
        # podman takes one of a place alone.
        [[ $given =~ \ (--volume|-v)[=\ ][^\ ]*:${dir}[:\ ] ]] || flags+=("--tmpfs=$dir:rw,exec,nosuid,nodev,mode=0777,notmpcopyup")
    done
    exec podman run --rm --cap-drop=all --security-opt=no-new-privileges "${flags[@]}" --read-only --read-only-tmpfs=false \
        --user=65532:65532 --passwd=false --env=HOME=/home/agent --workdir=/workspace "$@"
}

clean() {
    if command -v podman >/dev/null; then
        podman rm --all --force >/dev/null
        podman rmi --all --force >/dev/null
    fi
    rm -rf "$storage" "$runtime"
}

[ "$(id -u)" = 0 ] || die 'only root can do this'
[ $# -gt 0 ] || die "say what: $(sed -n 's/^#   containers.sh \([a-z]*\).*/\1/p' "$0" | sort -u | xargs)"
case $1 in
base | tools | rust)
    # Two at once would make the same image twice.
    mkdir -p "$runtime"
    exec 9>"$runtime/lock"
    flock 9
    "$1"
    ;;
profile | clean) "$@" ;;
restricted)
    [ $# -ge 3 ] || die 'restricted: say podman or runtime-default, and an image'
    "$@"
    ;;
podman) exec "$@" ;;
*) die "unknown: $1" ;;
esac
