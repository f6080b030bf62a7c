#!/usr/bin/env bash
# Checks the dependencies against the advisory database. A database that cannot be fetched is told and is no failure:
# it says nothing about this change. A found advisory is one.
set -euo pipefail

if timeout 60 cargo deny --locked fetch db >/dev/null 2>&1; then
    exec cargo deny --locked check --disable-fetch advisories
fi
echo 'advisories: NOT CHECKED, the advisory database cannot be fetched from here' >&2
