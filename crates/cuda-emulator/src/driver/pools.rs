//! Functions of the driver API for the memory pools of devices.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use super::devices::{Device, device, devices};
use super::errors::{Code, Result, guard, put};
use super::handles::Handle;

/// The number of the only attribute that can be read and set: how many bytes of freed memory the pool keeps.
const RELEASE_THRESHOLD: u32 = 4;

/// Returns the device whose pool has this handle, for an attribute of the pool.
fn owner(pool: Handle, attribute: u32) -> Result<&'static Device> {
    if attribute != RELEASE_THRESHOLD {
        return Err(Code::NotSupported);
    }
    devices()?.iter().find(|device| device.pool == pool).ok_or(Code::InvalidValue)
}

/// Writes the handle of a device's memory pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetDefaultMemPool(place: *mut Handle, ordinal: c_int) -> i32 {
    guard(|| {
        let device = device(ordinal)?;
        if !device.pools {
            return Err(Code::NotSupported);
        }
        // SAFETY: the caller passes null or a valid place.
        unsafe { put(place, device.pool) }
    })
}

/// Writes an attribute of a memory pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPoolGetAttribute(pool: Handle, attribute: u32, value: *mut u64) -> i32 {
    guard(|| {
        let device = owner(pool, attribute)?;
        // SAFETY: the caller passes null or a valid place for the type of the attribute, which is 64 bits.
        unsafe { put(value, device.release_threshold.load(Ordering::Relaxed)) }
    })
}

/// Sets an attribute of a memory pool.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPoolSetAttribute(pool: Handle, attribute: u32, value: *const u64) -> i32 {
    guard(|| {
        let device = owner(pool, attribute)?;
        if value.is_null() {
            return Err(Code::InvalidValue);
        }
        // SAFETY: `value` was checked, and the caller passes a valid value of the attribute's type, which is 64 bits.
        device.release_threshold.store(unsafe { *value }, Ordering::Relaxed);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_kept() {
        super::super::devices::initialize().unwrap();
        let (mut pool, mut bytes) = (0, 1);
        // SAFETY: all places are valid for what is written and read.
        unsafe {
            assert_eq!(cuDeviceGetDefaultMemPool(&mut pool, 99), Code::InvalidDevice as i32);
            assert_eq!(cuDeviceGetDefaultMemPool(&mut pool, 0), 0);
            assert_eq!((cuMemPoolGetAttribute(pool, 4, &mut bytes), bytes), (0, 0));
            assert_eq!(cuMemPoolSetAttribute(pool, 4, &(1 << 40)), 0);
            assert_eq!((cuMemPoolGetAttribute(pool, 4, &mut bytes), bytes), (0, 1 << 40));
            assert_eq!(cuMemPoolSetAttribute(pool + 1000, 4, &0), Code::InvalidValue as i32);
            assert_eq!(cuMemPoolSetAttribute(pool, 5, &0), Code::NotSupported as i32);
        }
    }
}
