#!/usr/bin/env bash
# Builds the two images: images.sh release|e2e
#
#   release   with docker or podman, whichever is there, from the bases of the public registry:
#             $REGISTRY/sandbox-sidecar:VERSION and :VERSION-static (REGISTRY: localhost). BASE_DEBIAN and BASE_RUST name
#             the bases by digest; PLATFORM another architecture, such as linux/arm64; TARGETS="static" that image alone.
#   e2e       with podman, from bases that scripts/containers.sh makes on this machine: localhost/sandbox-sidecar:e2e and
#             :e2e-static. The same Dockerfile; the code is optimised less, so that the build is short.
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    printf 'images: %s\n' "$*" >&2
    exit 1
}

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n1)
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
args=(--build-arg "VERSION=$version" --build-arg "REVISION=$revision")
if [ -n "${PLATFORM:-}" ]; then
    case $(uname -m) in aarch64) own=arm64 ;; *) own=amd64 ;; esac
    # Older podman does not tell it; the stage that compiles runs on this machine.
    args+=(--platform "$PLATFORM" --build-arg "BUILDPLATFORM=linux/$own")
fi

# timed WHAT COMMAND…: says how long it took.
timed() {
    local from=$SECONDS what=$1
    shift
    "$@"
    echo "images: $what: $((SECONDS - from)) s" >&2
}

# For the stage that compiles alone, which the second build takes from the first one's cache.
compile=()

# build ENGINE NAME TAG
build() {
    local target suffix
    for target in ${TARGETS:-static workspace}; do
        case $target in
        static) suffix=-static ;;
        workspace) suffix= ;;
        *) die "TARGETS names $target; there are static and workspace" ;;
        esac
        timed "$target" "$1" build "${args[@]}" "${compile[@]}" --target "$target" --tag "$2:$3$suffix" .
        compile=()
    done
    "$1" images "$2"
}

case ${1:-} in
release)
    for engine in docker podman none; do "$engine" info >/dev/null 2>&1 && break; done
    [ "$engine" != none ] || die "neither docker, with its daemon, nor podman runs here"
    [ -z "${BASE_DEBIAN:-}" ] || args+=(--build-arg "DEBIAN=$BASE_DEBIAN")
    [ -z "${BASE_RUST:-}" ] || args+=(--build-arg "RUST=$BASE_RUST")
    build "$engine" "${REGISTRY:-localhost}/sandbox-sidecar" "$version"
    ;;
e2e)
    [ "$(id -u)" = 0 ] || die "the containers of the tests need root"
    timed 'base of Debian' scripts/containers.sh base
    timed 'base with Rust' scripts/containers.sh rust
    export CONTAINERS_CONF=$PWD/scripts/containers/containers.conf CONTAINERS_STORAGE_CONF=$PWD/scripts/containers/storage.conf
    quick=(lto=false codegen-units=16 opt-level=0)
    args+=(--network host --build-arg "CARGO_ARGS=--release ${quick[*]/#/--config profile.release.}")
    # The machine's own certificates, where the registry is behind a proxy that has its own. Not where Debian's are installed.
    [ ! -f /etc/ssl/certs/ca-certificates.crt ] ||
        compile+=(--volume /etc/ssl/certs/ca-certificates.crt:/etc/ssl/certs/ca-certificates.crt:ro)
    build podman localhost/sandbox-sidecar "e2e${PLATFORM:+-${PLATFORM##*/}}"
    ;;
*) die "release or e2e" ;;
esac
