//! References to objects and to regions of datasets, which contain addresses: those of the copies replace those of the
//! originals.

#![allow(unsafe_code, reason = "functions of a library that is found at run time, and data that it allocates")]

use std::collections::HashMap;
use std::ffi::{c_int, c_void};

use crate::dataset;
use crate::element::{ARRAY, COMPOUND, REFERENCE, STRING, VARIABLE};
use crate::error::Result;
use crate::functions::Id;
use crate::library::{Library, c_name};
use crate::links::Address;

/// `H5R_OBJECT1` and `H5R_DATASET_REGION1`.
const TO_OBJECT: c_int = 0;
const TO_REGION: c_int = 1;

/// `hdset_reg_ref_t`.
type RegionReference = [u8; 12];

/// A list of variable length in memory: `hvl_t`.
#[repr(C)]
struct List {
    length: usize,
    elements: *mut c_void,
}

/// Replaces references.
pub struct References<'a, 'l> {
    pub library: &'l Library,
    /// The paths of objects by their addresses in the file that is copied. They are the same in the copy.
    pub paths: &'a HashMap<Address, String>,
    /// The file that is copied, and the copy.
    pub from: Id,
    pub to: Id,
}

/// What a type contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contains {
    /// No references.
    Nothing,
    /// References that can be replaced: to objects, and to regions of datasets.
    Replaceable,
    /// References of the kind that HDF5 1.12 added, which cannot.
    Others,
}

/// Returns whether elements have parts of variable length, which are stored apart.
pub fn is_variable(library: &Library, id: Id) -> Result<bool> {
    let f = &library.f;
    // SAFETY: an open identifier; the results are closed by their owners only.
    unsafe {
        Ok(match (f.type_class)(id) {
            VARIABLE => true,
            STRING => (f.type_is_variable_string)(id) > 0,
            ARRAY => is_variable(library, library.own_type((f.type_super)(id))?.id)?,
            COMPOUND => {
                for member in 0..(f.type_member_count)(id).max(0).cast_unsigned() {
                    if is_variable(library, library.own_type((f.type_member)(id, member))?.id)? {
                        return Ok(true);
                    }
                }
                false
            }
            _ => false,
        })
    }
}

/// Returns what references a type contains.
pub fn contained(library: &Library, id: Id) -> Result<Contains> {
    let f = &library.f;
    // SAFETY: an open identifier.
    if unsafe { (f.type_has_class)(id, REFERENCE) } <= 0 {
        return Ok(Contains::Nothing);
    }
    // SAFETY: as above; the results are closed by their owners only.
    unsafe {
        match (f.type_class)(id) {
            REFERENCE => {
                let known = is_reference(library, id, TO_OBJECT)? || is_reference(library, id, TO_REGION)?;
                Ok(if known { Contains::Replaceable } else { Contains::Others })
            }
            VARIABLE | ARRAY => contained(library, library.own_type((f.type_super)(id))?.id),
            COMPOUND => {
                let mut found = Contains::Nothing;
                for member in 0..(f.type_member_count)(id).max(0).cast_unsigned() {
                    match contained(library, library.own_type((f.type_member)(id, member))?.id)? {
                        Contains::Others => return Ok(Contains::Others),
                        Contains::Replaceable => found = Contains::Replaceable,
                        Contains::Nothing => {}
                    }
                }
                Ok(found)
            }
            _ => Ok(Contains::Others),
        }
    }
}

/// Returns whether a type is that of references of a kind.
fn is_reference(library: &Library, id: Id, kind: c_int) -> Result<bool> {
    let name = if kind == TO_REGION { "H5T_STD_REF_DSETREG_g" } else { "H5T_STD_REF_OBJ_g" };
    let expected = library.constant(name)?;
    // SAFETY: identifiers of types.
    Ok(unsafe { (library.f.type_equal)(id, expected) } > 0)
}

impl References<'_, '_> {
    /// Replaces the references in `count` elements. Those to objects without a path become null.
    ///
    /// # Safety
    /// `id` is a type in memory that contains references only if they can be replaced, and `data` are that many valid
    /// elements.
    pub unsafe fn replace(&self, id: Id, data: *mut u8, count: usize) -> Result {
        let f = &self.library.f;
        if contained(self.library, id)? == Contains::Nothing {
            return Ok(());
        }
        let traits = dataset::traits(self.library, id);
        let element = |i: usize| data.wrapping_add(i * traits.size);
        match traits.class {
            REFERENCE => {
                let is_region = is_reference(self.library, id, TO_REGION)?;
                for i in 0..count {
                    // SAFETY: that of this function; a reference to an object is an address.
                    unsafe {
                        match is_region {
                            true => self.replace_region(element(i).cast()),
                            false => self.replace_one(element(i).cast()),
                        }?;
                    }
                }
            }
            VARIABLE => {
                // SAFETY: an open identifier of a type; the result is closed by its owner only.
                let of = unsafe { self.library.own_type((f.type_super)(id)) }?;
                for i in 0..count {
                    // SAFETY: that of this function; the library has allocated the elements of the list.
                    unsafe {
                        let list = element(i).cast::<List>().read_unaligned();
                        self.replace(of.id, list.elements.cast(), list.length)?;
                    }
                }
            }
            ARRAY => {
                // SAFETY: as above; an array is as many elements as fit into its size.
                unsafe {
                    let of = self.library.own_type((f.type_super)(id))?;
                    let each = (f.type_size)(of.id).max(1);
                    self.replace(of.id, data, count * (traits.size / each))?;
                }
            }
            COMPOUND => {
                // SAFETY: as above; a member is at its offset in each element.
                unsafe {
                    for member in 0..(f.type_member_count)(id).max(0).cast_unsigned() {
                        let of = self.library.own_type((f.type_member)(id, member))?;
                        let offset = (f.type_member_offset)(id, member);
                        for i in 0..count {
                            self.replace(of.id, element(i).wrapping_add(offset), 1)?;
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Replaces a reference.
    ///
    /// # Safety
    /// `reference` is a valid reference to an object, or null.
    unsafe fn replace_one(&self, reference: *mut Address) -> Result {
        // SAFETY: that of this function.
        let address = unsafe { reference.read_unaligned() };
        // SAFETY: as above. Null stays null.
        unsafe { reference.write_unaligned(0) };
        if address == 0 {
            return Ok(());
        }
        let path = match self.paths.get(&address) {
            Some(path) => c_name(path)?,
            // The root group has no link, and another object may have been unlinked.
            // SAFETY: that of this function; the reference is not null.
            None => match unsafe { self.name(TO_OBJECT, (&raw const address).cast()) } {
                Some(name) => name,
                None => return Ok(()),
            },
        };
        let mut replaced: Address = 0;
        // SAFETY: open identifiers, room for an address, and a name that ends with a zero byte. Without a region, the
        // dataspace is -1.
        let status =
            unsafe { (self.library.f.reference)((&raw mut replaced).cast(), self.to, path.as_ptr(), TO_OBJECT, -1) };
        if status >= 0 {
            // SAFETY: that of this function.
            unsafe { reference.write_unaligned(replaced) };
        }
        Ok(())
    }

    /// Replaces a reference to a region. The region is selected in the same way in the copy of the dataset.
    ///
    /// # Safety
    /// `reference` is a valid reference to a region of a dataset, or null.
    unsafe fn replace_region(&self, reference: *mut RegionReference) -> Result {
        const NULL: RegionReference = [0; 12];
        // SAFETY: that of this function.
        let original = unsafe { reference.read_unaligned() };
        // SAFETY: as above. Null stays null.
        unsafe { reference.write_unaligned(NULL) };
        if original == NULL {
            return Ok(());
        }
        // SAFETY: that of this function; the reference is not null. The dataset may have been unlinked.
        let Some(path) = (unsafe { self.name(TO_REGION, original.as_ptr().cast()) }) else { return Ok(()) };
        let mut replaced = NULL;
        // SAFETY: open identifiers, a reference, room for another, and a name that ends with a zero byte; the dataspace
        // is closed by its owner only.
        let status = unsafe {
            let f = &self.library.f;
            let region =
                self.library.own_space((f.reference_region)(self.from, TO_REGION, original.as_ptr().cast()))?;
            (f.reference)(replaced.as_mut_ptr().cast(), self.to, path.as_ptr(), TO_REGION, region.id)
        };
        if status >= 0 {
            // SAFETY: that of this function.
            unsafe { reference.write_unaligned(replaced) };
        }
        Ok(())
    }

    /// Returns a path of the object that a reference of the file that is copied refers to.
    ///
    /// # Safety
    /// `reference` is a valid reference of this kind.
    unsafe fn name(&self, kind: c_int, reference: *const c_void) -> Option<std::ffi::CString> {
        let mut name = vec![0u8; 4096];
        // SAFETY: that of this function, an open identifier, and room for as many bytes as the length says.
        let length = unsafe {
            (self.library.f.reference_name)(self.from, kind, reference, name.as_mut_ptr().cast(), name.len())
        };
        let length = usize::try_from(length).ok().filter(|&length| length > 0 && length < name.len())?;
        name.truncate(length);
        std::ffi::CString::new(name).ok()
    }
}
