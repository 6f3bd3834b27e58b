//! The devices, whose number and kind environment variables specify.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use super::errors::{Code, Result, guard, put};
use super::handles::{Handle, fresh};
use super::objects::Stream;
use crate::machine::Shape;

/// Memory of a device in bytes.
pub const TOTAL_MEMORY: usize = 8 << 30;

/// Maximum threads of a block.
pub const MOST_THREADS: u32 = 1024;

/// Maximum shared memory of a block, static and dynamic, that needs no function attribute, in bytes.
pub const SHARED_MEMORY_UNASKED: usize = 48 << 10;

/// A device and its only context.
#[derive(Debug)]
pub struct Device {
    /// Ordinal of the device, from 0.
    pub ordinal: c_int,
    /// Properties of the device.
    pub shape: Shape,
    /// Whether the device supports memory pools, for allocations that are ordered on streams.
    pub pools: bool,
    /// Handle of the device's memory pool.
    pub pool: Handle,
    /// Bytes of freed memory that the pool keeps. Has no effect: the emulator frees memory at once.
    pub release_threshold: AtomicU64,
    /// Handle of the device's context.
    pub context: Handle,
    /// The default stream, whose handle is 0.
    pub stream: Arc<Stream>,
}

/// The settings of devices in environment variables.
#[derive(Debug, PartialEq, Eq)]
struct Settings {
    devices: u32,
    pools: bool,
    shape: Shape,
}

impl Settings {
    /// Reads the settings. Returns a message if a variable is invalid.
    fn read(variable: impl Fn(&str) -> Option<String>) -> std::result::Result<Self, String> {
        let number = |name: &str, default: u32| match variable(name).filter(|text| !text.is_empty()) {
            Some(text) => text.parse().map_err(|_| format!("{name} is {text:?}, which is no number")),
            None => Ok(default),
        };
        let mut shape = shape(number("CUDA_EMULATOR_ARCHITECTURE", 90)?)?;
        shape.multiprocessors = number("CUDA_EMULATOR_MULTIPROCESSORS", shape.multiprocessors)?.max(1);
        shape.seed = number("CUDA_EMULATOR_SEED", 0)?.into();
        let pools = number("CUDA_EMULATOR_MEMORY_POOLS", 1)? != 0;
        Ok(Self { devices: number("CUDA_EMULATOR_DEVICES", 1)?, pools, shape })
    }
}

/// Returns the properties of a device of this compute capability. It has few multiprocessors, so that tests with little
/// data fill all of them, but enough for small batches.
fn shape(capability: u32) -> std::result::Result<Shape, String> {
    let (threads, blocks, shared_memory, shared_memory_per_block) = match capability {
        70 => (2048, 32, 96, 96),
        75 => (1024, 16, 64, 64),
        80 => (2048, 32, 164, 163),
        86 => (1536, 16, 100, 99),
        89 | 120 => (1536, 24, 100, 99),
        90 | 100 => (2048, 32, 228, 227),
        _ => {
            return Err(format!(
                "CUDA_EMULATOR_ARCHITECTURE is {capability}: there are 70, 75, 80, 86, 89, 90, 100, 120"
            ));
        }
    };
    let (shared_memory, shared_memory_per_block) = (shared_memory << 10, shared_memory_per_block << 10);
    Ok(Shape { capability, multiprocessors: 8, threads, blocks, shared_memory, shared_memory_per_block, seed: 0 })
}

static DEVICES: OnceLock<Result<Vec<Device>>> = OnceLock::new();

/// Returns the devices, which are created by the first call.
pub fn initialize() -> Result<&'static [Device]> {
    DEVICES.get_or_init(make).as_deref().map_err(|&code| code)
}

fn make() -> Result<Vec<Device>> {
    let settings = Settings::read(|name| std::env::var(name).ok()).map_err(|wrong| {
        eprintln!("cuda-emulator: {wrong}");
        Code::Unknown
    })?;
    let devices = c_int::try_from(settings.devices).unwrap_or(c_int::MAX);
    if devices == 0 {
        return Err(Code::NoDevice);
    }
    let device = |ordinal| {
        let stream = Arc::new(Stream::new(ordinal, settings.shape, 0));
        Device {
            ordinal,
            shape: settings.shape,
            pools: settings.pools,
            pool: fresh(),
            release_threshold: AtomicU64::new(0),
            context: fresh(),
            stream,
        }
    };
    Ok((0..devices).map(device).collect())
}

/// Returns the devices, or an error if the driver has not been initialized.
pub fn devices() -> Result<&'static [Device]> {
    DEVICES.get().ok_or(Code::NotInitialized)?.as_deref().map_err(|&code| code)
}

/// Returns the device with this ordinal.
pub fn device(ordinal: c_int) -> Result<&'static Device> {
    devices()?.iter().find(|device| device.ordinal == ordinal).ok_or(Code::InvalidDevice)
}

/// The highest number of a device attribute in the headers of CUDA 13.
const LAST_ATTRIBUTE: u32 = 162;

/// Returns an attribute of a device by its number in `CUdevice_attribute`. Attributes that are not listed are 0: limits
/// that no program here reads, and unsupported features.
fn attribute(device: &Device, number: u32) -> Result<c_int> {
    let shape = &device.shape;
    let value = match number {
        1..=3 => MOST_THREADS,
        4 => 64,
        5 => i32::MAX as u32,
        6 | 7 => 65535,
        8 => SHARED_MEMORY_UNASKED as u32,
        9 => 64 << 10,
        10 => 32,
        11 => i32::MAX as u32,
        12 | 82 => 65536,
        // Clock rates in kHz of the multiprocessors and of the memory, whose bus has 4096 bits.
        13 | 36 => 1_000_000,
        37 => 4096,
        14 | 51 => 512,
        16 => shape.multiprocessors,
        // Mapped host memory, concurrent kernels, unified addressing, and stream priorities are supported.
        15 | 19 | 31 | 41 | 78 => 1,
        33 => 1 + device.ordinal.unsigned_abs(),
        38 => 4 << 20,
        39 => shape.threads,
        40 => 1,
        75 => shape.capability / 10,
        76 => shape.capability % 10,
        79 | 80 => 1,
        81 => shape.shared_memory as u32,
        91 | 95 => 1,
        97 => shape.shared_memory_per_block as u32,
        106 => shape.blocks,
        // Shared memory that the system reserves for each block, from sm_80 on.
        111 => (shape.shared_memory - shape.shared_memory_per_block) as u32,
        115 => u32::from(device.pools),
        // Support of cluster launches.
        120 => u32::from(shape.capability >= 90),
        number if number == 0 || number > LAST_ATTRIBUTE => return Err(Code::InvalidValue),
        _ => 0,
    };
    Ok(value as c_int)
}

/// Writes the number of devices.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> i32 {
    // SAFETY: the caller passes null or a valid place.
    guard(|| unsafe { put(count, devices()?.len() as c_int) })
}

/// Writes the device with this ordinal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(place: *mut c_int, ordinal: c_int) -> i32 {
    // SAFETY: the caller passes null or a valid place.
    guard(|| unsafe { put(place, device(ordinal)?.ordinal) })
}

/// Writes the name of a device, truncated to the caller's buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, ordinal: c_int) -> i32 {
    guard(|| {
        let text = format!("Emulated sm_{}", device(ordinal)?.shape.capability);
        let room = usize::try_from(length).unwrap_or(0);
        if name.is_null() || room == 0 {
            return Err(Code::InvalidValue);
        }
        let count = text.len().min(room - 1);
        // SAFETY: the caller's buffer has `room` bytes, more than `count`, and does not overlap the static text.
        unsafe {
            name.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), count);
            name.add(count).write(0);
        }
        Ok(())
    })
}

/// Writes the memory of a device in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, ordinal: c_int) -> i32 {
    // SAFETY: the caller passes null or a valid place.
    guard(|| device(ordinal).and_then(|_| unsafe { put(bytes, TOTAL_MEMORY) }))
}

/// Writes an attribute of a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, number: u32, ordinal: c_int) -> i32 {
    // SAFETY: the caller passes null or a valid place.
    guard(|| unsafe { put(value, attribute(device(ordinal)?, number)?) })
}

/// Writes the compute capability of a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, ordinal: c_int) -> i32 {
    guard(|| {
        let capability = device(ordinal)?.shape.capability as c_int;
        // SAFETY: the caller passes null or valid places.
        unsafe { put(major, capability / 10).and_then(|()| put(minor, capability % 10)) }
    })
}

/// Writes 16 bytes that identify a device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid(uuid: *mut [u8; 16], ordinal: c_int) -> i32 {
    guard(|| {
        let mut bytes = *b"cuda-emulator\0\0\0";
        bytes[12..].copy_from_slice(&device(ordinal)?.ordinal.to_be_bytes());
        // SAFETY: the caller passes null or a valid place.
        unsafe { put(uuid, bytes) }
    })
}

/// Writes the same bytes as [`cuDeviceGetUuid`], because devices are not partitioned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], ordinal: c_int) -> i32 {
    // SAFETY: the argument is the caller's, with the same requirements.
    unsafe { cuDeviceGetUuid(uuid, ordinal) }
}

/// Writes whether a device can access another one's memory, which is always the case because they share one memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceCanAccessPeer(can: *mut c_int, ordinal: c_int, peer: c_int) -> i32 {
    // SAFETY: the caller passes null or a valid place.
    guard(|| unsafe { put(can, c_int::from(device(ordinal)?.ordinal != device(peer)?.ordinal)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> std::result::Result<Settings, String> {
        let find =
            |name: &str| variables.iter().find(|variable| variable.0 == name).map(|variable| variable.1.to_owned());
        Settings::read(find)
    }

    #[test]
    fn settings_come_from_environment_variables() {
        let default = settings(&[]).unwrap();
        assert_eq!((default.devices, default.shape.capability, default.shape.multiprocessors), (1, 90, 8));
        let other = settings(&[
            ("CUDA_EMULATOR_DEVICES", "3"),
            ("CUDA_EMULATOR_ARCHITECTURE", "75"),
            ("CUDA_EMULATOR_MULTIPROCESSORS", "9"),
            ("CUDA_EMULATOR_MEMORY_POOLS", "0"),
            ("CUDA_EMULATOR_SEED", "5"),
        ]);
        let other = other.unwrap();
        assert_eq!((other.devices, other.shape.threads, other.shape.multiprocessors), (3, 1024, 9));
        assert_eq!((default.shape.seed, other.shape.seed), (0, 5));
        assert_eq!((other.shape.shared_memory_per_block, default.pools, other.pools), (64 << 10, true, false));
        assert!(settings(&[("CUDA_EMULATOR_ARCHITECTURE", "61")]).is_err());
        assert!(settings(&[("CUDA_EMULATOR_DEVICES", "many")]).is_err());
    }

    #[test]
    fn attributes_of_capabilities() {
        let shape = shape(100).unwrap();
        let device = Device {
            ordinal: 0,
            shape,
            pools: true,
            pool: 2,
            release_threshold: AtomicU64::new(0),
            context: 1,
            stream: Arc::new(Stream::new(0, shape, 0)),
        };
        let of = |number| attribute(&device, number);
        assert_eq!([of(75), of(76), of(16), of(97), of(115)], [Ok(10), Ok(0), Ok(8), Ok(227 << 10), Ok(1)]);
        assert_eq!([of(0), of(LAST_ATTRIBUTE + 1)], [Err(Code::InvalidValue); 2]);
    }

    #[test]
    fn names_are_cut_off() {
        initialize().unwrap();
        let mut name = [c_char::MAX; 8];
        // SAFETY: the buffer has as many bytes as stated.
        assert_eq!(unsafe { cuDeviceGetName(name.as_mut_ptr(), 6, 0) }, 0);
        assert_eq!(name.map(|byte| byte as u8), *b"Emula\0\x7f\x7f");
        // SAFETY: the buffer has as many bytes as stated.
        assert_eq!(unsafe { cuDeviceGetName(name.as_mut_ptr(), 6, 99) }, Code::InvalidDevice as i32);
    }
}
