//! A kernel source with its compile-time constants, and a kernel that is ready to launch.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Arc;

use cudarc::driver::sys::{
    CUfunction_attribute, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig,
    cuLaunchKernelEx,
};
use cudarc::driver::{CudaContext, CudaFunction, CudaStream};

use super::{Grid, Headers, Key, Nvrtc, Source, Tracer, Version};
use crate::error::{CudaError, DriverContext, Result};

/// `--fmad=false` evaluates float arithmetic as written, so that results equal those of the CPU. Line information has
/// no run-time cost and lets the profiler and the sanitizer refer to source lines.
const OPTIONS: [&str; 3] = ["--fmad=false", "--std=c++17", "--generate-line-info"];

/// A kernel source and its compile-time constants, which are passed as `-D` options.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Specialization {
    /// The source file.
    pub source: Source,
    /// Text that is compiled after the source.
    pub assertions: String,
    /// Names, in upper or lower case, and values of the constants, whose names are in upper case in the source.
    pub constants: Vec<(&'static str, u64)>,
}

impl Specialization {
    /// Returns the compiler options except the architecture: the fixed ones, those in `SYNCLINE_NVRTC_OPTIONS`, and the
    /// constants.
    pub fn options(&self) -> Vec<String> {
        self.options_with(&std::env::var("SYNCLINE_NVRTC_OPTIONS").unwrap_or_default())
    }

    /// Returns the compiler options with `more`, which contains further options separated by white space.
    fn options_with(&self, more: &str) -> Vec<String> {
        let constants = self.constants.iter().map(|(name, value)| format!("-D{}={value}", name.to_uppercase()));
        OPTIONS.into_iter().chain(more.split_whitespace()).map(str::to_owned).chain(constants).collect()
    }

    /// Returns the specialization with kernel `to` of another source in place of kernel `from`, of the same parameters.
    #[doc(hidden)]
    #[must_use]
    pub fn with_kernel(self, source: Source, from: &str, to: &str) -> Self {
        Self { source, assertions: self.assertions.replace(from, to), ..self }
    }

    /// Compiles the source, which may include `headers`, to a cubin for `sm_<architecture>`.
    ///
    /// # Errors
    /// [`CudaError::Compile`] with the compiler's log.
    pub fn compile(&self, compiler: &Nvrtc, headers: &Headers, architecture: u32) -> Result<Vec<u8>> {
        let text = format!("{}{}", self.source.text, self.assertions);
        let headers = headers.included(self.source);
        compiler.compile((self.source.name, &text), &headers, &self.options(), architecture)
    }

    /// Returns the key of the compiled image in the disk cache. It depends on everything that the compiler reads and on
    /// nothing else, so that a changed header only recompiles the kernels that include it.
    pub fn key(&self, headers: &Headers, architecture: u32, compiler: Version) -> Key {
        let options = self.options().join(" ");
        let target = format!("sm_{architecture} nvrtc {compiler}");
        let headers = headers.included(self.source);
        let headers = headers.iter().flat_map(|header| [header.name, header.text]);
        let parts = [self.source.name, self.source.text, &self.assertions, &options, &target];
        Key::new(parts.into_iter().chain(headers).map(str::as_bytes))
    }
}

/// A kernel loaded on a device.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// Bound to the calling thread before the driver is queried about the function, because the driver answers for the
    /// current context only.
    context: Arc<CudaContext>,
    function: CudaFunction,
    name: &'static str,
    shared_memory_limit: u32,
    /// Architecture that the kernel was compiled for.
    architecture: u32,
    tracer: Option<Arc<dyn Tracer>>,
}

/// The first architecture that supports programmatic dependent launch.
const WAITING_ARCHITECTURE: u32 = 90;

impl Kernel {
    pub(super) fn new(
        context: Arc<CudaContext>,
        function: CudaFunction,
        name: &'static str,
        shared_memory_limit: u32,
        architecture: u32,
        tracer: Option<Arc<dyn Tracer>>,
    ) -> Self {
        Self { context, function, name, shared_memory_limit, architecture, tracer }
    }

    /// Runs `launch`, and reports it to the device's tracer.
    fn traced(&self, stream: &Arc<CudaStream>, launch: impl FnOnce() -> Result<()>) -> Result<()> {
        let Some(tracer) = &self.tracer else { return launch() };
        tracer.before(self.name, stream)?;
        launch()?;
        tracer.after(self.name, stream)
    }

    /// Launches the kernel.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    ///
    /// # Safety
    /// `parameters` points to a value of each of the kernel's parameters, and the kernel's accesses to memory are valid
    /// with these and this grid. If the grid may start early, the kernel waits for the previous one before it accesses
    /// memory that another kernel may be using.
    pub unsafe fn launch(&self, stream: &Arc<CudaStream>, grid: Grid, parameters: &mut [*mut c_void]) -> Result<()> {
        stream.context().bind_to_thread().doing("making the device's context current")?;
        // SAFETY: the union contains only plain numbers, for which all zeros is valid.
        let none: CUlaunchAttributeValue = unsafe { MaybeUninit::zeroed().assume_init() };
        let (mut early, mut cooperative) = (none, none);
        early.programmaticStreamSerializationAllowed = 1;
        cooperative.cooperative = 1;
        let attribute = |id, value| CUlaunchAttribute { id, pad: [0; 4], value };
        let early = attribute(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, early);
        let cooperative = attribute(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, cooperative);
        let mut attributes = match (grid.early && self.architecture >= WAITING_ARCHITECTURE, grid.cooperative) {
            (true, true) => vec![early, cooperative],
            (true, false) => vec![early],
            (false, true) => vec![cooperative],
            (false, false) => vec![],
        };
        let config = CUlaunchConfig {
            gridDimX: grid.blocks.0,
            gridDimY: grid.blocks.1,
            gridDimZ: 1,
            blockDimX: grid.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: grid.shared_memory,
            hStream: stream.cu_stream(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        let function = self.function.cu_function();
        self.traced(stream, || {
            // SAFETY: configuration, attributes and parameters live until the call returns, and the driver has copied
            // them by then. The caller guarantees the rest.
            unsafe { cuLaunchKernelEx(&raw const config, function, parameters.as_mut_ptr(), std::ptr::null_mut()) }
                .result()
                .doing(&format!("launching kernel {}", self.name))
        })
    }

    /// Returns the kernel's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the loaded function.
    pub fn function(&self) -> &CudaFunction {
        &self.function
    }

    /// Allows launches with `bytes` of dynamic shared memory per block, which the driver requires above 48 KiB.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the device does not support that much.
    pub fn allow_shared_memory(&self, bytes: u32) -> Result<()> {
        if bytes > self.shared_memory_limit {
            return Err(CudaError::invalid(format!(
                "kernel {} needs {bytes} bytes of shared memory, but a block has {} on this device",
                self.name, self.shared_memory_limit
            )));
        }
        let limit = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let what = format!("shared memory of kernel {}", self.name);
        // The limit is only raised, because other users of the same function may have requested more.
        match self.function.get_attribute(limit).doing(&what)? < bytes as i32 {
            true => self.function.set_attribute(limit, bytes as i32).doing(&what),
            false => Ok(()),
        }
    }

    /// Configures multiprocessors that run the kernel for maximum shared memory, so that blocks of another kernel can
    /// use the rest. By default the driver configures only as much as this kernel needs.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn leave_shared_memory(&self) -> Result<()> {
        let share = CUfunction_attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
        self.context.bind_to_thread().doing("making the device's context current")?;
        self.function.set_attribute(share, 100).doing(&format!("shared memory beside kernel {}", self.name))
    }

    /// Returns the number of blocks of `threads` threads that can be resident on a multiprocessor.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn blocks_per_multiprocessor(&self, threads: u32, shared_memory: u32) -> Result<u32> {
        self.context.bind_to_thread().doing("making the device's context current")?;
        self.function
            .occupancy_max_active_blocks_per_multiprocessor(threads, shared_memory as usize, None)
            .doing(&format!("occupancy of kernel {}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static HEADERS: Headers = Headers::new(&[Source { name: "common.cuh", text: "" }], &[], &[]);

    #[test]
    fn key_depends_on_everything_compiled() {
        let one = Specialization {
            assertions: String::new(),
            source: Source { name: "a.cu", text: "text" },
            constants: vec![("BINS", 256)],
        };
        let version = Version { major: 12, minor: 9 };
        let key = one.key(&HEADERS, 90, version);
        assert_eq!(key, one.clone().key(&HEADERS, 90, version));
        assert_ne!(key, one.key(&HEADERS, 80, version));
        assert_ne!(key, one.key(&HEADERS, 90, Version { major: 13, minor: 0 }));
        assert_ne!(key, Specialization { constants: vec![("BINS", 512)], ..one.clone() }.key(&HEADERS, 90, version));
        let source = Source { name: "a.cu", text: "text " };
        assert_ne!(key, Specialization { assertions: String::new(), source, ..one.clone() }.key(&HEADERS, 90, version));
        let source = Source { name: "a.cu", text: "#include \"common.cuh\"\ntext" };
        assert_ne!(key, Specialization { assertions: String::new(), source, ..one }.key(&HEADERS, 90, version));
    }

    #[test]
    fn constants_become_definitions() {
        let source = Source { name: "a.cu", text: "" };
        let options =
            Specialization { assertions: String::new(), source, constants: vec![("BINS", 1 << 16), ("COPIES", 8)] }
                .options();
        assert!(options.contains(&"-DBINS=65536".to_owned()) && options.contains(&"--fmad=false".to_owned()));
    }

    #[test]
    fn further_options_are_words() {
        let one = Specialization {
            assertions: String::new(),
            source: Source { name: "a.cu", text: "" },
            constants: vec![("BINS", 256)],
        };
        assert_eq!(one.options_with(""), one.options_with("  \n"));
        let options = one.options_with(" -DUNDER_RACECHECK=1 --maxrregcount=32 ");
        assert_eq!(options[OPTIONS.len()..], ["-DUNDER_RACECHECK=1", "--maxrregcount=32", "-DBINS=256"]);
    }
}
