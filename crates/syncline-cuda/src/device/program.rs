//! A kernel source with its compile-time constants, and a kernel that is ready to launch.

use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute;
use cudarc::driver::{CudaContext, CudaFunction, CudaStream, LaunchConfig};

use super::{Headers, Key, Launch, Nvrtc, Source, Tracer, Version};
use crate::error::{CudaError, DriverContext, Result};

/// `--fmad=false` evaluates float arithmetic as written, so that results equal those of the CPU. Line information has
/// no run-time cost and lets the profiler and the sanitizer refer to source lines.
const OPTIONS: [&str; 3] = ["--fmad=false", "--std=c++17", "--generate-line-info"];

/// A kernel source and its compile-time constants, which are passed as `-D` options.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Specialization {
    /// The source file.
    pub source: Source,
    /// Names and values of the constants.
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
        let constants = self.constants.iter().map(|(name, value)| format!("-D{name}={value}"));
        OPTIONS.into_iter().chain(more.split_whitespace()).map(str::to_owned).chain(constants).collect()
    }

    /// Compiles the source, which may include `headers`, to a cubin for `sm_<architecture>`.
    ///
    /// # Errors
    /// [`CudaError::Compile`] with the compiler's log.
    pub fn compile(&self, compiler: &Nvrtc, headers: &Headers, architecture: u32) -> Result<Vec<u8>> {
        compiler.compile(self.source, &headers.included(self.source), &self.options(), architecture)
    }

    /// Returns the key of the compiled image in the disk cache. It depends on everything that the compiler reads and on
    /// nothing else, so that a changed header only recompiles the kernels that include it.
    pub fn key(&self, headers: &Headers, architecture: u32, compiler: Version) -> Key {
        let options = self.options().join(" ");
        let target = format!("sm_{architecture} nvrtc {compiler}");
        let headers = headers.included(self.source);
        let headers = headers.iter().flat_map(|header| [header.name, header.text]);
        let parts = [self.source.name, self.source.text, &options, &target];
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

    /// Prepares a launch on `stream` without arguments.
    pub fn launch_on<'a>(&'a self, stream: &'a Arc<CudaStream>) -> Launch<'a> {
        Launch::new(self, stream)
    }

    /// Runs `launch`, and reports it to the device's tracer.
    pub(super) fn traced(&self, stream: &Arc<CudaStream>, launch: impl FnOnce() -> Result<()>) -> Result<()> {
        let Some(tracer) = &self.tracer else { return launch() };
        tracer.before(self.name, stream)?;
        launch()?;
        tracer.after(self.name, stream)
    }

    /// Returns whether `grid_dependency_wait` has an effect in this kernel.
    pub(crate) fn waits_for_previous(&self) -> bool {
        self.architecture >= WAITING_ARCHITECTURE
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

    /// Returns the configuration of a launch of `blocks` blocks of `threads` threads with `shared_memory` bytes each.
    pub fn grid(blocks: u32, threads: u32, shared_memory: u32) -> LaunchConfig {
        LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: shared_memory }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static HEADERS: Headers = Headers::new(&[Source { name: "common.cuh", text: "" }], &[], &[]);

    #[test]
    fn key_depends_on_everything_compiled() {
        let one = Specialization { source: Source { name: "a.cu", text: "text" }, constants: vec![("BINS", 256)] };
        let version = Version { major: 12, minor: 9 };
        let key = one.key(&HEADERS, 90, version);
        assert_eq!(key, one.clone().key(&HEADERS, 90, version));
        assert_ne!(key, one.key(&HEADERS, 80, version));
        assert_ne!(key, one.key(&HEADERS, 90, Version { major: 13, minor: 0 }));
        assert_ne!(key, Specialization { constants: vec![("BINS", 512)], ..one.clone() }.key(&HEADERS, 90, version));
        let source = Source { name: "a.cu", text: "text " };
        assert_ne!(key, Specialization { source, ..one.clone() }.key(&HEADERS, 90, version));
        let source = Source { name: "a.cu", text: "#include \"common.cuh\"\ntext" };
        assert_ne!(key, Specialization { source, ..one }.key(&HEADERS, 90, version));
    }

    #[test]
    fn constants_become_definitions() {
        let source = Source { name: "a.cu", text: "" };
        let options = Specialization { source, constants: vec![("BINS", 1 << 16), ("COPIES", 8)] }.options();
        assert!(options.contains(&"-DBINS=65536".to_owned()) && options.contains(&"--fmad=false".to_owned()));
    }

    #[test]
    fn further_options_are_words() {
        let one = Specialization { source: Source { name: "a.cu", text: "" }, constants: vec![("BINS", 256)] };
        assert_eq!(one.options_with(""), one.options_with("  \n"));
        let options = one.options_with(" -DUNDER_RACECHECK=1 --maxrregcount=32 ");
        assert_eq!(options[OPTIONS.len()..], ["-DUNDER_RACECHECK=1", "--maxrregcount=32", "-DBINS=256"]);
    }
}
