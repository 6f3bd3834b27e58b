#!/bin/sh
# Runs the C test, and HDF5's tools with the filter, under valgrind: tests/valgrind.sh PREFIX
# PREFIX is that of `cargo xtask install-c`. Needs cc, valgrind, and the package hdf5-tools. Takes some minutes.
set -eu
prefix=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export LD_LIBRARY_PATH="$prefix/lib" HDF5_PLUGIN_PATH="$prefix/lib/syncline/hdf5"

check() {
    valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite \
        --errors-for-leak-kinds=definite "$@" >output 2>messages ||
        { status=$?; cat output messages; echo "failed ($status): $*"; exit 1; }
    echo "clean: $(basename "$1")"
}

cc -g -std=c11 -I "$prefix/include" -o all "$here/c/all.c" -L "$prefix/lib" -lsyncline -lm -lpthread
check ./all

# One value of each chunk: printing them all takes long.
corners="/x[0,0;90,240;5,3;1,1]"

# A dataset is packed, read, unpacked, and compared within the bound.
cp "$here/../../../testdata/egm96_361x720.f32" field
h5import field -d 361,720 -p /x -t FP -s 32 -o plain.h5
check h5repack -f UD=47501,1,4,1,1,3539053052,1062232653 -l CHUNK=90x240 plain.h5 packed.h5
check h5dump -d "$corners" packed.h5
check h5repack -f NONE packed.h5 again.h5
h5diff -d 0.001001 plain.h5 again.h5 /x /x

# A chunk is damaged: an error of HDF5, which the tool reports.
offset=$(grep --only-matching --byte-offset --text 'SYNEND' packed.h5 | head -1 | cut -d: -f1)
printf 'damage' | dd of=packed.h5 bs=1 seek=$((offset - 200)) conv=notrunc 2>/dev/null
set +e
valgrind --quiet --error-exitcode=99 h5repack -f NONE packed.h5 damaged.h5 >output 2>messages
status=$?
set -e
if [ "$status" -eq 0 ] || [ "$status" -eq 99 ]; then
    cat messages
    echo "failed: h5repack of a damaged chunk returned $status"
    exit 1
fi
echo "clean: h5repack of a damaged chunk fails with an error"
