# Two images: `static` has the two programs alone, `workspace` has the tools of a developer too.
#
#   docker build --target workspace --build-arg REVISION="$(git rev-parse HEAD)" .
#
# Pin the bases by digest: --build-arg DEBIAN=debian@sha256:…
# The programs are static, and cross-built from the builder's own architecture: no emulation compiles anything.

ARG DEBIAN=debian:bookworm-slim
ARG RUST=rust:1.95-bookworm

FROM --platform=$BUILDPLATFORM ${RUST} AS build
# Puts the list of crates into each program, where scanners of images and `make sbom` find it.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    cargo install --quiet --locked --debug cargo-auditable@0.7.7
WORKDIR /src
COPY . .
# Set by the builder; without it, the machine's own.
ARG TARGETARCH
ARG REVISION=unknown
# Flags of cargo; an image for a test may trade speed of the code for speed of the build.
ARG CARGO_ARGS=--release
# rust-lld and the C library that come with the target: no compiler of that architecture is needed.
ENV CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    set -eu; \
    case "${TARGETARCH:=$(dpkg --print-architecture)}" in \
        amd64) target=x86_64-unknown-linux-musl ;; \
        arm64) target=aarch64-unknown-linux-musl ;; \
        *) echo "TARGETARCH is $TARGETARCH; amd64 and arm64 are built" >&2; exit 1 ;; \
    esac; \
    rustup target list --installed | grep -qx "$target" || rustup target add "$target"; \
    SANDBOX_SIDECAR_REVISION="$REVISION" cargo auditable build --locked $CARGO_ARGS --target "$target" \
        --package sandbox-sidecar --package agent-client --bins --message-format=json-render-diagnostics >/tmp/built; \
    mkdir -p /out/bin /out/root/workspace /out/root/tmp /out/root/home/sandbox /out/root/run/sandbox-sidecar; \
    for program in sandbox-sidecar agent-client; do \
        path=$(sed -n 's/.*"executable":"\([^"]*\/'"$program"'\)".*/\1/p' /tmp/built); \
        install -m 0755 "$path" /out/bin/; \
    done; \
    cd /out/root; chmod 1777 tmp; chmod 2775 workspace home/sandbox run/sandbox-sidecar

FROM scratch AS static
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="sandbox-sidecar (static)" \
      org.opencontainers.image.description="Exec and file sandbox for agents: the programs alone" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=build /out/bin/ /usr/local/bin/
# What is in a directory keeps its mode when it is copied; the directory that is named does not.
COPY --from=build --chown=65532:0 /out/root/ /
ENV PATH=/usr/local/bin HOME=/home/sandbox
WORKDIR /workspace
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/sandbox-sidecar"]

FROM ${DEBIAN} AS workspace
# The directories are of group 0 with its rights: any uid works, as where a cluster picks one.
RUN set -eu; \
    apt-get -q update; \
    DEBIAN_FRONTEND=noninteractive apt-get -yq install --no-install-recommends \
        bash build-essential ca-certificates curl git jq less nodejs openssh-client pkg-config procps \
        python3 python3-pip python3-venv ripgrep tmux unzip xz-utils; \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /var/log/*.log; \
    install -d -o 65532 -g 0 -m 2775 /workspace /home/sandbox /run/sandbox-sidecar
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="sandbox-sidecar" \
      org.opencontainers.image.description="Exec and file sandbox for agents, with the tools of a developer" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=build /out/bin/ /usr/local/bin/
ENV HOME=/home/sandbox LANG=C.UTF-8
WORKDIR /workspace
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/sandbox-sidecar"]
