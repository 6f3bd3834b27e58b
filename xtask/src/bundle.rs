//! `cargo xtask bundle`: the device tests and benches as programs, for a GPU machine without Rust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Most bytes of a packed bundle: it has to travel.
const LARGEST: u64 = 60 << 20;

/// Runs what is in a bundle. Finds NVRTC where CUDA's toolkit and Python's packages put it.
const RUN: &str = r#"#!/bin/sh
# Runs the device tests and benches of this bundle on a GPU machine: glibc 2.36 or newer, an NVIDIA driver, NVRTC.
#   run.sh                tests, then benches
#   run.sh test [ARGS]    every test binary (ARGS go to each: names of tests, --nocapture)
#   run.sh bench [ARGS]   every bench binary
#   run.sh sanitize [TOOL...]   every test under compute-sanitizer's memcheck, initcheck, synccheck and racecheck, or under those named;
#                         inputs are small, SANITIZE_JOBS (a processor each) run at a time for SANITIZE_LIMIT seconds (600) at most; a line each
set -u
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/local/cuda/bin
export SYNCLINE_REQUIRE_CUDA="${SYNCLINE_REQUIRE_CUDA:-1}"
if [ -z "${SYNCLINE_NVRTC:-}" ] && ! ldconfig -p 2>/dev/null | grep -q libnvrtc.so; then
    for folder in /usr/local/cuda/lib64 $(find / -name 'libnvrtc.so*' -not -path '/proc/*' 2>/dev/null | xargs -r -n1 dirname | sort -u); do
        if ls "$folder"/libnvrtc.so* >/dev/null 2>&1; then SYNCLINE_NVRTC=$folder; export SYNCLINE_NVRTC; break; fi
    done
fi
failed=0
each() { # folder, arguments of its programs
    folder=$1; shift
    for program in "$here/$folder"/*; do
        echo "== $(basename "$program")"
        RUNNER "$program" "$@" || { echo "FAILED: $program"; failed=1; }
    done
}
RUNNER() { "$@"; }
what=${1:-all}
[ $# -gt 0 ] && shift
case $what in
    test) each tests "$@" ;;
    bench) each benches "$@" ;;
    sanitize)
        # Tests take what they need of the device and no more, so that many run side by side; what takes the time are launches and the tools'
        # work on the host.
        logs=$(mktemp -d)
        for tool in ${*:-racecheck memcheck initcheck synccheck}; do
            for program in "$here"/tests/*; do
                "$program" --list 2>/dev/null | sed -n 's/: test$//p' | sed "s|^|$logs $tool $program |"
            done
        done | xargs -P "${SANITIZE_JOBS:-$(nproc)}" -L 1 "$here/run.sh" one_test || failed=1
        rm -r "$logs"
        ;;
    one_test) # folder for its log, tool, program, test
        log=$1/$2-$(basename "$3")-$(echo "$4" | tr : _)
        # Some tests provoke errors of the driver's functions on purpose; those are not findings.
        quiet=; [ "$2" = memcheck ] && quiet="--report-api-errors no"
        size=small; [ "$2" = racecheck ] && size=tiny
        # Kernels with barriers that synccheck and racecheck understand (docs/KERNELS.md, "Sanitizers").
        case $2 in
            racecheck) : "${SYNCLINE_NVRTC_OPTIONS:=-DUNDER_RACECHECK=1}" ;;
            synccheck) : "${SYNCLINE_NVRTC_OPTIONS:=-DUNDER_SYNCCHECK=1}" ;;
        esac
        export SYNCLINE_NVRTC_OPTIONS="${SYNCLINE_NVRTC_OPTIONS:-}"
        # Racecheck looks through a kernel's code on the stack of the thread that loads it: of 2 MiB, as tests' threads have them, reconstruction's kernels need more.
        export RUST_MIN_STACK="${RUST_MIN_STACK:-17179869184}"
        start=$(date +%s)
        SYNCLINE_TEST_SIZE="${SYNCLINE_TEST_SIZE:-$size}" timeout -k 5 "${SANITIZE_LIMIT:-600}" compute-sanitizer --tool "$2" $quiet --show-backtrace no --print-limit 20 --error-exitcode 86 \
            "$3" --test-threads=1 --exact "$4" >"$log" 2>&1
        status=$?
        # A test that needs no device is none for the tool, which says so and fails.
        if grep -q 'terminated before first instrumented API call' "$log" && grep -q 'test result: ok' "$log"; then status=0; fi
        case $status in 0) outcome=ok ;; 124 | 137) outcome="TOO SLOW" ;; *) outcome=FAILED ;; esac
        errors=$(sed -n 's/.*SUMMARY: //p' "$log" | tail -1)
        echo "$2 $(basename "$3") $4: $outcome, ${errors:-no device}, $(($(date +%s) - start)) s"
        [ $status -eq 0 ] || { sed 's/^/    /' "$log" | head -100; failed=1; }
        ;;
    all) each tests; each benches ;;
    *) sed -n '2,7p' "$0"; exit 2 ;;
esac
exit $failed
"#;

/// Tests that need no device, and of a GPU machine nothing but NVRTC: `cargo xtask nvrtc` runs them.
const WITHOUT_DEVICE: [&str; 1] = ["compile"];

/// Builds `target/bundle`: `tests/`, `benches/` (stripped, optimized) and `run.sh`. Packs it into
/// `target/bundle.tar.gz`.
pub fn run() -> Result<()> {
    let target = crate::root().join("target");
    let bundle = target.join("bundle");
    if bundle.exists() {
        fs::remove_dir_all(&bundle).with_context(|| format!("cannot clear {}", bundle.display()))?;
    }
    // Of the library only the tests inside of it use devices.
    for (package, flag, folder) in [
        ("syncline-cuda", "--tests", "tests"),
        ("syncline", "--lib", "tests"),
        ("syncline-cuda", "--benches", "benches"),
    ] {
        let folder = bundle.join(folder);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        for (name, program) in build(package, flag)? {
            fs::copy(&program, folder.join(name)).with_context(|| format!("cannot copy {}", program.display()))?;
        }
    }
    let script = bundle.join("run.sh");
    fs::write(&script, RUN).with_context(|| format!("cannot write {}", script.display()))?;
    make_executable(&script)?;
    let packed = target.join("bundle.tar.gz");
    crate::run(Command::new("tar").arg("-czf").arg(&packed).arg("-C").arg(&target).arg("bundle"))?;
    let bytes = fs::metadata(&packed).with_context(|| format!("cannot read {}", packed.display()))?.len();
    ensure!(bytes <= LARGEST, "{} has {bytes} bytes, {LARGEST} at most", packed.display());
    println!("{}: {:.1} MiB", packed.display(), bytes as f64 / f64::from(1 << 20));
    Ok(())
}

/// Builds what `cargo test <flag>` would run for the device; names and paths of the programs.
fn build(package: &str, flag: &str) -> Result<Vec<(String, PathBuf)>> {
    let output = crate::cargo()
        .args(["test", "--no-run", "--release", "--package", package, flag, "--message-format=json"])
        .args(["--config", "profile.release.strip=true", "--config", "profile.release.debug=false"])
        .current_dir(crate::root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "the programs do not build");
    let wanted = if flag == "--benches" { ["bench", "bench"] } else { ["test", "lib"] };
    let mut programs = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line).context("cargo's messages are not JSON")?;
        let target = &message["target"];
        if let Some(program) = message["executable"].as_str()
            && target["kind"][0].as_str().is_some_and(|kind| wanted.contains(&kind))
        {
            let name = target["name"].as_str().context("a target without a name")?;
            if !WITHOUT_DEVICE.contains(&name) {
                programs.push((name.to_owned(), PathBuf::from(program)));
            }
        }
    }
    ensure!(!programs.is_empty(), "cargo built no program for {flag}");
    Ok(programs)
}

#[cfg(unix)]
fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", path.display()))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<()> {
    Ok(())
}
