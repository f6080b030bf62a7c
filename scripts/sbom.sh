#!/usr/bin/env bash
# Writes target/sbom/*.cdx.json (CycloneDX): of the sources' dependencies, and of each image that is named.
#
#   sbom.sh [IMAGE…]     an image of docker or podman, as an archive: docker save / podman save
set -euo pipefail
cd "$(dirname "$0")/.."
syft=target/deploy/venv/bin/syft
mkdir -p target/sbom
"$syft" --quiet scan dir:. --exclude './target/**' --output "cyclonedx-json=target/sbom/sources.cdx.json"
for image in "$@"; do
    archive=$(mktemp --suffix .tar)
    # shellcheck disable=SC2064
    trap "rm -f '$archive'" EXIT
    rm "$archive"
    if docker info >/dev/null 2>&1; then
        docker save --output "$archive" "$image"
    else
        podman save --quiet --format docker-archive --output "$archive" "$image"
    fi
    name=${image##*/}
    "$syft" --quiet scan "docker-archive:$archive" --output "cyclonedx-json=target/sbom/${name/:/-}.cdx.json"
    rm -f "$archive"
done
ls -l target/sbom
