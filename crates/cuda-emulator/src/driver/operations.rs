//! Operations of streams: run when they are queued, or recorded during a capture and run when the graph is launched.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::Arc;

use super::MEMORY;
use super::errors::{Code, Result};
use super::objects::Function;
use crate::machine::{Launch, Shape};
use crate::memory::Memory;

/// An operation of a stream.
#[derive(Debug, Clone)]
pub enum Operation {
    /// The launch of a kernel.
    Launch(Arc<Function>, Launch),
    /// A copy of memory.
    Copy(Copy),
    /// Memory set to a repeated value.
    Set(Set),
    /// A call of a function of the host.
    Call(Call),
}

/// A copy of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// Destination of the copy.
    pub to: Place,
    /// Source of the copy.
    pub from: Place,
    /// Number of bytes.
    pub bytes: usize,
}

/// An address, and whether the called function requires device or host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// An address in memory that the driver has allocated or registered.
    Device(u64),
    /// An address in any memory of the program.
    Host(u64),
}

/// Sets memory to a repeated value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// Destination address.
    pub to: u64,
    /// The repeated value.
    pub value: Value,
    /// Number of repetitions.
    pub count: usize,
}

/// A call of a function of the host, which must not call the driver.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// The function.
    pub function: unsafe extern "C" fn(*mut c_void),
    /// Its argument.
    pub data: u64,
}

/// The value that memory is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// A byte.
    Byte(u8),
    /// A 32-bit word.
    Word(u32),
}

impl Operation {
    /// Returns whether the operation only accesses allocated memory. Prints a message to standard error if not.
    pub fn check(&self) -> Result<()> {
        let wrong = match self {
            // Kernels check each address when they run, and functions of the host are not checked.
            Self::Launch(..) | Self::Call(_) => None,
            Self::Copy(copy) => copy.wrong(&MEMORY),
            Self::Set(set) => set.wrong(&MEMORY),
        };
        let Some(wrong) = wrong else { return Ok(()) };
        eprintln!("cuda-emulator: {wrong}");
        Err(Code::InvalidValue)
    }

    /// Runs the operation. Prints a message to standard error if a kernel fails.
    pub fn run(&self, shape: &Shape) -> Result<()> {
        // Recorded operations are checked again, because memory may have been freed since.
        self.check()?;
        match self {
            Self::Launch(function, launch) => function.kernel.run(launch, shape, &MEMORY).map_err(|wrong| {
                eprintln!("cuda-emulator: kernel {}: {wrong}", function.name);
                Code::LaunchFailed
            }),
            Self::Copy(copy) => {
                copy.run();
                Ok(())
            }
            Self::Set(set) => {
                set.run();
                Ok(())
            }
            Self::Call(Call { function, data }) => {
                // SAFETY: the caller of the driver guarantees that the function may be called with this argument
                // whenever the stream, or a graph that captured it, reaches the call.
                unsafe { function(*data as *mut c_void) };
                Ok(())
            }
        }
    }
}

impl Copy {
    /// Returns what is wrong with the copy, or `None` if both ranges are allocated.
    fn wrong(&self, memory: &Memory) -> Option<String> {
        let lies = |place| match place {
            Place::Device(address) => within(memory, address, self.bytes),
            Place::Host(address) => self.bytes == 0 || address != 0,
        };
        let text = || format!("a copy of {} bytes from {:x?} to {:x?}: not allocated", self.bytes, self.from, self.to);
        (!lies(self.to) || !lies(self.from)).then(text)
    }

    fn run(&self) {
        let (from, to) = (self.from.address() as *const u8, self.to.address() as *mut u8);
        if self.bytes > 0 {
            // SAFETY: the device memory is allocated, as checked above. The caller of the driver guarantees that the
            // host memory is valid and that no other thread uses either range meanwhile.
            unsafe { from.copy_to(to, self.bytes) };
        }
    }
}

impl Place {
    fn address(self) -> u64 {
        let (Self::Device(address) | Self::Host(address)) = self;
        address
    }
}

impl Set {
    /// Returns the number of bytes to write, or `None` if it overflows.
    fn bytes(&self) -> Option<usize> {
        let width = match self.value {
            Value::Byte(_) => 1,
            Value::Word(_) => size_of::<u32>(),
        };
        self.count.checked_mul(width)
    }

    /// Returns what is wrong with the operation, or `None` if its range is allocated and aligned.
    fn wrong(&self, memory: &Memory) -> Option<String> {
        let aligned = matches!(self.value, Value::Byte(_)) || self.to.is_multiple_of(size_of::<u32>() as u64);
        let right = aligned && self.bytes().is_some_and(|bytes| within(memory, self.to, bytes));
        let text =
            || format!("{} times {:x?} from {:#x} on: misaligned or not allocated", self.count, self.value, self.to);
        (!right).then(text)
    }

    fn run(&self) {
        if self.count == 0 {
            return;
        }
        match self.value {
            // SAFETY: the range is allocated, as checked above, and the caller of the driver guarantees that nobody
            // else uses it.
            Value::Byte(byte) => unsafe { (self.to as *mut u8).write_bytes(byte, self.count) },
            Value::Word(word) => {
                let start = self.to as *mut u32;
                // SAFETY: as for bytes; the address has been checked to be a multiple of 4.
                (0..self.count).for_each(|i| unsafe { start.add(i).write(word) });
            }
        }
    }
}

/// Returns whether a range lies within one allocation. An empty range always does.
fn within(memory: &Memory, address: u64, bytes: usize) -> bool {
    let fits = |(start, length): (u64, usize)| bytes as u64 <= length as u64 - (address - start);
    bytes == 0 || memory.piece(address).is_some_and(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked() {
        let memory = Memory::new();
        let start = memory.allocate(100).unwrap();
        assert!(within(&memory, start, 100) && within(&memory, start + 99, 1) && within(&memory, 0, 0));
        assert!(!within(&memory, start, 101) && !within(&memory, start + 99, 2) && !within(&memory, start + 100, 1));
        assert!(!within(&memory, start - 1, 1) && !within(&memory, start, usize::MAX));
        let copy = |to, from, bytes| Copy { to, from, bytes }.wrong(&memory).is_none();
        let host = [0_u8; 200];
        let host = Place::Host(host.as_ptr() as u64);
        assert!(copy(Place::Device(start), host, 100) && copy(host, Place::Device(start + 50), 50));
        assert!(!copy(Place::Device(start), host, 101) && !copy(host, Place::Device(start + 51), 50));
        assert!(!copy(host, Place::Host(0), 1) && copy(host, Place::Host(0), 0));
        assert!(!copy(host, Place::Device(0), 1), "a null pointer");
        memory.release(start);
        assert!(!within(&memory, start, 1));
    }

    #[test]
    fn values_are_set_and_copied() {
        let start = MEMORY.allocate(64).unwrap();
        let shape = super::super::devices::initialize().unwrap()[0].shape;
        let set = |to, value, count| Operation::Set(Set { to, value, count }).run(&shape);
        assert_eq!(set(start, Value::Byte(7), 64), Ok(()));
        assert_eq!(set(start + 4, Value::Word(0x0102_0304), 2), Ok(()));
        assert_eq!(set(start + 2, Value::Word(0), 1), Err(Code::InvalidValue));
        assert_eq!(set(start, Value::Word(0), 17), Err(Code::InvalidValue));
        assert_eq!(set(start, Value::Word(0), usize::MAX), Err(Code::InvalidValue));
        let mut back = [0_u8; 16];
        let copy = Copy { to: Place::Host(back.as_mut_ptr() as u64), from: Place::Device(start), bytes: 16 };
        assert_eq!(Operation::Copy(copy).run(&shape), Ok(()));
        assert_eq!(back, [7, 7, 7, 7, 4, 3, 2, 1, 4, 3, 2, 1, 7, 7, 7, 7]);
        MEMORY.release(start);
    }
}
