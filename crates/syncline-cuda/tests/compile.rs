//! Compiles every kernel specialization for every architecture that Syncline supports, without a GPU.
//!
//! `cargo xtask nvrtc` downloads NVRTC and runs this test. Without NVRTC the test prints one line and passes; with
//! `SYNCLINE_REQUIRE_NVRTC=1` it fails.

use std::collections::HashSet;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use syncline_cuda::HEADERS;
use syncline_cuda::device::{Nvrtc, Source, Specialization, Version};
use syncline_cuda::device_kernels::{Argument, Out, Parameter, Signature, assertions};
use syncline_cuda::error::CudaError;

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
fn compiler() -> Option<&'static Nvrtc> {
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

#[test]
fn every_specialization_compiles() {
    let Some(compiler) = compiler() else { return };
    let mut all = Vec::new();
    for (architecture, shared_memory) in targets() {
        if compiler.architecture_for(architecture) != Some(architecture) {
            let _ = writeln!(std::io::stderr(), "NVRTC {} does not know sm_{architecture}", compiler.version());
            continue;
        }
        let specializations = [
            syncline_cuda::device::specializations(),
            syncline_cuda::huffman::specializations(shared_memory),
            syncline_cuda::baselines::specializations(shared_memory),
            syncline_cuda::lzss::specializations(shared_memory),
            syncline_cuda::lzss_codes::specializations(),
            syncline_cuda::token_codes::specializations(),
            syncline_cuda::lossless::specializations(),
            syncline_cuda::quantize::specializations(),
            syncline_cuda::container::specializations(),
            syncline_cuda::reconstruct::specializations(shared_memory),
        ];
        // Formats share the kernels that do not depend on their parameters.
        let mut seen = HashSet::new();
        let wanted = specializations.concat().into_iter().filter(|one| is_wanted(one.source.name));
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
                specialization.compile(compiler, &HEADERS, *architecture).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(&image[..4], b"\x7fELF", "a cubin is an ELF file");
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(compile_next)));
    });
    let _ = writeln!(std::io::stderr(), "NVRTC {}: {} specializations compiled", compiler.version(), all.len());
}

#[test]
fn a_kernel_that_does_not_compile_is_an_error_with_its_log() {
    let Some(compiler) = compiler() else { return };
    let source = Source { name: "wrong.cu", text: "__global__ void wrong() { undeclared = 1; }" };
    let error = Specialization { assertions: String::new(), source, constants: vec![] }
        .compile(compiler, &HEADERS, 80)
        .unwrap_err();
    let CudaError::Compile { source_name, arch, log } = error else { panic!("{error}") };
    assert_eq!((source_name.as_str(), arch.as_str()), ("wrong.cu", "sm_80"));
    assert!(log.contains("undeclared"), "{log}");
    let source = Source { name: "zero.cu", text: "\0" };
    assert!(
        Specialization { assertions: String::new(), source, constants: vec![] }
            .compile(compiler, &HEADERS, 80)
            .is_err()
    );
}

/// A kernel whose parameters are not those that the host passes does not compile.
#[test]
fn a_kernel_that_differs_from_its_declaration_is_an_error() {
    let Some(compiler) = compiler() else { return };
    const fn parameter<A: Argument>() -> Parameter {
        Parameter { explicit: None, c_type: A::c_type, size: A::SIZE }
    }
    const DECLARED: &[Signature] =
        &[Signature { name: "fill", parameters: &[parameter::<Out<u32>>(), parameter::<u64>()] }];
    let compile = |parameters: &str| {
        let text = format!("#include \"common.cuh\"\nextern \"C\" __global__ void fill({parameters}) {{}}");
        let source = Source { name: "fill.cu", text: text.leak() };
        Specialization { source, assertions: assertions(DECLARED), constants: vec![] }.compile(compiler, &HEADERS, 80)
    };
    compile("uint32_t *values, const __grid_constant__ uint64_t count").unwrap();
    for wrong in ["uint32_t *, uint32_t", "uint64_t, uint32_t *", "const uint32_t *, uint64_t", "uint32_t *"] {
        let error = compile(wrong).unwrap_err().to_string();
        assert!(error.contains("fill is not declared like this in Rust"), "{wrong}: {error}");
    }
}
