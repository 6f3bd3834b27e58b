//! The device layer: finding a GPU, compiling kernels for it, scratch memory.

#![allow(unsafe_code)]

mod arena;
mod bytes;
mod cache;
mod fetch;
mod grid;
mod headers;
mod host_function;
mod nvrtc;
mod pinned;
mod pool;
mod program;
mod side;
mod tracer;
mod transfer;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::sys::{self, CUdevice_attribute};
use cudarc::driver::{CudaContext, CudaModule, DriverError};
use cudarc::nvrtc::Ptx;

pub use arena::{Arena, Cleared, Frame};
pub use bytes::{view_bytes, view_bytes_mut};
pub use cache::{Cache, Key};
pub(crate) use fetch::fetch;
pub use grid::Grid;
pub use headers::{ConstantHeader, Headers, StructHeader};
pub(crate) use host_function::HostFunction;
pub use nvrtc::{Nvrtc, Source, Version};
pub use pinned::Pinned;
pub use pool::keep_freed_memory;
pub use program::{Kernel, Specialization};
pub use side::SideStream;
pub use tracer::Tracer;
pub use transfer::specializations;
pub(crate) use transfer::{Copies, Patches, PlaneJoin, STRUCTS, Transfer};

use crate::error::{CudaError, DriverContext, Result};

/// Includes a file of the calling crate's folder `kernels` as a [`Source`].
#[doc(hidden)]
#[macro_export]
macro_rules! source {
    ($name:literal) => {
        $crate::device::Source {
            name: $name,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/", $name)),
        }
    };
}
pub use crate::source;

/// Properties of a device and of the software that drives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Ordinal of the device, from 0.
    pub ordinal: usize,
    /// Name of the device, such as "NVIDIA H200".
    pub name: String,
    /// Compute capability as `10 * major + minor`: 90 for sm_90.
    pub capability: u32,
    /// Device memory in bytes.
    pub memory: u64,
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Maximum shared memory of a block, in bytes.
    pub shared_memory_per_block: u32,
    /// The newest CUDA version that the driver supports.
    pub driver: Version,
    /// Version of the run-time compiler.
    pub compiler: Version,
    /// File that the run-time compiler was loaded from.
    pub compiler_file: String,
    /// Architecture that kernels are compiled for, as `10 * major + minor`; not above `capability`.
    pub architecture: u32,
    /// Folder of the cache of compiled kernels, if caching is enabled.
    pub cache: Option<PathBuf>,
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib = self.memory as f64 / f64::from(1 << 30);
        write!(
            f,
            "{}: {}, sm_{}, {gib:.1} GiB, {} multiprocessors, driver for CUDA {}, NVRTC {} ({}), compiles for sm_{}, \
             {}",
            self.ordinal,
            self.name,
            self.capability,
            self.multiprocessors,
            self.driver,
            self.compiler,
            self.compiler_file,
            self.architecture,
            self.where_kernels_are(),
        )
    }
}

impl DeviceInfo {
    /// Returns why compiled kernels cannot be stored in the cache folder, or `None` if they can. Each call tries to
    /// write to the folder.
    pub fn cache_error(&self) -> Option<String> {
        Cache::new(self.cache.clone()).check().err().map(|error| error.to_string())
    }

    fn where_kernels_are(&self) -> String {
        match (&self.cache, self.cache_error()) {
            (None, _) => "kernels are not cached".to_owned(),
            (Some(folder), None) => format!("kernels cached in {}", folder.display()),
            (Some(folder), Some(why)) => format!("kernels cannot be cached in {} ({why})", folder.display()),
        }
    }
}

/// An open GPU: its context and the kernels that were loaded so far. Clones share both.
#[derive(Clone)]
pub struct Device {
    context: Arc<CudaContext>,
    info: DeviceInfo,
    compiler: &'static Nvrtc,
    headers: &'static Headers,
    cache: Cache,
    modules: Arc<Mutex<HashMap<Specialization, Slot>>>,
    tracer: Option<Arc<dyn Tracer>>,
}

/// Entry of the table of loaded modules, locked while its module is compiled.
type Slot = Arc<Mutex<Option<Arc<CudaModule>>>>;

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Device {
    /// Returns the number of GPUs that the driver sees; 0 if there is a driver but no GPU.
    ///
    /// # Errors
    /// [`CudaError::NoDriver`], [`CudaError::DriverTooOld`], or the error that the driver reports.
    pub fn count() -> Result<usize> {
        driver_version()?;
        match CudaContext::device_count() {
            Ok(count) => Ok(usize::try_from(count).unwrap_or(0)),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => Ok(0),
            error => error.doing("counting the devices").map(|_| 0),
        }
    }

    /// Opens GPU number `ordinal` for kernels that include `headers`. Compiled kernels are cached as the environment
    /// says ([`Cache::from_environment`]).
    ///
    /// # Errors
    /// The errors of [`Self::count`]; [`CudaError::NoDevice`] if there are fewer GPUs, [`CudaError::NoCompiler`]
    /// without NVRTC.
    pub fn open(ordinal: usize, headers: &'static Headers) -> Result<Self> {
        Self::open_with_cache(ordinal, headers, Cache::from_environment())
    }

    /// Opens GPU number `ordinal` for kernels that include `headers`, with the given cache of compiled kernels.
    ///
    /// # Errors
    /// The errors of [`Self::open`].
    pub fn open_with_cache(ordinal: usize, headers: &'static Headers, cache: Cache) -> Result<Self> {
        let driver = driver_version()?;
        let count = Self::count()?;
        if ordinal >= count {
            return Err(CudaError::NoDevice { ordinal, count });
        }
        let context = CudaContext::new(ordinal).doing("opening the device")?;
        let attribute = |which| context.attribute(which).map(i32::unsigned_abs).doing("asking for a device attribute");
        let (major, minor) = context.compute_capability().doing("asking for the compute capability")?;
        let capability = major.unsigned_abs() * 10 + minor.unsigned_abs();
        let compiler = Nvrtc::find(driver, capability)?;
        let info = DeviceInfo {
            ordinal,
            name: context.name().doing("asking for the device's name")?,
            capability,
            memory: context.total_mem().doing("asking for the device's memory")? as u64,
            multiprocessors: attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            shared_memory_per_block: attribute(
                CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            )?,
            driver,
            compiler: compiler.version(),
            compiler_file: compiler.name().to_owned(),
            // `Nvrtc::find` returns only compilers that support an architecture of this device.
            architecture: compiler.architecture_for(capability).unwrap_or(capability),
            cache: cache.folder().map(PathBuf::from),
        };
        Ok(Self { context, info, compiler, headers, cache, modules: Arc::default(), tracer: None })
    }

    /// Returns the device with a tracer, which receives the launches of kernels that are loaded through it.
    #[must_use]
    pub fn with_tracer(self, tracer: Arc<dyn Tracer>) -> Self {
        Self { tracer: Some(tracer), ..self }
    }

    /// Returns the properties of the device and of the software that drives it.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Returns the device's primary CUDA context, in which streams and buffers are created.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Returns kernel `name` of a specialization. Its module is taken from the modules loaded on this device, else from
    /// the disk cache, else compiled.
    ///
    /// # Errors
    /// [`CudaError::Compile`] if it does not compile, [`CudaError::Driver`] if it cannot be loaded or has no such
    /// kernel.
    pub fn kernel(&self, specialization: &Specialization, name: &'static str) -> Result<Kernel> {
        self.context.bind_to_thread().doing("making the device's context current")?;
        let module = self.module(specialization)?;
        let function = module.load_function(name).doing(&format!("looking for kernel {name}"))?;
        let info = &self.info;
        let (shared_memory, tracer) = (info.shared_memory_per_block, self.tracer.clone());
        Ok(Kernel::new(self.context.clone(), function, name, shared_memory, info.architecture, tracer))
    }

    fn module(&self, specialization: &Specialization) -> Result<Arc<CudaModule>> {
        let slot = {
            let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
            modules.entry(specialization.clone()).or_default().clone()
        };
        // The entry stays locked during compilation: a second thread that needs the same module waits for it, and
        // threads that need other modules compile those at the same time.
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = slot.as_ref() {
            return Ok(module.clone());
        }
        let key = specialization.key(self.headers, self.info.architecture, self.compiler.version());
        let load = |image| self.context.load_module(Ptx::from_binary(image));
        // A cached image that the driver rejects is treated as damaged and compiled again.
        let cached = self.cache.get(key).and_then(|image| load(image).ok());
        let module = match cached {
            Some(module) => module,
            None => {
                let image = specialization.compile(self.compiler, self.headers, self.info.architecture)?;
                self.cache.put(key, &image);
                load(image).doing(&format!("loading {}", specialization.source.name))?
            }
        };
        *slot = Some(module.clone());
        Ok(module)
    }
}

/// Returns the newest CUDA version that the driver supports. First checks that there is a driver, because `cudarc`
/// panics without one.
fn driver_version() -> Result<Version> {
    // Looking for the library takes longer than asking it.
    static PRESENT: OnceLock<bool> = OnceLock::new();
    // SAFETY: loads the driver library, whose initializers have no preconditions.
    if !PRESENT.get_or_init(|| unsafe { sys::is_culib_present() }) {
        return Err(CudaError::NoDriver);
    }
    let mut version = 0;
    // SAFETY: `version` is a valid place for the integer that the call writes; every driver has the function.
    let code = unsafe { sys::cuDriverGetVersion(&mut version) };
    code.result().doing("asking for the driver's version")?;
    let version = version.unsigned_abs();
    let (major, minor) = (version / 1000, version % 1000 / 10);
    // From 12.0 on, the driver has every function that `cudarc` looks up.
    if major < 12 {
        return Err(CudaError::DriverTooOld { major, minor });
    }
    Ok(Version { major, minor })
}
