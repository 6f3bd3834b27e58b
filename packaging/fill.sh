#!/bin/sh
# Writes a recipe with the version, the address of the repository, and the checksum of the source distribution filled
# in.
#
#     fill.sh FROM TO [SOURCE_DISTRIBUTION]
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml")
repository=$(sed -n 's/^repository = "\(.*\)"/\1/p' "$root/Cargo.toml")
checksum="fill in"
if [ $# -gt 2 ]; then
    checksum=$(sha256sum "$3" | cut -d ' ' -f 1)
fi

mkdir -p "$2"
cp -R "$1/." "$2"
find "$2" -type f -exec sed -i \
    -e "s|@VERSION@|$version|g" -e "s|@REPOSITORY@|$repository|g" -e "s|@SHA256@|$checksum|g" {} +
