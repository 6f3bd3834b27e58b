//! The error type of the codec. Each message says on one line what is wrong, where, and what to do about it.

/// An error while compressing or decompressing.
///
/// The text of a variant with a [`source`](std::error::Error::source) includes the text of that source, so that
/// printing the error alone is enough.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request cannot be fulfilled; the text says what to change.
    #[error("{0}")]
    InvalidArgument(String),
    /// The data do not start with Syncline's magic bytes.
    #[error("not a Syncline stream: {0}")]
    NotSyncline(String),
    /// The stream was written in a newer version of the format.
    #[error("stream has format version {found}, this build reads up to {supported}: update Syncline to read it")]
    UnsupportedVersion {
        /// Version of the stream.
        found: u16,
        /// Newest version that this build reads.
        supported: u16,
    },
    /// The stream ends too early.
    #[error("truncated stream in {place}: {needed} bytes needed, {available} available; fetch the file again")]
    Truncated {
        /// The part of the stream that is incomplete.
        place: String,
        /// Length of the part in bytes.
        needed: u64,
        /// Bytes of the part that are available.
        available: u64,
        /// Position of the part, as far as known.
        location: Location,
    },
    /// The stream contradicts itself, or a checksum does not match.
    #[error("damaged stream in {place}: {what}")]
    Corrupt {
        /// The part of the stream that is damaged.
        place: String,
        /// The contradiction found.
        what: String,
        /// Position of the part, as far as known.
        location: Location,
    },
    /// The work needs more memory than the caller allows.
    #[error("{what} needs {needed} bytes, the memory limit is {limit}: raise the limit or work on a smaller part")]
    MemoryLimit {
        /// The purpose of the memory.
        what: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The requested GPU cannot be used, or its work failed; the text says what to do.
    #[error("{message}")]
    Gpu {
        /// What failed.
        message: String,
        /// The error of the GPU backend, if there is one.
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The progress callback cancelled the work.
    #[error("cancelled")]
    Cancelled,
    /// Reading or writing failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// A position in a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Location {
    /// Number of the chunk, from 0.
    pub chunk: Option<u64>,
    /// Byte offset from the start of the stream: of the chunk's record, or of the damaged part outside the chunks.
    pub offset: Option<u64>,
}

impl Location {
    /// The record of chunk number `chunk`, which starts at byte `offset` of the stream.
    pub const fn of_chunk(chunk: u64, offset: u64) -> Self {
        Self { chunk: Some(chunk), offset: Some(offset) }
    }

    /// Byte `offset` of the stream, outside the chunks.
    pub const fn at(offset: u64) -> Self {
        Self { chunk: None, offset: Some(offset) }
    }
}

impl Error {
    /// Makes an [`Error::Corrupt`] without a typed location.
    pub fn corrupt(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Corrupt { place: place.into(), what: what.into(), location: Location::default() }
    }

    /// Makes an [`Error::Truncated`] without a typed location.
    pub fn truncated(place: impl Into<String>, needed: u64, available: u64) -> Self {
        Self::Truncated { place: place.into(), needed, available, location: Location::default() }
    }

    /// Makes an [`Error::InvalidArgument`].
    pub fn invalid(what: impl Into<String>) -> Self {
        Self::InvalidArgument(what.into())
    }

    /// Makes an [`Error::Gpu`] without a source.
    pub fn gpu(message: impl Into<String>) -> Self {
        Self::Gpu { message: message.into(), source: None }
    }

    /// Makes an [`Error::Gpu`] with the text of its source.
    pub fn gpu_source(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let source = source.into();
        Self::Gpu { message: source.to_string(), source: Some(source) }
    }

    /// Returns the position in the stream that the error is about, as far as it is known.
    pub fn location(&self) -> Location {
        match self {
            Self::Corrupt { location, .. } | Self::Truncated { location, .. } => *location,
            _ => Location::default(),
        }
    }

    /// Sets the location of an error about the contents of a stream; leaves other errors, and a location that is
    /// already set, as they are.
    #[must_use]
    pub fn located(mut self, at: Location) -> Self {
        if let Self::Corrupt { location, .. } | Self::Truncated { location, .. } = &mut self
            && *location == Location::default()
        {
            *location = at;
        }
        self
    }
}

/// For implementations of [`std::io::Read`] and [`std::io::Write`]. An I/O error is returned as it is; other errors
/// are wrapped in one of the kind that fits best. None becomes `Interrupted`, which would make callers retry.
impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        use std::io::ErrorKind;
        let kind = match error {
            Error::Io(error) => return error,
            Error::InvalidArgument(_) => ErrorKind::InvalidInput,
            Error::NotSyncline(_) | Error::Corrupt { .. } => ErrorKind::InvalidData,
            Error::UnsupportedVersion { .. } => ErrorKind::Unsupported,
            Error::Truncated { .. } => ErrorKind::UnexpectedEof,
            Error::MemoryLimit { .. } => ErrorKind::OutOfMemory,
            Error::Gpu { .. } | Error::Cancelled => ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// A result with the codec's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind};

    use super::*;

    #[test]
    fn as_errors_of_readers_and_writers_they_keep_their_kind_and_text() {
        let full = Error::from(io::Error::from(ErrorKind::StorageFull));
        let error = io::Error::from(full);
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert!(error.get_ref().is_none(), "not wrapped");

        let truncated = Error::truncated("the header", 2, 1);
        let limit = Error::MemoryLimit { what: "the array".into(), needed: 2, limit: 1 };
        for (error, kind) in [
            (Error::invalid("a bound"), ErrorKind::InvalidInput),
            (Error::NotSyncline("a picture".into()), ErrorKind::InvalidData),
            (Error::UnsupportedVersion { found: 2, supported: 1 }, ErrorKind::Unsupported),
            (truncated, ErrorKind::UnexpectedEof),
            (Error::corrupt("chunk 1", "its checksum"), ErrorKind::InvalidData),
            (limit, ErrorKind::OutOfMemory),
            (Error::gpu("none"), ErrorKind::Other),
            (Error::Cancelled, ErrorKind::Other),
        ] {
            let text = error.to_string();
            let error = io::Error::from(error);
            assert_eq!((error.kind(), error.to_string()), (kind, text));
            assert!(error.get_ref().is_some_and(|inner| inner.is::<Error>()));
        }
    }

    #[test]
    fn sources_and_locations_are_kept() {
        use std::error::Error as _;
        let full = Error::from(io::Error::from(ErrorKind::StorageFull));
        let source = full.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.map(io::Error::kind), Some(ErrorKind::StorageFull));
        let gpu = Error::gpu_source("no driver");
        assert_eq!(
            (gpu.to_string(), gpu.source().map(ToString::to_string)),
            ("no driver".into(), Some("no driver".into()))
        );

        let damaged = Error::corrupt("chunk 3", "its checksum does not match").located(Location::of_chunk(3, 144));
        assert_eq!(damaged.location(), Location { chunk: Some(3), offset: Some(144) });
        assert_eq!(damaged.located(Location::at(9)).location().chunk, Some(3), "the first location stays");
        assert_eq!(Error::Cancelled.located(Location::at(9)).location(), Location::default());
    }
}
