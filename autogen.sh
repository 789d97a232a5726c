#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# Makes `configure`, naming everything that is missing at once.
set -e
cd "$(dirname "$0")"

missing=
need() { # program, Debian package
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need autoconf autoconf
need automake automake
need libtoolize libtool
need perl perl
if [ -n "$missing" ]; then
    echo "autogen.sh: missing; on Debian: apt-get install$missing" >&2
    exit 1
fi
mkdir -p build-aux
autoreconf --install --force
