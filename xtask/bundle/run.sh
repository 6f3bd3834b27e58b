#!/bin/sh
# Runs the device tests and the bench of this bundle on a GPU machine. Requires glibc 2.36, an NVIDIA driver and NVRTC.
#   run.sh                      runs all tests, then the bench
#   run.sh test [ARGS]          runs every test program with ARGS (test names, --nocapture)
#   run.sh bench [ARGS]         runs `syncline-bench ARGS`; without ARGS, writes the records of all that it measures
#                               on a GPU to lossy.csv, lossless.csv, stages.csv, and papers.csv
#   run.sh sanitize [TOOL...]   runs every test under compute-sanitizer's racecheck, memcheck, initcheck and synccheck,
#                               or under the given tools, with short inputs, and prints one line for each test.
#                               SANITIZE_JOBS (default: one a processor) run at a time, at most SANITIZE_LIMIT
#                               seconds (600) each
# Tests with `needs_sources` in their names read files of the repository and are left out.
set -u
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/local/cuda/bin
export SYNCLINE_REQUIRE_CUDA="${SYNCLINE_REQUIRE_CUDA:-1}"
# Where the CUDA toolkit and Python packages install NVRTC.
if [ -z "${SYNCLINE_NVRTC:-}" ] && ! ldconfig -p 2>/dev/null | grep -q libnvrtc.so; then
    found=$(find / -name 'libnvrtc.so*' -not -path '/proc/*' 2>/dev/null | xargs -r -n1 dirname | sort -u)
    for folder in /usr/local/cuda/lib64 $found; do
        if ls "$folder"/libnvrtc.so* >/dev/null 2>&1; then
            SYNCLINE_NVRTC=$folder
            export SYNCLINE_NVRTC
            break
        fi
    done
fi
failed=0

# run_each FOLDER [ARGS]: runs every program of FOLDER with ARGS.
run_each() {
    folder=$1
    shift
    for program in "$here/$folder"/*; do
        echo "== $(basename "$program")"
        "$program" "$@" || {
            echo "FAILED: $program"
            failed=1
        }
    done
}

# bench [ARGS]
bench() {
    if [ $# -gt 0 ]; then
        "$here/bench/syncline-bench" "$@" || failed=1
        return
    fi
    for what in 'lossy --device gpu' 'lossless --device gpu' stages papers; do
        # shellcheck disable=SC2086
        "$here/bench/syncline-bench" $what >"${what%% *}.csv" || failed=1
    done
}

# sanitize_test LOG_FOLDER TOOL PROGRAM TEST
sanitize_test() {
    log=$1/$2-$(basename "$3")-$(echo "$4" | tr : _)
    # Some tests provoke driver errors on purpose.
    quiet=
    [ "$2" = memcheck ] && quiet="--report-api-errors no"
    size=small
    [ "$2" = racecheck ] && size=tiny
    # Barriers that these two tools understand (docs/KERNELS.md, "Sanitizers").
    case $2 in
        racecheck) : "${SYNCLINE_NVRTC_OPTIONS:=-DUNDER_RACECHECK=1}" ;;
        synccheck) : "${SYNCLINE_NVRTC_OPTIONS:=-DUNDER_SYNCCHECK=1}" ;;
    esac
    export SYNCLINE_NVRTC_OPTIONS="${SYNCLINE_NVRTC_OPTIONS:-}"
    # Racecheck analyzes a kernel on the stack of the thread that loads it. The reconstruction kernels overflow the
    # usual 2 MiB.
    export RUST_MIN_STACK="${RUST_MIN_STACK:-17179869184}"
    start=$(date +%s)
    SYNCLINE_TEST_SIZE="${SYNCLINE_TEST_SIZE:-$size}" timeout -k 5 "${SANITIZE_LIMIT:-600}" \
        compute-sanitizer --tool "$2" $quiet --show-backtrace no --print-limit 20 --error-exitcode 86 \
        "$3" --test-threads=1 --exact "$4" >"$log" 2>&1
    status=$?
    # The tool fails a test that makes no call of CUDA.
    if grep -q 'terminated before first instrumented API call' "$log" && grep -q 'test result: ok' "$log"; then
        status=0
    fi
    case $status in
        0) outcome=ok ;;
        124 | 137) outcome="TOO SLOW" ;;
        *) outcome=FAILED ;;
    esac
    errors=$(sed -n 's/.*SUMMARY: //p' "$log" | tail -1)
    echo "$2 $(basename "$3") $4: $outcome, ${errors:-no device}, $(($(date +%s) - start)) s"
    [ $status -eq 0 ] || {
        sed 's/^/    /' "$log" | head -100
        failed=1
    }
}

what=${1:-all}
[ $# -gt 0 ] && shift
case $what in
    test) run_each tests --skip needs_sources "$@" ;;
    bench) bench "$@" ;;
    sanitize)
        # Tests allocate only what they need, so that many run at a time. Launches and the tools' work on the host
        # take most of the time.
        logs=$(mktemp -d)
        for tool in ${*:-racecheck memcheck initcheck synccheck}; do
            for program in "$here"/tests/*; do
                "$program" --list --skip needs_sources 2>/dev/null | sed -n 's/: test$//p' |
                    sed "s|^|$logs $tool $program |"
            done
        done | xargs -P "${SANITIZE_JOBS:-$(nproc)}" -L 1 "$here/run.sh" sanitize_test || failed=1
        rm -r "$logs"
        ;;
    sanitize_test) sanitize_test "$@" ;;
    all)
        run_each tests --skip needs_sources
        bench
        ;;
    *)
        sed -n '3,11p' "$0"
        exit 2
        ;;
esac
exit $failed
