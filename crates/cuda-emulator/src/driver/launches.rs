//! Functions of the driver API that launch kernels and query their occupancy.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use super::devices::MOST_THREADS;
use super::errors::{Code, Result, guard, put};
use super::handles::Handle;
use super::modules::function;
use super::objects::Function;
use super::operations::Operation;
use super::streams::stream;
use crate::machine::{Launch, Shape};

/// Maximum blocks of a grid along each axis.
const MOST_BLOCKS: [u32; 3] = [i32::MAX as u32, 65535, 65535];

/// Maximum threads of a block along each axis.
const MOST_ALONG: [u32; 3] = [1024, 1024, 64];

/// Maximum blocks of a cluster.
const MOST_OF_CLUSTER: u32 = 8;

/// The first architecture that supports clusters.
const CLUSTER_ARCHITECTURE: u32 = 90;

/// The attribute `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`.
const COOPERATIVE: u32 = 2;

/// The attribute `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`.
const CLUSTER_DIMENSION: u32 = 4;

/// Pointer to an array with the address of each argument.
type Arguments = *const *const u8;

/// The configuration of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Grid {
    blocks: [u32; 3],
    threads: [u32; 3],
    shared_memory: u32,
    /// Whether the launch is cooperative: all blocks must be resident at the same time.
    cooperative: bool,
    /// Blocks of a cluster, if the launch specifies them.
    cluster: Option<[u32; 3]>,
}

/// The limits of a kernel that a launch must respect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    most_threads: u32,
    static_memory: usize,
    dynamic_limit: usize,
    cluster: Option<[u32; 3]>,
}

impl Limits {
    fn of(function: &Function) -> Self {
        Self {
            most_threads: function.kernel.most_threads(),
            static_memory: function.kernel.static_shared_memory(),
            dynamic_limit: function.dynamic_limit(),
            cluster: function.kernel.cluster(),
        }
    }
}

/// Returns the product of three sizes, or `None` if it overflows.
fn product(along: [u32; 3]) -> Option<u64> {
    along.into_iter().try_fold(1_u64, |product, factor| product.checked_mul(factor.into()))
}

impl Grid {
    /// Returns the threads of a block, or an error if the sizes exceed the limits of the device or of the kernel.
    fn checked_threads(&self, limits: &Limits, shape: &Shape) -> Result<u32> {
        let fits = |along: [u32; 3], most: [u32; 3]| along.iter().zip(most).all(|(&n, most)| (1..=most).contains(&n));
        if !fits(self.blocks, MOST_BLOCKS) || !fits(self.threads, MOST_ALONG) {
            return Err(Code::InvalidValue);
        }
        let threads = self.threads.iter().product::<u32>();
        let dynamic = self.shared_memory as usize;
        if threads > MOST_THREADS
            || dynamic > limits.dynamic_limit
            || limits.static_memory + dynamic > shape.shared_memory_per_block
        {
            return Err(Code::InvalidValue);
        }
        if threads > limits.most_threads { Err(Code::OutOfResources) } else { Ok(threads) }
    }

    /// Returns the blocks of a cluster, or an error if the cluster size is invalid.
    fn checked_cluster(&self, limits: &Limits, shape: &Shape) -> Result<[u32; 3]> {
        let cluster = match (limits.cluster, self.cluster) {
            (Some(compiled), Some(asked)) if compiled != asked => return Err(Code::InvalidClusterSize),
            (compiled, asked) => compiled.or(asked).unwrap_or([1; 3]),
        };
        let blocks = product(cluster).filter(|&blocks| blocks > 0).ok_or(Code::InvalidValue)?;
        if blocks > 1 && shape.capability < CLUSTER_ARCHITECTURE {
            return Err(Code::NotSupported);
        }
        if blocks > MOST_OF_CLUSTER.into() {
            return Err(Code::InvalidClusterSize);
        }
        let whole = self.blocks.iter().zip(cluster).all(|(blocks, cluster)| blocks.is_multiple_of(cluster));
        if whole { Ok(cluster) } else { Err(Code::InvalidValue) }
    }

    /// Checks that all blocks of a cooperative launch are resident, if each multiprocessor holds `per_multiprocessor`.
    fn checked_together(&self, per_multiprocessor: u32, shape: &Shape) -> Result<()> {
        if per_multiprocessor == 0 {
            return Err(Code::OutOfResources);
        }
        let room = u64::from(per_multiprocessor) * u64::from(shape.multiprocessors);
        let fits = !self.cooperative || product(self.blocks).is_some_and(|blocks| blocks <= room);
        if fits { Ok(()) } else { Err(Code::CooperativeTooLarge) }
    }
}

/// Copies the arguments to a buffer of `bytes` bytes. `places` has the offset and the length of each parameter.
///
/// # Safety
/// `arguments` is null or points to one pointer per entry of `places`. Each is null or points to as many bytes as its
/// parameter has.
unsafe fn parameters(places: &[(usize, usize)], bytes: usize, arguments: Arguments) -> Result<Vec<u8>> {
    let mut parameters = vec![0; bytes];
    for (i, &(offset, length)) in places.iter().enumerate() {
        if arguments.is_null() {
            return Err(Code::InvalidValue);
        }
        // SAFETY: `i` is below the number of places, so the caller guarantees this entry of `arguments`.
        let argument = unsafe { arguments.add(i).read() };
        if argument.is_null() {
            return Err(Code::InvalidValue);
        }
        // SAFETY: the pointer is not null, so the caller guarantees that it points to `length` bytes.
        let argument = unsafe { std::slice::from_raw_parts(argument, length) };
        parameters[offset..offset + length].copy_from_slice(argument);
    }
    Ok(parameters)
}

/// Launches a kernel, or records the launch if the stream is captured.
///
/// # Safety
/// `arguments` is null or points to one pointer per parameter of `function`. Each is null or points to as many bytes as
/// the parameter has.
unsafe fn launch(function: Arc<Function>, grid: Grid, queue: Handle, arguments: Arguments) -> Result<()> {
    let stream = stream(queue)?;
    if stream.ordinal != function.ordinal {
        return Err(Code::InvalidHandle);
    }
    let (limits, shape) = (Limits::of(&function), &stream.shape);
    let threads = grid.checked_threads(&limits, shape)?;
    let cluster = grid.checked_cluster(&limits, shape)?;
    let shared_memory = grid.shared_memory as usize;
    grid.checked_together(function.kernel.blocks_per_multiprocessor(shape, threads, shared_memory), shape)?;
    // SAFETY: the caller guarantees that `arguments` matches the kernel's parameters.
    let parameters = unsafe { parameters(function.kernel.parameters(), function.kernel.parameter_bytes(), arguments) }?;
    let launch = Launch { grid: grid.blocks, block: grid.threads, cluster, shared_memory, parameters };
    stream.queue(Operation::Launch(function, launch))
}

/// `CUlaunchConfig`, the configuration of [`cuLaunchKernelEx`].
#[repr(C)]
#[derive(Debug)]
pub struct LaunchConfig {
    grid: [u32; 3],
    block: [u32; 3],
    shared_memory: u32,
    stream: Handle,
    attributes: *const LaunchAttribute,
    attribute_count: u32,
}

/// `CUlaunchAttribute`: the number of the attribute, 4 bytes of padding, and a union of 64 bytes with the alignment of
/// pointers.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy)]
pub struct LaunchAttribute {
    id: u32,
    nothing: u32,
    /// The words of the union. Words that the active member does not cover are uninitialized.
    value: [std::mem::MaybeUninit<u32>; 16],
}

impl LaunchAttribute {
    /// Returns the first words of the attribute's value.
    ///
    /// # Safety
    /// The attribute's member of the union has at least `COUNT` words.
    unsafe fn words<const COUNT: usize>(&self) -> [u32; COUNT] {
        // SAFETY: the caller guarantees that these words are initialized.
        std::array::from_fn(|i| unsafe { self.value[i].assume_init() })
    }
}

impl LaunchConfig {
    /// Returns the configuration with all attributes. Attributes about programmatic dependent launch, memory placement
    /// and similar are ignored, because all work runs sequentially.
    ///
    /// # Safety
    /// `attributes` points to as many attributes as the count states.
    unsafe fn grid(&self) -> Result<Grid> {
        let mut grid = Grid {
            blocks: self.grid,
            threads: self.block,
            shared_memory: self.shared_memory,
            cooperative: false,
            cluster: None,
        };
        if self.attribute_count > 0 && self.attributes.is_null() {
            return Err(Code::InvalidValue);
        }
        for i in 0..self.attribute_count as usize {
            // SAFETY: `i` is below the number of attributes, which the caller guarantees.
            let attribute = unsafe { &*self.attributes.add(i) };
            match attribute.id {
                // SAFETY: the attribute's value is a flag of one word.
                COOPERATIVE => grid.cooperative = unsafe { attribute.words::<1>() } != [0],
                // SAFETY: the attribute's value has three words.
                CLUSTER_DIMENSION => grid.cluster = Some(unsafe { attribute.words() }),
                _ => {}
            }
        }
        Ok(grid)
    }
}

/// Launches a kernel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    handle: Handle,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared_memory: u32,
    queue: Handle,
    arguments: Arguments,
    extra: *const *const c_void,
) -> i32 {
    guard(|| {
        // Passing arguments through `extra` is not supported.
        if !extra.is_null() {
            return Err(Code::NotSupported);
        }
        let (blocks, threads) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let grid = Grid { blocks, threads, shared_memory, cooperative: false, cluster: None };
        // SAFETY: the caller's arguments match the kernel's parameters.
        unsafe { launch(function(handle)?, grid, queue, arguments) }
    })
}

/// Launches a kernel cooperatively: all blocks are resident at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchCooperativeKernel(
    handle: Handle,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared_memory: u32,
    queue: Handle,
    arguments: Arguments,
) -> i32 {
    guard(|| {
        let (blocks, threads) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let grid = Grid { blocks, threads, shared_memory, cooperative: true, cluster: None };
        // SAFETY: the caller's arguments match the kernel's parameters.
        unsafe { launch(function(handle)?, grid, queue, arguments) }
    })
}

/// Launches a kernel with a configuration that may have attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernelEx(
    config: *const LaunchConfig,
    handle: Handle,
    arguments: Arguments,
    extra: *const *const c_void,
) -> i32 {
    guard(|| {
        if !extra.is_null() {
            return Err(Code::NotSupported);
        }
        // SAFETY: the caller passes null or a valid configuration.
        let config = unsafe { config.as_ref() }.ok_or(Code::InvalidValue)?;
        // SAFETY: the caller's configuration has as many attributes as it states, and the arguments match the kernel's
        // parameters.
        unsafe { launch(function(handle)?, config.grid()?, config.stream, arguments) }
    })
}

/// Writes the number of blocks of a kernel that a multiprocessor can hold at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut c_int,
    handle: Handle,
    threads: c_int,
    shared_memory: usize,
) -> i32 {
    guard(|| {
        let function = function(handle)?;
        let threads = u32::try_from(threads).ok().filter(|&threads| threads > 0).ok_or(Code::InvalidValue)?;
        let count = function.kernel.blocks_per_multiprocessor(&function.shape, threads, shared_memory);
        // SAFETY: the caller passes null or a valid place.
        unsafe { put(blocks, count as c_int) }
    })
}

/// Writes the same number as [`cuOccupancyMaxActiveBlocksPerMultiprocessor`]; the flags, which concern caches, are
/// ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    blocks: *mut c_int,
    handle: Handle,
    threads: c_int,
    shared_memory: usize,
    _flags: u32,
) -> i32 {
    // SAFETY: the arguments are the caller's, with the same requirements.
    unsafe { cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, handle, threads, shared_memory) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{MaybeUninit, offset_of};

    const SHAPE: Shape = Shape {
        capability: 90,
        multiprocessors: 4,
        threads: 2048,
        blocks: 32,
        shared_memory: 228 << 10,
        shared_memory_per_block: 227 << 10,
        seed: 0,
    };
    const LIMITS: Limits = Limits { most_threads: 512, static_memory: 1 << 10, dynamic_limit: 47 << 10, cluster: None };
    const GRID: Grid =
        Grid { blocks: [8, 1, 1], threads: [256, 1, 1], shared_memory: 0, cooperative: false, cluster: None };

    #[test]
    fn structures_are_laid_out_as_in_the_headers() {
        assert_eq!((size_of::<LaunchConfig>(), offset_of!(LaunchConfig, stream)), (56, 32));
        assert_eq!((offset_of!(LaunchConfig, attributes), offset_of!(LaunchConfig, attribute_count)), (40, 48));
        assert_eq!((size_of::<LaunchAttribute>(), offset_of!(LaunchAttribute, value)), (72, 8));
    }

    #[test]
    fn blocks_have_to_fit() {
        let threads = |threads, shared_memory| Grid { threads, shared_memory, ..GRID }.checked_threads(&LIMITS, &SHAPE);
        assert_eq!(threads([32, 4, 2], 47 << 10), Ok(256));
        assert_eq!(threads([0, 1, 1], 0), Err(Code::InvalidValue));
        assert_eq!(threads([64, 32, 1], 0), Err(Code::InvalidValue));
        assert_eq!(threads([1, 1, 65], 0), Err(Code::InvalidValue));
        assert_eq!(threads([513, 1, 1], 0), Err(Code::OutOfResources));
        assert_eq!(threads([1, 1, 1], (47 << 10) + 1), Err(Code::InvalidValue), "it was not asked for");
        let asked = Limits { dynamic_limit: 226 << 10, ..LIMITS };
        let grid = Grid { shared_memory: 226 << 10, ..GRID };
        assert_eq!(grid.checked_threads(&asked, &SHAPE), Ok(256));
        let grid = Grid { shared_memory: 227 << 10, ..GRID };
        assert_eq!(grid.checked_threads(&asked, &SHAPE), Err(Code::InvalidValue));
        let grid = Grid { blocks: [1, 65536, 1], ..GRID };
        assert_eq!(grid.checked_threads(&LIMITS, &SHAPE), Err(Code::InvalidValue));
    }

    #[test]
    fn cooperative_blocks_have_to_fit_together() {
        let grid = Grid { cooperative: true, ..GRID };
        assert_eq!(grid.checked_together(2, &SHAPE), Ok(()));
        assert_eq!(grid.checked_together(1, &SHAPE), Err(Code::CooperativeTooLarge));
        assert_eq!(GRID.checked_together(1, &SHAPE), Ok(()));
        assert_eq!(GRID.checked_together(0, &SHAPE), Err(Code::OutOfResources));
    }

    #[test]
    fn clusters_divide_the_grid() {
        let cluster = |compiled, asked, shape| {
            Grid { cluster: asked, ..GRID }.checked_cluster(&Limits { cluster: compiled, ..LIMITS }, shape)
        };
        assert_eq!(cluster(None, None, &SHAPE), Ok([1; 3]));
        assert_eq!(cluster(Some([4, 1, 1]), None, &SHAPE), Ok([4, 1, 1]));
        assert_eq!(cluster(None, Some([8, 1, 1]), &SHAPE), Ok([8, 1, 1]));
        assert_eq!(cluster(Some([4, 1, 1]), Some([2, 1, 1]), &SHAPE), Err(Code::InvalidClusterSize));
        assert_eq!(cluster(Some([16, 1, 1]), None, &SHAPE), Err(Code::InvalidClusterSize));
        assert_eq!(cluster(Some([3, 1, 1]), None, &SHAPE), Err(Code::InvalidValue));
        assert_eq!(cluster(Some([0, 1, 1]), None, &SHAPE), Err(Code::InvalidValue));
        assert_eq!(cluster(None, Some([2, 1, 1]), &Shape { capability: 80, ..SHAPE }), Err(Code::NotSupported));
    }

    #[test]
    fn kernel_arguments_arrive_in_their_parameters() {
        let (byte, long) = (7_u8, 0x0102_0304_0506_0708_u64);
        let arguments = [(&raw const byte), (&raw const long).cast::<u8>()];
        // SAFETY: `arguments` has two pointers, to 1 byte and to 8 bytes.
        let bytes = unsafe { parameters(&[(0, 1), (8, 8)], 16, arguments.as_ptr()) }.unwrap();
        assert_eq!(bytes, [[7, 0, 0, 0, 0, 0, 0, 0], long.to_le_bytes()].concat());
        // SAFETY: the arguments have no pointers, or a null pointer, which is rejected.
        unsafe {
            assert_eq!(parameters(&[], 0, std::ptr::null()), Ok(Vec::new()));
            assert_eq!(parameters(&[(0, 1)], 1, std::ptr::null()), Err(Code::InvalidValue));
            assert_eq!(parameters(&[(0, 1)], 1, [std::ptr::null()].as_ptr()), Err(Code::InvalidValue));
        }
    }

    #[test]
    fn attributes_are_read() {
        let attribute = |id, words: &[u32]| {
            let mut value = [MaybeUninit::uninit(); 16];
            for (place, &word) in value.iter_mut().zip(words) {
                place.write(word);
            }
            LaunchAttribute { id, nothing: 0, value }
        };
        let attributes = [attribute(6, &[1]), attribute(COOPERATIVE, &[1]), attribute(CLUSTER_DIMENSION, &[2, 1, 1])];
        let (grid, block) = (GRID.blocks, GRID.threads);
        let config = |attributes, attribute_count| LaunchConfig {
            grid,
            block,
            shared_memory: 5,
            stream: 0,
            attributes,
            attribute_count,
        };
        // SAFETY: `attributes` has as many entries as stated.
        let read = unsafe { config(attributes.as_ptr(), 3).grid() };
        assert_eq!(read, Ok(Grid { shared_memory: 5, cooperative: true, cluster: Some([2, 1, 1]), ..GRID }));
        // SAFETY: the configurations have no attributes, or a null pointer in spite of their count, which is rejected.
        unsafe {
            assert_eq!(config(std::ptr::null(), 0).grid(), Ok(Grid { shared_memory: 5, ..GRID }));
            assert_eq!(config(std::ptr::null(), 1).grid(), Err(Code::InvalidValue));
        }
    }
}
