//! Copies of attributes, and of elements that HDF5 does not copy as they are.

#![allow(unsafe_code, reason = "functions of a library that is found at run time")]

use std::ffi::c_int;

use crate::contents::Attributes;
use crate::dataset::extents;
use crate::error::Result;
use crate::functions::Id;
use crate::library::c_name;
use crate::object::{DEFAULT, Handle};
use crate::recompress::pieces;
use crate::references::{Contains, References, contained};

/// Elements with references or of variable length that are copied at a time.
const PIECE: u64 = 1 << 16;

impl References<'_, '_> {
    /// Copies all attributes of an object to its copy, except for those that new ones replace. Returns how many of them
    /// had references that cannot be replaced, which are null in the copy.
    pub fn copy_attributes(&self, from: Id, to: Id, path: &str, new: &Attributes) -> Result<u64> {
        let mut lost = 0;
        for name in self.library.attribute_names(from, path)? {
            if !new.contains_key(&name) {
                lost += u64::from(!self.copy_attribute(from, to, path, &name)?);
            }
        }
        for (name, value) in new {
            value.write(self.library, to, path, name)?;
        }
        Ok(lost)
    }

    /// Copies an attribute. Returns whether the copy has its value.
    fn copy_attribute(&self, from: Id, to: Id, path: &str, name: &str) -> Result<bool> {
        let library = self.library;
        let f = &library.f;
        let c = c_name(name)?;
        let what = |doing: &str| format!("{path}: the attribute {name} cannot be {doing}");
        // SAFETY: open identifiers and a name that ends with a zero byte; the results are closed by their owners only.
        let (source, kind, space, copy) = unsafe {
            let id = (f.attribute_open)(from, c.as_ptr(), DEFAULT);
            let source = Handle::new(library, id, f.attribute_close, what("opened"))?;
            let kind = library.own_type((f.attribute_type)(source.id))?;
            // A type that is committed to the file is copied.
            let kind = library.own_type((f.type_copy)(kind.id))?;
            let space = library.own_space((f.attribute_space)(source.id))?;
            let creation = library.own_properties((f.attribute_creation)(source.id))?;
            let id = (f.attribute_create)(to, c.as_ptr(), kind.id, space.id, creation.id, DEFAULT);
            let copy = Handle::new(library, id, f.attribute_close, what("created"))?;
            (source, kind, space, copy)
        };
        let contains = contained(library, kind.id)?;
        // SAFETY: an open identifier.
        let count = usize::try_from(unsafe { (f.space_points)(space.id) }).unwrap_or(0);
        if count == 0 {
            return Ok(true);
        }
        if contains == Contains::Others {
            return Ok(false);
        }
        // SAFETY: an open identifier.
        let mut bytes = vec![0u8; count * unsafe { (f.type_size)(kind.id) }];
        // SAFETY: open identifiers, and room for the elements, whose type in memory is the one that HDF5 returned. What
        // it allocates for them is freed when they have been written.
        unsafe {
            let status = (f.attribute_read)(source.id, kind.id, bytes.as_mut_ptr().cast());
            library.check(status, what("read"))?;
            let written = self.replace(kind.id, bytes.as_mut_ptr(), count).and_then(|()| {
                let status = (f.attribute_write)(copy.id, kind.id, bytes.as_ptr().cast());
                library.check(status, what("written")).map(drop)
            });
            (f.free_variable)(kind.id, space.id, DEFAULT, bytes.as_mut_ptr().cast());
            written?;
        }
        Ok(true)
    }

    /// Copies the elements of a dataset one piece after the other, with references to the copies of objects.
    pub fn copy_values(&self, from: Id, to: Id, path: &str) -> Result {
        let library = self.library;
        let f = &library.f;
        // SAFETY: open identifiers; the results are closed by their owners only.
        let (kind, space) = unsafe {
            let kind = library.own_type((f.dataset_type)(from))?;
            (library.own_type((f.type_copy)(kind.id))?, library.own_space((f.dataset_space)(from))?)
        };
        let Some(extents) = extents(library, space.id)? else { return Ok(()) };
        if extents.is_empty() {
            return self.copy_piece([from, to], &kind, [&space, &space], 1, path);
        }
        for region in pieces(&extents, PIECE) {
            let start: Vec<u64> = region.iter().map(|range| range.start).collect();
            let count: Vec<u64> = region.iter().map(|range| range.end - range.start).collect();
            let (rank, null) = (count.len() as c_int, std::ptr::null());
            // SAFETY: open identifiers, and as many numbers as there are axes; 0 replaces the selection.
            let memory = unsafe {
                let status = (f.space_select)(space.id, 0, start.as_ptr(), null, count.as_ptr(), null);
                library.check(status, format_args!("{path}: a region cannot be selected"))?;
                library.own_space((f.space_simple)(rank, count.as_ptr(), null))?
            };
            self.copy_piece([from, to], &kind, [&memory, &space], count.iter().product(), path)?;
        }
        Ok(())
    }

    /// Copies the elements that are selected in the file.
    fn copy_piece(
        &self,
        [from, to]: [Id; 2],
        kind: &Handle<'_>,
        [memory, file]: [&Handle<'_>; 2],
        count: u64,
        path: &str,
    ) -> Result {
        let library = self.library;
        let f = &library.f;
        // SAFETY: an open identifier.
        let mut bytes = vec![0u8; count as usize * unsafe { (f.type_size)(kind.id) }];
        // SAFETY: as in `copy_attribute`.
        unsafe {
            let data = bytes.as_mut_ptr().cast();
            let status = (f.dataset_read)(from, kind.id, memory.id, file.id, DEFAULT, data);
            library.check(status, format_args!("{path}: cannot be read"))?;
            let written = self.replace(kind.id, bytes.as_mut_ptr(), count as usize).and_then(|()| {
                let data = bytes.as_ptr().cast();
                let status = (f.dataset_write)(to, kind.id, memory.id, file.id, DEFAULT, data);
                library.check(status, format_args!("{path}: cannot be written")).map(drop)
            });
            (f.free_variable)(kind.id, memory.id, DEFAULT, bytes.as_mut_ptr().cast());
            written
        }
    }
}
