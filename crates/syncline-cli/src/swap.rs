//! Elements whose bytes are in the opposite order.

use std::io::{self, Read};

/// Bytes that are read at a time; a multiple of every element size.
const BLOCK: usize = 1 << 16;

/// Reverses the bytes of each element.
pub fn reverse(bytes: &mut [u8], element: usize) {
    bytes.chunks_exact_mut(element).for_each(<[u8]>::reverse);
}

/// Reads elements in the opposite byte order from start to end.
pub struct Swapped<R> {
    source: R,
    element: usize,
    block: Vec<u8>,
    /// Bytes of the block that are given away.
    given: usize,
}

impl<R: Read> Swapped<R> {
    /// Starts at the first element.
    pub fn new(source: R, element: usize) -> Self {
        Self { source, element, block: Vec::new(), given: 0 }
    }

    /// Reads whole elements, at least one unless the source has ended.
    fn fill(&mut self) -> io::Result<()> {
        self.given = 0;
        self.block.resize(BLOCK, 0);
        let mut count = 0_usize;
        while count == 0 || !count.is_multiple_of(self.element) {
            match self.source.read(&mut self.block[count..]) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.block.truncate(count);
        reverse(&mut self.block, self.element);
        Ok(())
    }
}

impl<R: Read> Read for Swapped<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.block.len() {
            self.fill()?;
        }
        let count = (&self.block[self.given..]).read(buffer)?;
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_reversed_however_they_arrive() {
        let bytes: Vec<u8> = (0..3 * BLOCK + 16).map(|i| (i % 251) as u8).collect();
        let mut expected = bytes.clone();
        reverse(&mut expected, 8);
        let (first, second) = bytes.split_at(1003);
        let mut back = Vec::new();
        Swapped::new(first.chain(second), 8).read_to_end(&mut back).unwrap();
        assert!(back == expected);
        let mut one = [0];
        let mut reader = Swapped::new(&bytes[..8], 8);
        let read: Vec<u8> = (0..8).map(|_| reader.read(&mut one).map(|_| one[0]).unwrap()).collect();
        assert_eq!((read.as_slice(), reader.read(&mut one).unwrap()), (&expected[..8], 0));
    }
}
