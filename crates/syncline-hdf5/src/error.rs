//! Errors of reading and writing HDF5 files.

/// The reason why a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No HDF5 library could be loaded.
    #[error("{0}")]
    NoLibrary(String),
    /// A dataset or group that was asked for does not exist.
    #[error("{0}")]
    Missing(String),
    /// The file contains something that cannot be read or written.
    #[error("{0}")]
    Unsupported(String),
    /// The HDF5 library failed.
    #[error("{0}")]
    Failed(String),
    /// Compression failed.
    #[error(transparent)]
    Syncline(#[from] syncline::Error),
}

/// Result of reading or writing HDF5 files.
pub type Result<T = ()> = std::result::Result<T, Error>;
