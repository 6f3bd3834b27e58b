//! The one error type of the codec: what was wrong, where, and what to do.

/// Anything that can go wrong while compressing or decompressing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller asked for something that cannot be done; the text says what to change.
    #[error("{0}")]
    InvalidArgument(String),
    /// The stream does not start with Syncline's magic bytes.
    #[error("not a Syncline stream: {0}")]
    NotSyncline(String),
    /// The stream was written by a newer version of the format.
    #[error("stream has format version {found}, this build reads up to {supported}: update Syncline to read it")]
    UnsupportedVersion {
        /// Version found in the stream.
        found: u16,
        /// Newest version this build reads.
        supported: u16,
    },
    /// The stream ends before its contents do.
    #[error("truncated stream in {place}: {needed} bytes needed, {available} there; fetch the file again")]
    Truncated {
        /// Which part of the stream was being read.
        place: String,
        /// Bytes that the part needs.
        needed: u64,
        /// Bytes that are left.
        available: u64,
    },
    /// The stream contradicts itself or a checksum does not match.
    #[error("damaged stream in {place}: {what}")]
    Corrupt {
        /// Which part of the stream was being read, with its byte offset where known.
        place: String,
        /// What was found.
        what: String,
    },
    /// The work would need more memory than the caller allows.
    #[error("{what} needs {needed} bytes, the memory limit is {limit}: raise the limit or work on a smaller part")]
    MemoryLimit {
        /// What was about to be allocated.
        what: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The GPU that the caller asked for cannot be used, or failed; the text says what to do.
    #[error("{0}")]
    Gpu(String),
    /// The caller cancelled the work.
    #[error("cancelled")]
    Cancelled,
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Error {
    /// A [`Error::Corrupt`] with its place and finding.
    pub fn corrupt(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Corrupt { place: place.into(), what: what.into() }
    }

    /// A [`Error::InvalidArgument`].
    pub fn invalid(what: impl Into<String>) -> Self {
        Self::InvalidArgument(what.into())
    }
}

/// For implementations of [`std::io::Read`] and [`std::io::Write`]: a failing reader's or writer's error is as it was,
/// any other is inside one of the kind that fits best. None is `Interrupted`, which would have the same work asked for
/// again.
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
            Error::Gpu(_) | Error::Cancelled => ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// Result with the codec's [`Error`].
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

        let truncated = Error::Truncated { place: "the header".into(), needed: 2, available: 1 };
        let limit = Error::MemoryLimit { what: "the array".into(), needed: 2, limit: 1 };
        for (error, kind) in [
            (Error::invalid("a bound"), ErrorKind::InvalidInput),
            (Error::NotSyncline("a picture".into()), ErrorKind::InvalidData),
            (Error::UnsupportedVersion { found: 2, supported: 1 }, ErrorKind::Unsupported),
            (truncated, ErrorKind::UnexpectedEof),
            (Error::corrupt("chunk 1", "its checksum"), ErrorKind::InvalidData),
            (limit, ErrorKind::OutOfMemory),
            (Error::Gpu("none".into()), ErrorKind::Other),
            (Error::Cancelled, ErrorKind::Other),
        ] {
            let text = error.to_string();
            let error = io::Error::from(error);
            assert_eq!((error.kind(), error.to_string()), (kind, text));
            assert!(error.get_ref().is_some_and(|inner| inner.is::<Error>()));
        }
    }
}
