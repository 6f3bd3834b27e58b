//! Positional access, so that arrays and streams larger than memory can be read and written from several threads.

use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

use syncline_core::error::Result;

/// A source of bytes that can be read at any offset, by several threads at once.
pub trait ReadAt: Sync {
    /// Returns the number of bytes.
    ///
    /// # Errors
    /// Errors of the source.
    fn size(&self) -> io::Result<u64>;

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// An error of the kind `UnexpectedEof` if the source is too short; errors of the source.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Returns how many of the `length` bytes from `offset` on can be read, up to the first that cannot: all, unless
    /// the source has only some of the bytes.
    #[doc(hidden)]
    fn at_hand(&self, offset: u64, length: u64) -> u64 {
        let _ = offset;
        length
    }

    /// Returns all bytes if they are in memory. They are then used without a copy.
    fn in_memory(&self) -> Option<&[u8]> {
        None
    }
}

impl ReadAt for [u8] {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let part = usize::try_from(offset).ok().and_then(|start| self.get(start..start.checked_add(buffer.len())?));
        buffer.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn in_memory(&self) -> Option<&[u8]> {
        Some(self)
    }
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> io::Result<u64> {
        self.as_slice().size()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.as_slice().read_exact_at(buffer, offset)
    }

    fn in_memory(&self) -> Option<&[u8]> {
        Some(self)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        (**self).read_exact_at(buffer, offset)
    }

    fn in_memory(&self) -> Option<&[u8]> {
        (**self).in_memory()
    }
}

impl ReadAt for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, buffer, offset)
    }

    #[cfg(windows)]
    fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            let count = std::os::windows::fs::FileExt::seek_read(self, buffer, offset)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer = &mut buffer[count..];
            offset += count as u64;
        }
        Ok(())
    }
}

/// A sink of bytes that can be written at any offset, by several threads at once.
pub trait WriteAt: Sync {
    /// Writes all of `buffer` from `offset` on.
    ///
    /// # Errors
    /// Errors of the sink.
    fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()>;

    /// Returns whether writes wait for each other in the operating system. Threads then write in turns instead.
    fn takes_turns(&self) -> bool {
        false
    }
}

/// Operating systems lock a file during each write. With 16 threads at once, a file in memory took 2.4 GB/s; with
/// turns, 2.9 GB/s.
impl WriteAt for File {
    #[cfg(unix)]
    fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self, buffer, offset)
    }

    #[cfg(windows)]
    fn write_all_at(&self, mut buffer: &[u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            let count = std::os::windows::fs::FileExt::seek_write(self, buffer, offset)?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            buffer = &buffer[count..];
            offset += count as u64;
        }
        Ok(())
    }

    fn takes_turns(&self) -> bool {
        true
    }
}

impl<T: WriteAt + ?Sized> WriteAt for &T {
    fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        (**self).write_all_at(buffer, offset)
    }

    fn takes_turns(&self) -> bool {
        (**self).takes_turns()
    }
}

/// A sink for several threads, which write one at a time if it [takes turns](WriteAt::takes_turns).
pub(crate) struct Turns<'a, W: ?Sized> {
    sink: &'a W,
    turn: Option<Mutex<()>>,
}

impl<'a, W: WriteAt + ?Sized> Turns<'a, W> {
    pub(crate) fn new(sink: &'a W) -> Self {
        Self { sink, turn: sink.takes_turns().then(Mutex::default) }
    }

    /// Runs `write`, if necessary after the writes of other threads.
    pub(crate) fn turn(&self, write: impl FnOnce(&W) -> io::Result<()>) -> Result<()> {
        let _turn = self.turn.as_ref().map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(write(self.sink)?)
    }
}
