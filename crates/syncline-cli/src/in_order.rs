//! Arrays and streams that are read from start to end.

use std::io::{self, Read, Write};
use std::path::Path;

use syncline::{CompressOptions, ElementType, Shape, Summary, Writer};

use crate::format::{counted, grouped};
use crate::input::{ArrayInput, Input, check_agreement, shown, unknown_type};
use crate::message::{Failure, Outcome};
use crate::names::{self, is_dash};
use crate::npy::{self, Differences, NpyHeader};
use crate::swap::Swapped;

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// An array whose elements come next.
pub struct InOrder<'a> {
    elements: Box<dyn Read + 'a>,
    /// The name for messages.
    pub name: String,
    /// Element type.
    pub element_type: ElementType,
    /// Shape.
    pub shape: Shape,
    /// What differs from the array in NumPy.
    pub differences: Differences,
}

/// A pipe, after its header.
pub enum Pipe {
    /// An array whose shape is known.
    Array(Box<InOrder<'static>>),
    /// Bytes of which only the end tells the number.
    Bytes(Box<dyn Read>),
}

impl Pipe {
    /// Reads the header of an array, if there is one. Without one, the type and the shape must be given.
    pub fn open(
        mut pipe: Box<dyn Read>,
        path: &Path,
        element_type: Option<ElementType>,
        shape: Option<Shape>,
    ) -> Outcome<Self> {
        let name = shown(path).to_string();
        let failed = |error: io::Error| Failure::io(&name, &error);
        let named = element_type.or_else(|| names::type_of(path));
        if named.is_none() && shape.is_some() && !names::is_npy(path) {
            // Without reading: whoever writes may not have started.
            return Err(unknown_type(path, shape));
        }
        let mut head = Vec::new();
        pipe.by_ref().take(npy::PREFIX as u64).read_to_end(&mut head).map_err(failed)?;
        if head.starts_with(npy::MAGIC) {
            let damaged = |text: String| Failure::data(format!("{name}: {text}"));
            let length = npy::header_length(&head).map_err(damaged)?;
            let rest = length.saturating_sub(head.len());
            pipe.by_ref().take(rest as u64).read_to_end(&mut head).map_err(failed)?;
            if head.len() < length {
                return Err(damaged(npy::TRUNCATED.into()));
            }
            let elements = head.split_off(length);
            let header = npy::parse_header(&head).map_err(damaged)?;
            check_agreement(path, &header, element_type, shape)?;
            let NpyHeader { element_type, shape, differences, .. } = header;
            let elements = io::Cursor::new(elements).chain(pipe);
            let elements: Box<dyn Read> = match differences.big_endian {
                true => Box::new(Swapped::new(elements, element_type.size())),
                false => Box::new(elements),
            };
            return Ok(Self::Array(Box::new(InOrder { elements, name, element_type, shape, differences })));
        }
        let element_type = named.ok_or_else(|| unknown_type(path, shape))?;
        let elements: Box<dyn Read> = Box::new(io::Cursor::new(head).chain(pipe));
        match shape {
            Some(shape) => {
                let differences = Differences::default();
                Ok(Self::Array(Box::new(InOrder { elements, name, element_type, shape, differences })))
            }
            None if element_type == ElementType::U8 || is_dash(path) => Ok(Self::Bytes(elements)),
            None => Err(Failure::usage(format!(
                "{name}: the shape is missing: add --shape, slowest axis first, such as --shape 100x500x500"
            ))),
        }
    }
}

impl<'a> InOrder<'a> {
    /// Reads the elements of an array in a file in their order.
    pub fn of(array: &'a ArrayInput) -> Self {
        Self {
            elements: Box::new(Elements { array, done: 0 }),
            name: array.input.to_string(),
            element_type: array.element_type,
            shape: array.shape,
            differences: array.differences,
        }
    }

    /// Returns the number of bytes of the elements.
    fn size(&self) -> Outcome<u64> {
        let size = self.shape.len().checked_mul(self.element_type.size() as u64);
        size.ok_or_else(|| Failure::usage(format!("{}: {} is too large: correct --shape", self.name, self.shape)))
    }

    /// Reads all elements, so that they have positions.
    pub fn spooled(self, path: &Path, memory_limit: Option<u64>) -> Outcome<ArrayInput> {
        let size = self.size()?;
        let Self { elements, element_type, shape, differences, name } = self;
        let input = Input::spooled(elements, path, memory_limit, size).map_err(|failure| match failure {
            Failure::Data(text) if text.contains("that can be expected") => too_long(&name, shape, size),
            other => other,
        })?;
        let there = input.len()?;
        if there < size {
            return Err(too_short(&name, there, size));
        }
        Ok(ArrayInput { input, element_type, shape, offset: 0, differences })
    }

    /// Compresses the elements while they are read.
    pub fn compress(
        mut self,
        sink: impl Write,
        output: &str,
        options: &CompressOptions,
        range: Option<(f64, f64)>,
    ) -> Outcome<Summary> {
        let size = self.size()?;
        let failed = |error| Failure::between(&self.name, output, error);
        let mut writer = match range {
            Some((low, high)) => Writer::with_range(sink, self.element_type, self.shape, options, low, high),
            None => Writer::new(sink, self.element_type, self.shape, options),
        }
        .map_err(failed)?;
        let mut piece = vec![0; PIECE];
        let mut done = 0;
        while done < size {
            let most = (size - done).min(PIECE as u64) as usize;
            let count = read_some(&mut self.elements, &mut piece[..most]);
            let count = count.map_err(|error| Failure::io(&self.name, &error))?;
            if count == 0 {
                return Err(too_short(&self.name, done, size));
            }
            writer.push(&piece[..count]).map_err(failed)?;
            done += count as u64;
        }
        if read_some(&mut self.elements, &mut piece[..1]).map_err(|error| Failure::io(&self.name, &error))? > 0 {
            return Err(too_long(&self.name, self.shape, size));
        }
        writer.finish_with_summary().map(|(_, summary)| summary).map_err(failed)
    }
}

fn read_some(source: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn too_short(name: &str, there: u64, size: u64) -> Failure {
    let (there, size) = (grouped(there), counted(size, "byte"));
    Failure::data(format!("{name}: ended after {there} of {size}: correct --shape or --dtype, or send all of it"))
}

fn too_long(name: &str, shape: Shape, size: u64) -> Failure {
    let size = counted(size, "byte");
    Failure::data(format!("{name}: has more than the {size} of shape {shape}: correct --shape or --dtype"))
}

/// The elements of an array in a file, in order.
struct Elements<'a> {
    array: &'a ArrayInput,
    done: u64,
}

impl Read for Elements<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = (self.array.size() - self.done).min(buffer.len() as u64) as usize;
        syncline::ReadAt::read_exact_at(&self.array.input, &mut buffer[..count], self.array.offset + self.done)?;
        self.done += count as u64;
        Ok(count)
    }
}
