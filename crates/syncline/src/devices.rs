//! The processors that a caller can request, and their names.

use std::fmt;
use std::str::FromStr;

use syncline_core::error::{Error, Result};

/// The processor that does the work. Streams and arrays are the same on each.
///
/// The CPU does what GPUs cannot, even if a GPU is chosen: lossless streams without an index.
/// [`Execution`](crate::Execution) reports which processor did the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// The first GPU if it is usable and likely to be faster, its start included; otherwise the CPU. For compression,
    /// the GPU is chosen from about 0.3 GB of elements with 2 threads, and from 4 GB with 16 threads; with
    /// [`Effort::Fast`](crate::Effort::Fast), from 0.5 GB and 7 GB. For decompression, which is limited by writing to
    /// memory, it is chosen only with one thread. A missing or failing GPU is not an error.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// NVIDIA GPUs. An error if there are none, or if the library was built without the feature `cuda`.
    Cuda(CudaDevices),
}

/// The NVIDIA GPUs to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CudaDevices {
    /// The GPU with this number, counted from 0.
    One(usize),
    /// All GPUs. They share the work.
    All,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(CudaDevices::All) => f.write_str("cuda:all"),
            Self::Cuda(CudaDevices::One(ordinal)) => write!(f, "cuda:{ordinal}"),
        }
    }
}

impl FromStr for Backend {
    type Err = Error;

    /// Parses `auto`, `cpu`, `cuda` (the first GPU), `cuda:1` or `cuda:all`.
    fn from_str(name: &str) -> Result<Self> {
        let unknown = || Error::invalid(format!("unknown device '{name}': use auto, cpu, cuda, cuda:N or cuda:all"));
        match name {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(CudaDevices::One(0))),
            "cuda:all" => Ok(Self::Cuda(CudaDevices::All)),
            _ => {
                let number = name.strip_prefix("cuda:").ok_or_else(unknown)?;
                // `parse` would accept a sign.
                let digits = number.bytes().all(|byte| byte.is_ascii_digit());
                number.parse().ok().filter(|_| digits).map(|n| Self::Cuda(CudaDevices::One(n))).ok_or_else(unknown)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, backend) in [
            ("auto", Backend::Auto),
            ("cpu", Backend::Cpu),
            ("cuda:0", Backend::Cuda(CudaDevices::One(0))),
            ("cuda:17", Backend::Cuda(CudaDevices::One(17))),
            ("cuda:all", Backend::Cuda(CudaDevices::All)),
        ] {
            assert_eq!(name.parse::<Backend>().unwrap(), backend);
            assert_eq!(backend.to_string(), name);
        }
        assert_eq!("cuda".parse::<Backend>().unwrap(), Backend::Cuda(CudaDevices::One(0)));
        for wrong in ["", "gpu", "cuda:", "cuda:-1", "cuda:+1", "cuda:99999999999999999999", "CUDA", "cuda:0,1"] {
            let error = wrong.parse::<Backend>().unwrap_err();
            assert!(error.to_string().contains("cuda:all"), "{wrong}: {error}");
        }
    }
}
