//! Small arrays in host memory on a GPU: what the first call made is there for the next one.
//!
//! On an emulated GPU, which counts what takes long on a real one. The counts are those of the process, so that this is
//! the only test of it.

#![allow(unsafe_code, reason = "calls a function of the emulator that CUDA does not have")]
#![cfg(all(unix, feature = "cuda"))]

use syncline::{ArrayView, Backend, Bound, CompressOptions, CudaDevices, DecompressOptions, compress, decompress, gpu};

/// How often device memory and page-locked memory were allocated, and modules were loaded.
type Counts = [u64; 3];

/// Returns the counts so far; `None` if the GPU is not emulated.
fn counts() -> Option<Counts> {
    // SAFETY: the library is loaded already, and both names are C strings.
    let function = unsafe {
        let library = libc::dlopen(c"libcuda.so".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() {
            return None;
        }
        libc::dlsym(library, c"cudaEmulatorCounts".as_ptr())
    };
    if function.is_null() {
        return None;
    }
    let mut counts = [0; 3];
    // SAFETY: the emulator's function of this name has this type, and writes three numbers.
    let code = unsafe {
        let function: unsafe extern "C" fn(*mut Counts) -> i32 = std::mem::transmute(function);
        function(&raw mut counts)
    };
    assert_eq!(code, 0);
    Some(counts)
}

#[test]
fn later_calls_on_small_arrays_allocate_and_load_nothing() {
    if gpu::device_count().is_ok_and(|count| count > 0) {
        assert!(gpu::device(0).is_ok());
    }
    let Some(before) = counts() else {
        assert!(std::env::var_os("SYNCLINE_REQUIRE_CUDA").is_none() || gpu::device_count().unwrap() > 0);
        eprintln!("skipped: no emulated GPU");
        return;
    };
    let cuda = Backend::Cuda(CudaDevices::One(0));
    let field = |count: u64| (0..count).map(|i| (i as f32 * 0.01).sin()).collect::<Vec<f32>>();
    let options = CompressOptions::new(Bound::Rel(1e-3));
    let made = |count: u64, backend| {
        let field = field(count);
        compress(&ArrayView::new(&field, &[count]).unwrap(), &options.clone().with_backend(backend)).unwrap()
    };
    let first = made(10_000, cuda);
    assert!(counts().unwrap().iter().zip(before).all(|(after, before)| *after > before));
    // Its memory becomes one block now.
    assert!(made(10_000, cuda) == first && first == made(10_000, Backend::Cpu));
    let before = counts();
    for _ in 0..3 {
        assert!(made(10_000, cuda) == first);
    }
    assert_eq!(counts(), before, "device memory, page-locked memory, modules");
    // Arrays of another shape take tables of their own, but no page-locked memory and no modules.
    assert!(made(9_000, cuda) == made(9_000, Backend::Cpu));
    assert_eq!(counts().map(|counts| counts[1..].to_vec()), before.map(|counts| counts[1..].to_vec()));

    let back = |stream: &[u8], backend| {
        decompress(stream, &DecompressOptions::default().with_backend(backend)).unwrap().into_bytes()
    };
    assert!(back(&first, cuda) == back(&first, Backend::Cpu));
}
