//! Functions of the driver API that allocate, copy and set memory.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::sync::Mutex;

use super::contexts::{current, of_context};
use super::counts::{ALLOCATIONS, LOCKS, count};
use super::devices::{TOTAL_MEMORY, device};
use super::errors::{Code, Result, guard, put};
use super::handles::Handle;
use super::operations::{Copy, Operation, Place, Set, Value};
use super::streams::stream;
use super::{MEMORY, captures, lock};
use crate::memory::POISON;

/// Alignment of page-locked host memory, in bytes.
const PAGE: usize = 4096;

/// Host memory that the driver allocated, by its start address.
static LOCKED: Mutex<BTreeMap<u64, Layout>> = Mutex::new(BTreeMap::new());

fn allocate(bytes: usize) -> Result<u64> {
    count(&ALLOCATIONS);
    if bytes == 0 {
        return Err(Code::InvalidValue);
    }
    if bytes > TOTAL_MEMORY.saturating_sub(MEMORY.allocated()) {
        return Err(Code::OutOfMemory);
    }
    MEMORY.allocate(bytes).ok_or(Code::OutOfMemory)
}

fn free(address: u64) -> Result<()> {
    let known = MEMORY.piece(address).is_some_and(|(start, _)| start == address);
    // Host memory must be freed by `cuMemFreeHost`.
    if address != 0 && (!known || lock(&LOCKED).contains_key(&address) || !MEMORY.release(address)) {
        eprintln!("cuda-emulator: {address:#x} is freed, where no allocation starts");
        return Err(Code::InvalidValue);
    }
    Ok(())
}

fn allocate_locked(bytes: usize) -> Result<u64> {
    count(&LOCKS);
    let layout = Layout::from_size_align(bytes, PAGE).map_err(|_| Code::OutOfMemory)?;
    if bytes == 0 {
        return Err(Code::InvalidValue);
    }
    // SAFETY: the size of the layout is not 0.
    let pointer = unsafe { alloc(layout) };
    if pointer.is_null() {
        return Err(Code::OutOfMemory);
    }
    // SAFETY: `pointer` is valid for the `bytes` bytes that were just allocated.
    unsafe { pointer.write_bytes(POISON, bytes) };
    lock(&LOCKED).insert(pointer as u64, layout);
    MEMORY.register(pointer as u64, bytes);
    Ok(pointer as u64)
}

fn free_locked(address: u64) -> Result<()> {
    let layout = lock(&LOCKED).remove(&address).ok_or(Code::InvalidValue)?;
    MEMORY.release(address);
    // SAFETY: the memory was allocated with this layout, and its table entry has been removed.
    unsafe { dealloc(address as *mut u8, layout) };
    Ok(())
}

/// Queues a copy on a stream.
fn copy(to: Place, from: Place, bytes: usize, handle: Handle) -> Result<()> {
    let stream = stream(handle)?;
    stream.take_failure()?;
    stream.queue(Operation::Copy(Copy { to, from, bytes }))
}

/// Runs a copy at once, unless a capture forbids that.
fn copy_now(to: Place, from: Place, bytes: usize) -> Result<()> {
    current()?;
    captures::forbid()?;
    copy(to, from, bytes, 0)
}

/// Queues setting memory on a stream.
fn set(to: u64, value: Value, count: usize, handle: Handle) -> Result<()> {
    let stream = stream(handle)?;
    stream.take_failure()?;
    stream.queue(Operation::Set(Set { to, value, count }))
}

/// Allocates device memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> i32 {
    guard(|| {
        current()?;
        captures::forbid()?;
        if address.is_null() {
            return Err(Code::InvalidValue);
        }
        // SAFETY: `address` was checked, and the caller passes a valid place.
        unsafe { put(address, allocate(bytes)?) }
    })
}

/// Allocates device memory from a pool, ordered on a stream. Writes the address 0 if no bytes are requested.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocAsync(address: *mut u64, bytes: usize, handle: Handle) -> i32 {
    guard(|| {
        let allocate = || if bytes == 0 { Ok(0) } else { allocate(bytes) };
        if !with_pools(handle)? {
            return Err(Code::NotSupported);
        }
        if address.is_null() {
            return Err(Code::InvalidValue);
        }
        // SAFETY: `address` was checked, and the caller passes a valid place.
        unsafe { put(address, allocate()?) }
    })
}

/// Frees device memory, ordered on a stream. On a captured stream this is an error instead of an operation of the
/// graph, because recorded operations would find the memory freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeAsync(address: u64, handle: Handle) -> i32 {
    guard(|| {
        if !with_pools(handle)? || stream(handle)?.capture().is_some() {
            return Err(Code::NotSupported);
        }
        free(address)
    })
}

/// Returns whether the device of a stream supports memory pools.
fn with_pools(handle: Handle) -> Result<bool> {
    let stream = stream(handle)?;
    Ok(device(stream.ordinal)?.pools)
}

/// Frees device memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFree_v2(address: u64) -> i32 {
    guard(|| {
        current()?;
        captures::forbid()?;
        free(address)
    })
}

/// Writes the free and the total memory in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(available: *mut usize, total: *mut usize) -> i32 {
    guard(|| {
        current()?;
        let rest = TOTAL_MEMORY.saturating_sub(MEMORY.allocated());
        // SAFETY: the caller passes null or valid places.
        unsafe { put(available, rest).and_then(|()| put(total, TOTAL_MEMORY)) }
    })
}

/// Allocates page-locked host memory that kernels can access. The flags (portable, mapped, write-combined) have no
/// effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(address: *mut u64, bytes: usize, flags: u32) -> i32 {
    guard(|| {
        current()?;
        captures::forbid()?;
        if address.is_null() || flags > 7 {
            return Err(Code::InvalidValue);
        }
        // SAFETY: `address` was checked, and the caller passes a valid place.
        unsafe { put(address, allocate_locked(bytes)?) }
    })
}

/// Frees memory that [`cuMemHostAlloc`] allocated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeHost(address: u64) -> i32 {
    guard(|| free_locked(address))
}

/// Copies from the host to a device, on a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) -> i32 {
    guard(|| copy(Place::Device(to), Place::Host(from), bytes, stream))
}

/// Copies from a device to the host, on a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) -> i32 {
    guard(|| copy(Place::Host(to), Place::Device(from), bytes, stream))
}

/// Copies within a device, on a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) -> i32 {
    guard(|| copy(Place::Device(to), Place::Device(from), bytes, stream))
}

/// Copies from one device to another, on a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyPeerAsync(
    to: u64,
    to_context: Handle,
    from: u64,
    from_context: Handle,
    bytes: usize,
    stream: Handle,
) -> i32 {
    guard(|| {
        of_context(to_context)?;
        of_context(from_context)?;
        copy(Place::Device(to), Place::Device(from), bytes, stream)
    })
}

/// Copies from the host to a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: u64, bytes: usize) -> i32 {
    guard(|| copy_now(Place::Device(to), Place::Host(from), bytes))
}

/// Copies from a device to the host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoH_v2(to: u64, from: u64, bytes: usize) -> i32 {
    guard(|| copy_now(Place::Host(to), Place::Device(from), bytes))
}

/// Copies within a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) -> i32 {
    guard(|| copy_now(Place::Device(to), Place::Device(from), bytes))
}

/// Fills memory with a byte, on a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD8Async(to: u64, byte: u8, count: usize, stream: Handle) -> i32 {
    guard(|| set(to, Value::Byte(byte), count, stream))
}

/// Fills memory with a word of 32 bits, on a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD32Async(to: u64, word: u32, count: usize, stream: Handle) -> i32 {
    guard(|| set(to, Value::Word(word), count, stream))
}

/// Fills memory with a byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD8_v2(to: u64, byte: u8, count: usize) -> i32 {
    guard(|| captures::forbid().and_then(|()| set(to, Value::Byte(byte), count, 0)))
}

/// Fills memory with a word of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD32_v2(to: u64, word: u32, count: usize) -> i32 {
    guard(|| captures::forbid().and_then(|()| set(to, Value::Word(word), count, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_limited() {
        assert_eq!(allocate(0), Err(Code::InvalidValue));
        assert_eq!(allocate(TOTAL_MEMORY + 1), Err(Code::OutOfMemory));
        assert_eq!(allocate(usize::MAX), Err(Code::OutOfMemory));
        let address = allocate(1000).unwrap();
        assert_eq!(free(address + 1), Err(Code::InvalidValue));
        assert_eq!(free(address), Ok(()));
        assert_eq!((free(address), free(0)), (Err(Code::InvalidValue), Ok(())));
    }

    #[test]
    fn allocation_during_capture_is_an_error() {
        use super::super::graphs::{cuStreamBeginCapture_v2, cuStreamEndCapture};
        use super::super::streams::cuStreamCreate;
        let context = super::super::devices::initialize().unwrap()[0].context;
        let (mut address, mut stream, mut graph) = (0, 0, 0);
        let unsupported = Code::CaptureUnsupported as i32;
        // SAFETY: the handles are valid, and the places are valid for handles and addresses.
        unsafe {
            assert_eq!(super::super::contexts::cuCtxSetCurrent(context), 0);
            assert_eq!((cuStreamCreate(&mut stream, 1), cuMemAllocAsync(&mut address, 64, stream)), (0, 0));
            assert_eq!(cuStreamBeginCapture_v2(stream, 1), 0);
            assert_eq!(cuMemFreeAsync(address, stream), Code::NotSupported as i32);
            assert_eq!(cuStreamEndCapture(stream, &mut graph), 0, "nothing has happened to it");
            let calls: [&dyn Fn() -> i32; 3] =
                [&|| cuMemAlloc_v2(&mut 0, 64), &|| cuMemFree_v2(address), &|| cuMemHostAlloc(&mut 0, 64, 0)];
            for call in calls {
                assert_eq!(cuStreamBeginCapture_v2(stream, 1), 0);
                assert_eq!(call(), unsupported);
                assert_eq!(cuStreamEndCapture(stream, &mut graph), Code::CaptureInvalidated as i32);
            }
            assert_eq!(cuMemFreeAsync(address, stream), 0);
        }
    }

    #[test]
    fn host_memory_is_known_to_the_device() {
        assert_eq!(allocate_locked(0), Err(Code::InvalidValue));
        let address = allocate_locked(5000).unwrap();
        assert_eq!(MEMORY.piece(address + 4999), Some((address, 5000)));
        assert_eq!(free(address), Err(Code::InvalidValue), "it is not the device's");
        assert_eq!((free_locked(address), free_locked(address)), (Ok(()), Err(Code::InvalidValue)));
        assert_eq!(MEMORY.piece(address), None);
    }
}
