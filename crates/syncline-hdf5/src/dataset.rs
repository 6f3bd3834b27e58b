//! Datasets of an HDF5 file.

#![allow(unsafe_code, reason = "functions of a library that is found at run time")]

use std::ffi::c_int;
use std::ops::Range;

use syncline::{ElementType, MAX_RANK, Shape};

use crate::element::{BIG_ENDIAN, COMPOUND, FLOAT, Traits, value_of};
use crate::error::{Error, Result};
use crate::functions::Id;
use crate::library::{Library, c_name};
use crate::object::{DEFAULT, Handle};
use crate::set_local::USER_DEFINED;
use crate::value::Value;

/// Kinds of dataspaces: `H5S_class_t`.
const SCALAR: c_int = 0;
const NULL: c_int = 2;

/// `H5D_CHUNKED`.
pub const CHUNKED: c_int = 2;

/// Bytes of decompressed chunks that HDF5 keeps for a dataset, so that parts of a chunk are not decompressed again.
const CACHE: usize = 64 << 20;

/// Attributes in which conventions for netCDF declare values that stand for missing data.
const FILL_ATTRIBUTES: [&str; 2] = ["_FillValue", "missing_value"];

/// A dataset whose elements Syncline has, or of complex numbers, which are pairs of elements along one more axis.
pub struct Dataset<'l> {
    pub(crate) handle: Handle<'l>,
    path: String,
    /// The type in the file, and the same in little-endian order.
    pub(crate) stored: Handle<'l>,
    read_as: Handle<'l>,
    element: ElementType,
    is_complex: bool,
    pub(crate) space: Handle<'l>,
    extents: Vec<u64>,
}

/// Returns what tells the element type of a type.
pub fn traits(library: &Library, id: Id) -> Traits {
    // SAFETY: an open identifier of a type.
    unsafe { library.f.types().traits(id) }
}

/// Returns the extents of a dataspace; `None` if it holds no elements at all.
pub fn extents(library: &Library, space: Id) -> Result<Option<Vec<u64>>> {
    let mut extents = [0u64; MAX_RANK];
    // SAFETY: an open identifier, and room for 32 extents, the most that HDF5 has.
    let (kind, rank) = unsafe {
        let kind = (library.f.space_kind)(space);
        let rank = match kind {
            SCALAR => 0,
            _ => (library.f.space_extents)(space, extents.as_mut_ptr(), std::ptr::null_mut()),
        };
        (kind, rank)
    };
    let rank = library.check(rank, "a shape cannot be read")? as usize;
    Ok((kind != NULL).then(|| extents[..rank].to_vec()))
}

impl<'l> Dataset<'l> {
    /// Opens the dataset at a path that exists.
    pub(crate) fn open(library: &'l Library, parent: Id, path: &str) -> Result<Self> {
        let access = library.properties("DATASET_ACCESS")?;
        let name = c_name(path)?;
        // SAFETY: open identifiers and a name that ends with a zero byte. A prime number of slots is recommended, about
        // 100 for each chunk; chunks that were read completely are dropped first.
        let handle = unsafe {
            (library.f.set_chunk_cache)(access.id, 12_421, CACHE, 1.0);
            let id = (library.f.dataset_open)(parent, name.as_ptr(), access.id);
            Handle::new(library, id, library.f.object_close, format_args!("{path}: cannot be opened"))?
        };
        Self::of(library, handle, path)
    }

    pub(crate) fn of(library: &'l Library, handle: Handle<'l>, path: &str) -> Result<Self> {
        // SAFETY: an open identifier; the results are closed by their owners only. A type that is committed to a
        // file is copied.
        let (stored, space) = unsafe {
            let stored = library.own_type((library.f.dataset_type)(handle.id))?;
            let stored = library.own_type((library.f.type_copy)(stored.id))?;
            (stored, library.own_space((library.f.dataset_space)(handle.id))?)
        };
        let part = part_of_complex(library, stored.id)?;
        let is_complex = part.is_some();
        // SAFETY: open identifiers; the results are closed by their owners only.
        let read_as = unsafe { library.own_type((library.f.type_copy)(part.as_ref().unwrap_or(&stored).id))? };
        let traits = traits(library, read_as.id);
        let element = traits.element().ok_or_else(|| {
            Error::Unsupported(format!(
                "{path}: holds {} of {} bytes, and Syncline compresses integers and floating-point numbers of 1 to 8 \
                 bytes: name another dataset",
                traits.name(),
                traits.size
            ))
        })?;
        let is_swapped = traits.order == BIG_ENDIAN && element.size() > 1;
        if is_swapped {
            // SAFETY: an open identifier of a type that is a copy; 0 is little-endian.
            let status = unsafe { (library.f.type_set_order)(read_as.id, 0) };
            library.check(status, format_args!("{path}: its byte order cannot be changed"))?;
        }
        let mut extents = extents(library, space.id)?.ok_or_else(|| {
            Error::Unsupported(format!("{path}: is a dataset without elements and shape: name another dataset"))
        })?;
        let read_as = if is_complex { complex_of(library, &read_as, element.size())? } else { read_as };
        extents.extend(is_complex.then_some(2));
        Ok(Self { handle, path: path.to_owned(), stored, read_as, element, is_complex, space, extents })
    }

    /// Creates a dataset of little-endian elements, and the groups in which it is.
    pub(crate) fn create(
        library: &'l Library,
        parent: Id,
        path: &str,
        element: ElementType,
        shape: &Shape,
        fill: Option<f64>,
    ) -> Result<Self> {
        let f = &library.f;
        let stored = little_endian(library, element)?;
        let (links, creation) = (library.properties("LINK_CREATE")?, library.properties("DATASET_CREATE")?);
        let extents = shape.extents();
        let name = c_name(path)?;
        let fill = fill.and_then(|fill| element.bits_of_number(fill));
        let fill = fill.map(|bits| bits.to_le_bytes()[..element.size()].to_vec());
        // SAFETY: open identifiers, as many extents as the rank says, a fill value of the element type, and a name that
        // ends with a zero byte. 1 stands for UTF-8.
        let handle = unsafe {
            let space = match extents.len() {
                0 => (f.space_of_kind)(SCALAR),
                rank => (f.space_simple)(rank as c_int, extents.as_ptr(), std::ptr::null()),
            };
            let space = library.own_space(space)?;
            (f.set_name_encoding)(links.id, 1);
            (f.set_create_groups)(links.id, 1);
            if let Some(fill) = &fill {
                (f.set_fill_value)(creation.id, stored.id, fill.as_ptr().cast());
            }
            let id = (f.dataset_create)(parent, name.as_ptr(), stored.id, space.id, links.id, creation.id, DEFAULT);
            Handle::new(library, id, f.object_close, format_args!("{path}: the dataset cannot be created"))?
        };
        Self::of(library, handle, path)
    }

    /// Returns the element type, of complex numbers that of their parts.
    pub fn element_type(&self) -> ElementType {
        self.element
    }

    /// Returns the extents, slowest axis first. The last one of complex numbers is 2.
    pub fn extents(&self) -> &[u64] {
        &self.extents
    }

    /// Returns the extents of a chunk, if the dataset is stored in chunks.
    ///
    /// # Errors
    /// [`Error::Failed`] if the file is damaged.
    pub fn chunk(&self) -> Result<Option<Vec<u64>>> {
        let library = self.handle.library;
        let creation = self.creation()?;
        let mut chunk = [0u64; MAX_RANK];
        // SAFETY: an open identifier, and room for as many extents as the second argument says.
        let rank = unsafe {
            match (library.f.layout)(creation.id) {
                CHUNKED => (library.f.chunk)(creation.id, MAX_RANK as c_int, chunk.as_mut_ptr()),
                _ => return Ok(None),
            }
        };
        let rank = library.check(rank, format_args!("{}: its chunks cannot be read", self.path))? as usize;
        Ok(Some(chunk[..rank].to_vec()))
    }

    /// Returns the properties with which the dataset was created.
    pub(crate) fn creation(&self) -> Result<Handle<'l>> {
        let library = self.handle.library;
        // SAFETY: an open identifier; the result is closed by its owner only.
        unsafe { library.own_properties((library.f.dataset_creation)(self.handle.id)) }
    }

    /// Returns the values that the dataset declares as missing data: those of the attributes `_FillValue` and
    /// `missing_value`, of which each may have several, and the fill value of HDF5.
    ///
    /// # Errors
    /// [`Error::Failed`] if the file is damaged.
    pub fn fills(&self) -> Result<Vec<f64>> {
        let mut fills = Vec::new();
        for name in FILL_ATTRIBUTES {
            if let Some(Value::Numbers(numbers)) = Value::read(self.handle.library, self.handle.id, name)? {
                // Compared with elements, they are of their type.
                let as_element = |&number: &f64| self.element.bits_of_number(number);
                fills.extend(numbers.iter().filter_map(as_element).map(|bits| self.element.number_of_bits(bits)));
            }
        }
        fills.extend(self.declared_fill(self.creation()?.id));
        let mut different: Vec<f64> = Vec::new();
        for fill in fills {
            // NaN is always kept.
            if !fill.is_nan() && !different.contains(&fill) {
                different.push(fill);
            }
        }
        Ok(different)
    }

    /// Returns the fill value of creation properties, if the file declares one.
    fn declared_fill(&self, creation: Id) -> Option<f64> {
        let f = &self.handle.library.f;
        let (mut state, mut bytes) = (0, [0u8; 8]);
        // SAFETY: open identifiers, and room for an element of at most 8 bytes.
        let is_known = !self.is_complex
            && unsafe {
                (f.fill_value_defined)(creation, &raw mut state) >= 0
                    && state == USER_DEFINED
                    && (f.fill_value)(creation, self.read_as.id, bytes.as_mut_ptr().cast()) >= 0
            };
        is_known.then(|| value_of(self.element, &bytes[..self.element.size()], false)).flatten()
    }

    /// Reads a region as little-endian elements in C order.
    ///
    /// # Errors
    /// [`Error::Failed`] if the file is damaged, or compressed by a filter that the HDF5 library does not find.
    ///
    /// # Panics
    /// The region is outside of the dataset or has a part of a complex number, or the buffer has not its length.
    pub fn read(&self, region: &[Range<u64>], buffer: &mut [u8]) -> Result {
        let count: Vec<u64> = region.iter().map(|range| range.end - range.start).collect();
        self.read_padded(region, &count, self.read_as.id, buffer)
    }

    /// Reads a region as it is stored, but without filters, into the corner of a buffer of the shape `within`.
    pub(crate) fn read_chunk(&self, region: &[Range<u64>], within: &[u64], buffer: &mut [u8]) -> Result {
        self.read_padded(region, within, self.stored.id, buffer)
    }

    fn read_padded(&self, region: &[Range<u64>], within: &[u64], element: Id, buffer: &mut [u8]) -> Result {
        let library = self.handle.library;
        assert_eq!((region.len(), within.len()), (self.extents.len(), self.extents.len()), "a region of this dataset");
        let bytes = within.iter().product::<u64>() as usize * self.element.size();
        assert_eq!(buffer.len(), bytes, "a buffer for the region");
        let (memory, file) = self.selections(region, within)?;
        let (memory, file) = (memory.as_ref().map_or(0, |space| space.id), file.as_ref().map_or(0, |space| space.id));
        // SAFETY: open identifiers. The selection in memory is inside of the shape `within`, whose elements fit into
        // the buffer; without a selection, there is one element.
        let status = unsafe {
            (library.f.dataset_read)(self.handle.id, element, memory, file, DEFAULT, buffer.as_mut_ptr().cast())
        };
        library.check(status, format_args!("{}: cannot be read", self.path)).map(drop)
    }

    /// Writes a region of little-endian elements in C order.
    ///
    /// # Errors
    /// [`Error::Failed`], for instance on a full disk.
    ///
    /// # Panics
    /// The region is outside of the dataset or has a part of a complex number, or the bytes have not its length.
    pub fn write(&self, region: &[Range<u64>], bytes: &[u8]) -> Result {
        let library = self.handle.library;
        let count: Vec<u64> = region.iter().map(|range| range.end - range.start).collect();
        assert_eq!(bytes.len(), count.iter().product::<u64>() as usize * self.element.size(), "bytes of the region");
        let (memory, file) = self.selections(region, &count)?;
        let (memory, file) = (memory.as_ref().map_or(0, |space| space.id), file.as_ref().map_or(0, |space| space.id));
        // SAFETY: open identifiers. The shape in memory has as many elements as the bytes.
        let status = unsafe {
            (library.f.dataset_write)(self.handle.id, self.read_as.id, memory, file, DEFAULT, bytes.as_ptr().cast())
        };
        library.check(status, format_args!("{}: cannot be written", self.path)).map(drop)
    }

    /// Returns the dataspaces that select a region in the corner of a shape in memory, and in the file; nothing, which
    /// stands for all, without axes.
    fn selections(&self, region: &[Range<u64>], within: &[u64]) -> Result<(Option<Handle<'l>>, Option<Handle<'l>>)> {
        let (mut region, mut within) = (region, within);
        if self.is_complex {
            assert_eq!(region.split_off_last(), Some(&(0..2)), "both parts of complex numbers");
            within.split_off_last();
        }
        if region.is_empty() {
            return Ok((None, None));
        }
        let library = self.handle.library;
        let start: Vec<u64> = region.iter().map(|range| range.start).collect();
        let count: Vec<u64> = region.iter().map(|range| range.end - range.start).collect();
        let zeros = vec![0; region.len()];
        let null = std::ptr::null();
        // SAFETY: open identifiers, and as many numbers as the dataset has axes; 0 replaces the selection.
        unsafe {
            let f = &library.f;
            let memory = library.own_space((f.space_simple)(within.len() as c_int, within.as_ptr(), null))?;
            let file = library.own_space((f.dataset_space)(self.handle.id))?;
            let what = format_args!("{}: a region cannot be selected", self.path);
            library.check((f.space_select)(memory.id, 0, zeros.as_ptr(), null, count.as_ptr(), null), what)?;
            library.check((f.space_select)(file.id, 0, start.as_ptr(), null, count.as_ptr(), null), what)?;
            Ok((Some(memory), Some(file)))
        }
    }
}

/// Returns the type of complex numbers, as h5py writes them: a compound of two parts of this type and size, r and i.
fn complex_of<'l>(library: &'l Library, part: &Handle<'l>, size: usize) -> Result<Handle<'l>> {
    let f = &library.f;
    // SAFETY: an open identifier, and names that end with a zero byte; the result is closed by its owner only.
    unsafe {
        let complex = library.own_type((f.type_create)(COMPOUND, 2 * size))?;
        for (name, at) in [(c"r", 0), (c"i", size)] {
            let status = (f.type_insert)(complex.id, name.as_ptr(), at, part.id);
            library.check(status, "the type of complex numbers cannot be made")?;
        }
        Ok(complex)
    }
}

/// Returns the type of the parts of complex numbers; `None` if a type is none of them.
fn part_of_complex(library: &Library, stored: Id) -> Result<Option<Handle<'_>>> {
    let f = &library.f;
    // SAFETY: an open identifier of a type; the result is closed by its owner only.
    let part = unsafe {
        if (f.type_class)(stored) != COMPOUND || (f.type_member_count)(stored) != 2 {
            return Ok(None);
        }
        library.own_type((f.type_member)(stored, 0))?
    };
    let traits = traits(library, part.id);
    if traits.class != FLOAT {
        return Ok(None);
    }
    let complex = complex_of(library, &part, traits.size)?;
    // SAFETY: open identifiers of types.
    Ok((unsafe { (f.type_equal)(stored, complex.id) } > 0).then_some(part))
}

/// Returns the little-endian type of the elements.
fn little_endian(library: &Library, element: ElementType) -> Result<Handle<'_>> {
    let name = match element {
        // F16 and BF16 are made from it.
        ElementType::F32 | ElementType::F16 | ElementType::Bf16 => "H5T_IEEE_F32LE_g",
        ElementType::F64 => "H5T_IEEE_F64LE_g",
        ElementType::U8 => "H5T_STD_U8LE_g",
        ElementType::U16 => "H5T_STD_U16LE_g",
        ElementType::U32 => "H5T_STD_U32LE_g",
        ElementType::U64 => "H5T_STD_U64LE_g",
        ElementType::I8 => "H5T_STD_I8LE_g",
        ElementType::I16 => "H5T_STD_I16LE_g",
        ElementType::I32 => "H5T_STD_I32LE_g",
        ElementType::I64 => "H5T_STD_I64LE_g",
    };
    let f = &library.f;
    let constant = library.constant(name)?;
    // SAFETY: an identifier of a type; the copy is closed by its owner only. Positions and widths of sign, exponent,
    // and mantissa are those of binary16 and bfloat16.
    unsafe {
        let copy = library.own_type((f.type_copy)(constant))?;
        let fields = match element {
            ElementType::F16 => Some((5, 10, 15)),
            ElementType::Bf16 => Some((8, 7, 127)),
            _ => None,
        };
        if let Some((exponent, mantissa, bias)) = fields {
            let is_made = (f.type_set_fields)(copy.id, 15, mantissa, exponent, 0, mantissa) >= 0
                && (f.type_set_size)(copy.id, 2) >= 0
                && (f.type_set_bias)(copy.id, bias) >= 0;
            if !is_made {
                return Err(library.failed(format_args!("the type for {element} cannot be made")));
            }
        }
        Ok(copy)
    }
}
