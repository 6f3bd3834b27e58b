//! Compiles kernel specializations for every architecture that Syncline supports, without a GPU.

use std::collections::HashSet;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use syncline_cuda::device::{Headers, Nvrtc, Specialization, Version};

/// Architectures and their maximum shared memory of a block in bytes (CUDA C++ Programming Guide, table of compute
/// capabilities).
const TARGETS: [(u32, u32); 8] = [
    (70, 96 << 10),
    (75, 64 << 10),
    (80, 163 << 10),
    (86, 99 << 10),
    (89, 99 << 10),
    (90, 227 << 10),
    (100, 227 << 10),
    (120, 99 << 10),
];

/// Returns the newest NVRTC of this machine that supports compute capability 8.0.
pub fn compiler() -> Option<&'static Nvrtc> {
    static COMPILER: OnceLock<Option<&'static Nvrtc>> = OnceLock::new();
    let find = || match Nvrtc::find(Version { major: 13, minor: u32::MAX }, 80) {
        Ok(compiler) => Some(compiler),
        Err(error) if std::env::var_os("SYNCLINE_REQUIRE_NVRTC").is_some_and(|value| value == "1") => {
            panic!("SYNCLINE_REQUIRE_NVRTC is set: {error}")
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "skipped: no NVRTC ({error})");
            None
        }
    };
    *COMPILER.get_or_init(find)
}

/// Returns the architectures of the comma-separated list `SYNCLINE_NVRTC_ARCHITECTURES`, or all if it is not set.
fn targets() -> Vec<(u32, u32)> {
    let Ok(wanted) = std::env::var("SYNCLINE_NVRTC_ARCHITECTURES") else { return TARGETS.to_vec() };
    let wanted: Vec<u32> = wanted.split(',').map(|number| number.trim().parse().expect("numbers")).collect();
    TARGETS.into_iter().filter(|target| wanted.contains(&target.0)).collect()
}

/// Returns `SYNCLINE_NVRTC_SAMPLE`, or 1 if it is not set. One of every that many specializations is compiled.
fn sample() -> usize {
    std::env::var("SYNCLINE_NVRTC_SAMPLE").map_or(1, |number| number.parse().expect("a number")).max(1)
}

/// Returns whether a source is to be compiled: all are, unless `SYNCLINE_NVRTC_SOURCES` has a comma-separated list of
/// parts of names.
fn is_wanted(source: &str) -> bool {
    std::env::var("SYNCLINE_NVRTC_SOURCES").map_or(true, |parts| parts.split(',').any(|part| source.contains(part)))
}

/// Compiles the specializations that `of_device` returns for a number of bytes of shared memory per block.
pub fn compile_all(headers: &Headers, of_device: impl Fn(u32) -> Vec<Specialization>) {
    let Some(compiler) = compiler() else { return };
    let mut all = Vec::new();
    for (architecture, shared_memory) in targets() {
        if compiler.architecture_for(architecture) != Some(architecture) {
            let _ = writeln!(std::io::stderr(), "NVRTC {} does not know sm_{architecture}", compiler.version());
            continue;
        }
        let specializations = of_device(shared_memory);
        // Formats share the kernels that do not depend on their parameters.
        let mut seen = HashSet::new();
        let wanted = specializations.into_iter().filter(|one| is_wanted(one.source.name));
        let distinct = wanted.filter(|one| seen.insert(one.clone()));
        // A sample starts elsewhere for each architecture, so that together they cover the specializations.
        let first = TARGETS.iter().position(|target| target.0 == architecture).unwrap_or(0) % sample();
        all.extend(distinct.skip(first).step_by(sample()).map(|specialization| (architecture, specialization)));
    }
    assert!(!all.is_empty());
    let next = AtomicUsize::new(0);
    let compile_next = || {
        while let Some((architecture, specialization)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            let image =
                specialization.compile(compiler, headers, *architecture).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(&image[..4], b"\x7fELF", "a cubin is an ELF file");
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(compile_next)));
    });
    let _ = writeln!(std::io::stderr(), "NVRTC {}: {} specializations compiled", compiler.version(), all.len());
}
