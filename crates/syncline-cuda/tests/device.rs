//! Tests the device layer: opening devices, compiling and caching kernels, scratch memory.

#![allow(unsafe_code)]

mod common;

use syncline_cuda::HEADERS;
use syncline_cuda::cudarc::driver::sys::CUresult;
use syncline_cuda::cudarc::driver::{DevicePtrMut, DriverError};
use syncline_cuda::device::{Arena, Cache, Device, Grid, Source, Specialization};
use syncline_cuda::error::{CudaError, DriverContext};

#[test]
fn missing_driver_is_a_typed_error() {
    // Whatever this machine has, nothing may panic, and errors must say what to do.
    match Device::count() {
        Ok(count) => {
            let error = Device::open(count, &HEADERS).unwrap_err();
            assert!(matches!(error, CudaError::NoDevice { ordinal, .. } if ordinal == count), "{error}");
        }
        Err(error) => {
            assert!(matches!(error, CudaError::NoDriver | CudaError::DriverTooOld { .. } | CudaError::Driver { .. }));
            assert!(Device::open(0, &HEADERS).is_err());
            if matches!(error, CudaError::NoDriver) {
                assert!(error.to_string().contains("install an NVIDIA driver"), "{error}");
            }
        }
    }
}

#[test]
fn info_is_filled_in() {
    let Some(device) = common::device() else { return };
    let info = device.info();
    assert!(info.capability >= 70 && info.architecture <= info.capability && info.memory > 1 << 30, "{info}");
    assert!(info.multiprocessors > 0 && info.shared_memory_per_block >= 48 << 10 && !info.name.is_empty(), "{info}");
    assert!(info.compiler.major <= info.driver.major, "{info}");
    println!("{info}");
}

/// Devices can be opened if no kernel can be stored, and report that.
#[test]
fn unwritable_cache_is_reported() {
    let Some(device) = common::device() else { return };
    let file = std::env::temp_dir().join(format!("syncline-device-test-file-{}", std::process::id()));
    std::fs::write(&file, b"no folder").unwrap();
    let opened = Device::open_with_cache(device.info().ordinal, &HEADERS, Cache::new(Some(file.clone()))).unwrap();
    let info = opened.info().to_string();
    std::fs::remove_file(&file).unwrap();
    let told = format!("kernels cannot be cached in {} (", file.display());
    assert!(info.contains(&told), "{info}");
    let opened = Device::open_with_cache(device.info().ordinal, &HEADERS, Cache::new(None)).unwrap();
    assert!(opened.info().to_string().ends_with("kernels are not cached"), "{}", opened.info());
}

const SOURCE: Source = Source {
    name: "fill.cu",
    text: "#include \"common.cuh\"\nextern \"C\" __global__ void fill(uint32_t *out) { out[threadIdx.x] = VALUE; }",
};

/// A kernel gives the same results from the compiler, from the disk cache, and after its cache entry was damaged.
#[test]
fn compiled_kernels_are_cached() {
    let Some(device) = common::device() else { return };
    let folder = std::env::temp_dir().join(format!("syncline-device-test-{}", std::process::id()));
    let specialization = Specialization { assertions: String::new(), source: SOURCE, constants: vec![("VALUE", 7)] };
    for round in ["compiled", "cached", "damaged", "cached again"] {
        if round == "damaged" {
            for entry in std::fs::read_dir(&folder).unwrap() {
                std::fs::write(entry.unwrap().path(), b"not a kernel").unwrap();
            }
        }
        let opened = Device::open_with_cache(0, &HEADERS, Cache::new(Some(folder.clone()))).unwrap();
        opened.kernel(&specialization, "fill").unwrap();
        opened.kernel(&specialization, "fill").unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "{round}");
    }
    let _ = std::fs::remove_dir_all(&folder);
    assert!(matches!(device.kernel(&specialization, "no_such_kernel"), Err(CudaError::Driver { .. })));
}

#[test]
fn arena_slices_are_apart_and_reused() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let mut arena = Arena::with_capacity(stream.clone(), 4096).unwrap();
    for round in 0..3_u32 {
        let mut frame = arena.frame().unwrap();
        let mut slices: Vec<_> = (1..100_usize).map(|i| frame.slice::<u32>(i * 7).unwrap()).collect();
        let zeros = frame.zeros::<u64>(1000).unwrap();
        for (i, slice) in slices.iter_mut().enumerate() {
            stream.memcpy_htod(&vec![i as u32 + round; slice.len()], slice).unwrap();
        }
        for (i, slice) in slices.iter().enumerate() {
            assert_eq!(stream.clone_dtoh(slice).unwrap(), vec![i as u32 + round; (i + 1) * 7]);
        }
        assert_eq!(stream.clone_dtoh(&zeros).unwrap(), vec![0; 1000]);
        assert_eq!(frame.slice::<u8>(0).unwrap().len(), 0);
    }
    let capacity = arena.capacity();
    let mut frame = arena.frame().unwrap();
    assert!(matches!(frame.slice::<u64>(usize::MAX / 16), Err(CudaError::OutOfMemory { .. })));
    assert!(frame.slice::<u8>(capacity / 2).is_ok(), "a refused request leaves the arena usable");
}

/// Any call, including an allocation, may return the error of an earlier kernel, which more memory would not fix.
#[test]
fn failed_allocation_with_another_cause_names_it() {
    let Some(_) = common::device() else { return };
    let result: Result<(), _> = Err(DriverError(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
    let error = result.allocating(7).unwrap_err();
    assert!(matches!(error, CudaError::Driver { .. }), "{error}");
    assert!(error.to_string().contains("allocating device memory: DriverError(CUDA_ERROR_ILLEGAL_ADDRESS"), "{error}");
}

/// A device may be used from any thread, including one that has not called the driver before.
#[test]
fn threads_share_a_device() {
    let Some(device) = common::device() else { return };
    let specialization = Specialization { assertions: String::new(), source: SOURCE, constants: vec![("VALUE", 9)] };
    device.kernel(&specialization, "fill").unwrap();
    let on_fresh_thread = || {
        let kernel = device.kernel(&specialization, "fill").unwrap();
        kernel.allow_shared_memory(48 << 10).unwrap();
        assert!(kernel.blocks_per_multiprocessor(32, 0).unwrap() > 0);
        let mut arena = Arena::new(device.context().default_stream());
        let mut frame = arena.frame().unwrap();
        let mut values = frame.zeros::<u32>(32).unwrap();
        let (mut pointer, used) = values.device_ptr_mut(frame.stream());
        let mut parameters = [(&raw mut pointer).cast()];
        // SAFETY: one block of 32 threads writes 32 values.
        unsafe { kernel.launch(frame.stream(), Grid::new(1, 32), &mut parameters) }.unwrap();
        drop(used);
        assert_eq!(frame.stream().clone_dtoh(&values).unwrap(), vec![9; 32]);
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(on_fresh_thread)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
