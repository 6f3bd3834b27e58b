//! Compiles every kernel specialization for every architecture that Syncline supports, without a GPU.
//!
//! `cargo xtask nvrtc` downloads NVRTC and runs this test. Without NVRTC the test prints one line and passes; with
//! `SYNCLINE_REQUIRE_NVRTC=1` it fails.

#[path = "common/compile.rs"]
mod checks;

use checks::{compile_all, compiler};
use syncline_cuda::HEADERS;
use syncline_cuda::device::{Source, Specialization};
use syncline_cuda::device_kernels::{Argument, Out, Parameter, Signature, assertions};
use syncline_cuda::error::CudaError;

/// Returns every specialization for a device with this many bytes of shared memory per block.
fn specializations(shared_memory: u32) -> Vec<Specialization> {
    [
        syncline_cuda::blocks::specializations(),
        syncline_cuda::device::specializations(),
        syncline_cuda::huffman::specializations(shared_memory),
        syncline_cuda::lzss::specializations(shared_memory),
        syncline_cuda::geometry::boxes::specializations(),
        syncline_cuda::lossless::specializations(),
        syncline_cuda::quantize::specializations(),
        syncline_cuda::strips::specializations(),
        syncline_cuda::container::specializations(),
        syncline_cuda::decode::specializations(),
    ]
    .concat()
}

#[test]
fn every_specialization_compiles() {
    compile_all(&HEADERS, specializations);
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
