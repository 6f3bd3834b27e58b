//! The error type of the codec. Each message says in one line what is wrong, where, and what to do.

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
    #[error("the stream has format version {found}, and this build reads versions up to {supported}: update Syncline")]
    UnsupportedVersion {
        /// Version of the stream.
        found: u16,
        /// Newest version that this build reads.
        supported: u16,
    },
    /// The stream ends too early.
    #[error(
        "the stream is truncated in {place}, which has {available} of {needed} bytes: copy or download the stream again"
    )]
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
    #[error("{what} needs {needed} bytes, and the memory limit is {limit}: raise the limit or use a smaller region")]
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
        /// The operation that failed.
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

/// The kind of an [`Error`]. Its number is stable, so that bindings can pass it to programs in other languages: a
/// number keeps its meaning in all later versions, and new kinds get new numbers.
///
/// | number | kind | meaning | remedy |
/// |---|---|---|---|
/// | 1 | `InvalidArgument` | a call or option is invalid | change the call |
/// | 2 | `NotSyncline` | the data are not a Syncline stream | check which file it is |
/// | 3 | `UnsupportedVersion` | a newer version of Syncline wrote the stream | update Syncline |
/// | 4 | `Truncated` | the stream ends too early | copy or download it again |
/// | 5 | `Corrupt` | the stream is damaged | copy or download it again |
/// | 6 | `MemoryLimit` | the memory limit is too low | raise it, or use a smaller region |
/// | 7 | `Gpu` | the GPU cannot be used or failed | follow the text, or use the CPU |
/// | 8 | `Cancelled` | the progress callback cancelled the work | none |
/// | 9 | `Io` | reading or writing failed | follow the text |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u32)]
#[expect(missing_docs, reason = "the table describes them")]
pub enum ErrorKind {
    InvalidArgument = 1,
    NotSyncline = 2,
    UnsupportedVersion = 3,
    Truncated = 4,
    Corrupt = 5,
    MemoryLimit = 6,
    Gpu = 7,
    Cancelled = 8,
    Io = 9,
}

impl ErrorKind {
    /// Returns the stable number of the kind.
    pub const fn code(self) -> u32 {
        self as u32
    }
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
    /// Returns the location of the record of chunk number `chunk`, which starts at byte `offset` of the stream.
    pub const fn of_chunk(chunk: u64, offset: u64) -> Self {
        Self { chunk: Some(chunk), offset: Some(offset) }
    }

    /// Returns the location of byte `offset` of the stream, outside of the chunks.
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

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidArgument(_) => ErrorKind::InvalidArgument,
            Self::NotSyncline(_) => ErrorKind::NotSyncline,
            Self::UnsupportedVersion { .. } => ErrorKind::UnsupportedVersion,
            Self::Truncated { .. } => ErrorKind::Truncated,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::MemoryLimit { .. } => ErrorKind::MemoryLimit,
            Self::Gpu { .. } => ErrorKind::Gpu,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Io(_) => ErrorKind::Io,
        }
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

    use super::{Error, Location};

    #[test]
    fn errors_as_io_errors_keep_their_kind_and_text() {
        let full = Error::from(io::Error::from(ErrorKind::StorageFull));
        assert_eq!(full.kind().code(), 9);
        let error = io::Error::from(full);
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert!(error.get_ref().is_none(), "not wrapped");

        let truncated = Error::truncated("the header", 2, 1);
        let limit = Error::MemoryLimit { what: "the array".into(), needed: 2, limit: 1 };
        for (error, code, kind) in [
            (Error::invalid("a bound"), 1, ErrorKind::InvalidInput),
            (Error::NotSyncline("a picture".into()), 2, ErrorKind::InvalidData),
            (Error::UnsupportedVersion { found: 2, supported: 1 }, 3, ErrorKind::Unsupported),
            (truncated, 4, ErrorKind::UnexpectedEof),
            (Error::corrupt("chunk 1", "its checksum"), 5, ErrorKind::InvalidData),
            (limit, 6, ErrorKind::OutOfMemory),
            (Error::gpu("none"), 7, ErrorKind::Other),
            (Error::Cancelled, 8, ErrorKind::Other),
        ] {
            assert_eq!(error.kind().code(), code, "{error}");
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
