//! Inputs: files, stdin, raw arrays, and `.npy` arrays, all with positional access.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use syncline::{ElementType, ReadAt, Shape};

use crate::format::{counted, grouped};
use crate::message::{Failure, Outcome};
use crate::names::{self, is_dash};
use crate::npy::{self, Differences, NpyHeader};
use crate::places::Place;
use crate::swap::reverse;

/// The largest part of stdin that is kept in memory. More goes to a temporary file.
const SPOOL: u64 = 64 << 20;
/// The same with a low memory limit: with less, copying would take long.
const SMALLEST_SPOOL: u64 = 1 << 16;

/// An input with positional access.
#[derive(Debug)]
pub enum Input {
    /// A file, or a temporary file with the contents of stdin or a pipe.
    File(File, PathBuf),
    /// A file whose elements from some byte on, of some length in bytes, are read with their bytes reversed.
    Swapped(File, PathBuf, u64, usize),
    /// Short contents of stdin or a pipe.
    Memory(Vec<u8>, PathBuf),
}

impl Input {
    /// Reads all of an input without positions, of which more than `longest` bytes are an error. At most a quarter of
    /// the memory limit stays in memory.
    pub fn spooled(source: impl Read, path: &Path, memory_limit: Option<u64>, longest: u64) -> Outcome<Self> {
        let most = memory_limit.map_or(SPOOL, |limit| (limit / 4).clamp(SMALLEST_SPOOL, SPOOL));
        let input = Self::spool(source.take(longest.saturating_add(1)), path, most)?;
        if input.len()? > longest {
            let longest = grouped(longest);
            return Err(Failure::data(format!("{input}: has more than the {longest} bytes that can be expected")));
        }
        Ok(input)
    }

    /// Reads all of an input without positions. More than `most` bytes go to a temporary file.
    fn spool(mut source: impl Read, path: &Path, most: u64) -> Outcome<Self> {
        let mut next = |piece: &mut Vec<u8>| {
            piece.clear();
            let read = source.by_ref().take(most).read_to_end(piece);
            read.map_err(|error| Failure::io(shown(path), &error))
        };
        let mut piece = Vec::new();
        if (next(&mut piece)? as u64) < most {
            return Ok(Self::Memory(piece, path.to_owned()));
        }
        // The file has no name, so that it disappears however the program ends.
        let mut file = tempfile::tempfile().map_err(|error| not_spooled(path, &error))?;
        while !piece.is_empty() {
            file.write_all(&piece).map_err(|error| not_spooled(path, &error))?;
            next(&mut piece)?;
        }
        Ok(Self::File(file, path.to_owned()))
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> Outcome<u64> {
        self.size().map_err(|error| Failure::io(self, &error))
    }

    /// Reverses the bytes of the elements from byte `offset` on.
    fn swapped(self, offset: u64, element: usize) -> Self {
        match self {
            Self::Memory(mut bytes, path) => {
                reverse(bytes.get_mut(offset as usize..).unwrap_or_default(), element);
                Self::Memory(bytes, path)
            }
            Self::File(file, path) | Self::Swapped(file, path, ..) => Self::Swapped(file, path, offset, element),
        }
    }

    /// Returns up to `length` bytes from the start.
    fn start(&self, most: usize) -> Outcome<Vec<u8>> {
        let length = self.len()?.min(most as u64);
        self.bytes(0, length as usize)
    }

    /// Returns whether the input starts like a `.npy` file.
    fn begins_as_npy(&self) -> Outcome<bool> {
        Ok(self.start(npy::MAGIC.len())? == npy::MAGIC)
    }

    /// Returns what shows whether a file is changed while it is read: its length and its time of modification.
    pub fn stamp(&self) -> Option<Stamp> {
        let (Self::File(file, _) | Self::Swapped(file, ..)) = self else { return None };
        let metadata = file.metadata().ok()?;
        Some(Stamp { length: metadata.len(), modified: metadata.modified().ok()? })
    }

    /// Fails if the file was changed since it had this stamp.
    pub fn check_unchanged(&self, before: Option<Stamp>) -> Outcome {
        match self.stamp() == before {
            true => Ok(()),
            false => Err(Failure::data(format!(
                "{self}: was changed while it was read: start again when the program that writes it has ended"
            ))),
        }
    }

    /// Reads the bytes at a position.
    pub fn bytes(&self, offset: u64, length: usize) -> Outcome<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read_exact_at(&mut bytes, offset).map_err(|error| Failure::io(self, &error))?;
        Ok(bytes)
    }
}

/// The state of a file at some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stamp {
    length: u64,
    modified: SystemTime,
}

/// A file, or what can only be read from start to end.
pub enum Opened {
    /// A file with positions.
    File(File),
    /// A pipe or a device.
    Pipe(Box<dyn Read>),
}

impl Opened {
    /// Opens a file, or stdin for `-`. Nothing is read.
    pub fn new(path: &Path) -> Outcome<Self> {
        if is_dash(path) {
            let file = redirected_file().map_err(|error| Failure::io("stdin", &error))?;
            return Ok(file.map_or_else(|| Self::Pipe(Box::new(io::stdin().lock())), Self::File));
        }
        if let Some(array) = Place::of(path).extract()? {
            return Ok(Self::File(array));
        }
        let file = File::open(path).map_err(|error| Failure::io(path.display(), &error))?;
        let metadata = file.metadata().map_err(|error| Failure::io(path.display(), &error))?;
        if metadata.is_dir() {
            return Err(Failure::data(format!("{}: is a directory, not a file", path.display())));
        }
        // Pipes and devices have no positions to read from.
        Ok(if metadata.is_file() { Self::File(file) } else { Self::Pipe(Box::new(file)) })
    }
}

/// Returns the file that stdin is redirected from, if nothing has been read from it. It needs no copy.
fn redirected_file() -> io::Result<Option<File>> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        let mut file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        if file.metadata()?.is_file() && io::Seek::stream_position(&mut file)? == 0 {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// Returns the name of an input for messages.
pub fn shown(path: &Path) -> impl fmt::Display {
    if is_dash(path) { Path::new("stdin").display() } else { path.display() }
}

fn not_spooled(path: &Path, error: &io::Error) -> Failure {
    Failure::data(format!(
        "{}: cannot be kept in the temporary folder {}: {error}: set TMPDIR to a folder with enough room",
        shown(path),
        std::env::temp_dir().display()
    ))
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::File(_, path) | Self::Memory(_, path) | Self::Swapped(_, path, ..)) = self;
        shown(path).fmt(f)
    }
}

impl ReadAt for Input {
    fn size(&self) -> io::Result<u64> {
        match self {
            Self::File(file, _) | Self::Swapped(file, ..) => file.size(),
            Self::Memory(bytes, _) => bytes.size(),
        }
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::File(file, _) => file.read_exact_at(buffer, offset),
            Self::Swapped(file, _, first, element) => {
                let size = *element as u64;
                let is_whole = |at: u64| at >= *first && (at - first).is_multiple_of(size);
                if !is_whole(offset) || !is_whole(offset + buffer.len() as u64) {
                    // Everything that reads elements reads whole ones.
                    return Err(io::Error::other("a part of a big-endian element was to be read"));
                }
                file.read_exact_at(buffer, offset)?;
                reverse(buffer, *element);
                Ok(())
            }
            Self::Memory(bytes, _) => bytes.read_exact_at(buffer, offset),
        }
    }

    fn in_memory(&self) -> Option<&[u8]> {
        match self {
            Self::File(..) | Self::Swapped(..) => None,
            Self::Memory(bytes, _) => Some(bytes),
        }
    }
}

/// An array to read: the position, type, and shape of its elements.
#[derive(Debug)]
pub struct ArrayInput {
    /// The input.
    pub input: Input,
    /// Element type.
    pub element_type: ElementType,
    /// Shape.
    pub shape: Shape,
    /// Position of the first element in bytes.
    pub offset: u64,
    /// What differs from the array in NumPy.
    pub differences: Differences,
}

impl ArrayInput {
    /// Finds the array in an input. Its type and shape come from the `.npy` header or from the caller. The type may
    /// also come from the name.
    pub fn of(input: Input, path: &Path, element_type: Option<ElementType>, shape: Option<Shape>) -> Outcome<Self> {
        let named = element_type.or_else(|| names::type_of(path));
        let header = if let Some(header) = npy_header(&input, path, named.zip(shape))? {
            check_agreement(path, &header, element_type, shape)?;
            header
        } else {
            let size = input.len()?;
            let element_type = named.ok_or_else(|| unknown_type(path, shape))?;
            let shape = match shape {
                Some(shape) => shape,
                // Any file is an array of bytes, and what comes through a pipe may have one axis alone.
                None if element_type == ElementType::U8 || is_dash(path) => {
                    let elements = size / element_type.size() as u64;
                    Shape::new(&[elements]).map_err(|error| Failure::of(input.to_string(), error))?
                }
                None => return Err(missing_shape(&input, path, element_type, size)),
            };
            NpyHeader { element_type, shape, offset: 0, differences: Differences::default() }
        };
        let NpyHeader { element_type, shape, offset, differences } = header;
        check_size(&input, path, &header)?;
        Ok(Self { input, element_type, shape, offset, differences }.in_order())
    }

    /// Opens the original of a stream, whose type and shape are known.
    pub fn open_original(
        path: &Path,
        element_type: ElementType,
        shape: Shape,
        memory_limit: Option<u64>,
    ) -> Outcome<Self> {
        let longest = shape.len() * element_type.size() as u64 + npy::LONGEST_HEADER as u64;
        let input = match Opened::new(path)? {
            Opened::File(file) => Input::File(file, path.to_owned()),
            Opened::Pipe(pipe) => Input::spooled(pipe, path, memory_limit, longest)?,
        };
        let (offset, differences) = if let Some(header) = npy_header(&input, path, Some((element_type, shape)))? {
            if (header.element_type, header.shape) != (element_type, shape) {
                return Err(Failure::data(format!(
                    "{input}: holds {} {}, the stream {element_type} {shape}: name the array the stream was made from",
                    header.element_type, header.shape
                )));
            }
            (header.offset, header.differences)
        } else {
            (0, Differences::default())
        };
        let original = Self { input, element_type, shape, offset, differences };
        let there = original.input.len()?.saturating_sub(offset);
        if there != original.size() {
            return Err(Failure::data(format!(
                "{}: has {} of elements, the stream's {element_type} {shape} takes {}: name the array the stream was \
                 made from",
                original.input,
                counted(there, "byte"),
                grouped(original.size())
            )));
        }
        Ok(original.in_order())
    }

    /// Reads big-endian elements as little-endian ones.
    fn in_order(self) -> Self {
        match self.differences.big_endian {
            true => Self { input: self.input.swapped(self.offset, self.element_type.size()), ..self },
            false => self,
        }
    }

    /// Returns whether the array's bytes include the header of a `.npy` file.
    pub fn includes_header(&self) -> Outcome<bool> {
        Ok(self.offset == 0 && self.input.begins_as_npy()?)
    }

    /// Returns the number of bytes of the elements.
    pub fn size(&self) -> u64 {
        self.shape.len() * self.element_type.size() as u64
    }
}

/// Returns the header of an input that is named like a `.npy` file or starts like one, unless its length is that of raw
/// elements of the type and shape in `wanted`.
fn npy_header(input: &Input, path: &Path, wanted: Option<(ElementType, Shape)>) -> Outcome<Option<NpyHeader>> {
    if !names::is_npy(path) && !input.begins_as_npy()? {
        return Ok(None);
    }
    let length = u128::from(input.len()?);
    match wanted {
        Some((element_type, shape)) if u128::from(shape.len()) * element_type.size() as u128 == length => Ok(None),
        _ => read_npy(input).map(Some),
    }
}

fn read_npy(input: &Input) -> Outcome<NpyHeader> {
    let damaged = |text: String| Failure::data(format!("{input}: {text}"));
    let length = npy::header_length(&input.start(npy::PREFIX)?).map_err(damaged)?;
    let header = input.start(length)?;
    if header.len() < length {
        return Err(damaged(npy::TRUNCATED.into()));
    }
    npy::parse_header(&header).map_err(damaged)
}

/// Checks that a header says what the command line does.
pub fn check_agreement(
    path: &Path,
    header: &NpyHeader,
    element_type: Option<ElementType>,
    shape: Option<Shape>,
) -> Outcome {
    if element_type.is_some_and(|given| given != header.element_type)
        || shape.is_some_and(|given| given != header.shape)
    {
        return Err(Failure::usage(format!(
            "{}: is a .npy file of {} {}, not what --dtype and --shape say: leave them out",
            shown(path),
            header.element_type,
            header.shape
        )));
    }
    Ok(())
}

/// The failure for an array of an unknown type.
pub fn unknown_type(path: &Path, shape: Option<Shape>) -> Failure {
    let why = if is_dash(path) { "the element type is missing" } else { "the name does not contain the element type" };
    let missing = if shape.is_some() {
        "--dtype, such as --dtype f32"
    } else {
        "--dtype and --shape, such as --dtype f32 --shape 100x500x500"
    };
    Failure::usage(format!("{}: {why}: add {missing}", shown(path)))
}

fn missing_shape(input: &Input, path: &Path, element_type: ElementType, size: u64) -> Failure {
    let elements = size / element_type.size() as u64;
    match names::suggested_shape(path, elements) {
        Some(shape) => Failure::usage(format!(
            "{input}: the shape is missing: add --shape, slowest axis first (the name suggests --shape {shape})"
        )),
        None => Failure::usage(format!(
            "{input}: the shape is missing: add --shape, slowest axis first, such as --shape 100x500x500 (the file \
             has {} of {element_type})",
            counted(elements, "element")
        )),
    }
}

fn check_size(input: &Input, path: &Path, header: &NpyHeader) -> Outcome {
    let NpyHeader { element_type, shape, offset, .. } = *header;
    let there = input.len()?.saturating_sub(offset);
    let expected = u128::from(shape.len()) * element_type.size() as u128;
    if expected == u128::from(there) {
        return Ok(());
    }
    let sizes = format!(
        "{input}: {shape} of {element_type} takes {}, but the file has {}",
        counted(expected, "byte"),
        grouped(there)
    );
    if offset > 0 {
        let why = match u128::from(there) < expected {
            true => "the file is truncated: copy or save it again",
            false => "save one array alone",
        };
        return Err(Failure::data(format!("{sizes} after its header: {why}")));
    }
    let hint = match names::suggested_shape(path, there / element_type.size() as u64) {
        Some(suggested) => format!("the name suggests --shape {suggested}"),
        None => "correct --shape or --dtype".into(),
    };
    Err(Failure::usage(format!("{sizes}: {hint}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_stdin_is_spooled_to_a_file() {
        const MOST: usize = 1 << 16;
        let pattern = |i: usize| (i % 251) as u8;
        let length = 3 * MOST + 1000;
        let bytes: Vec<u8> = (0..length).map(pattern).collect();
        let spool = |bytes: &[u8], name: &str| Input::spool(bytes, Path::new(name), MOST as u64).unwrap();
        let input = spool(&bytes, "-");
        assert!(matches!(input, Input::File(..)));
        assert_eq!(input.len().unwrap(), length as u64);
        assert_eq!(input.bytes(MOST as u64 - 5, 10).unwrap(), bytes[MOST - 5..MOST + 5]);
        assert_eq!(input.bytes(0, length).unwrap(), bytes);
        assert!(input.bytes(length as u64 - 5, 6).is_err());
        assert!(matches!(spool(&bytes[..2 * MOST], "-"), Input::File(..)));
        let small = spool(&bytes[..10], "pipe");
        assert!(matches!(&small, Input::Memory(m, _) if m.len() == 10));
        assert_eq!((small.to_string(), input.to_string()), ("pipe".into(), "stdin".into()));
    }
}
