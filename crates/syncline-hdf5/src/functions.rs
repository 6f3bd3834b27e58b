//! The functions of the HDF5 library that this crate calls, by their names in C.

#![allow(unsafe_code, reason = "functions of a library that is found at run time")]

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::element::{ARRAY, FLOAT, INTEGER, Traits};

/// `hid_t` since HDF5 1.10.
pub type Id = i64;

/// Called with the name of each link or attribute; the third argument describes it.
pub type EachName = unsafe extern "C" fn(Id, *const c_char, *const c_void, *mut c_void) -> c_int;

/// A record of the error stack: `H5E_error2_t`.
#[repr(C)]
pub struct ErrorRecord {
    class: Id,
    major: Id,
    minor: Id,
    line: c_uint,
    function: *const c_char,
    file: *const c_char,
    /// What went wrong.
    pub text: *const c_char,
}

/// Called with each record of the error stack.
pub type EachError = unsafe extern "C" fn(c_uint, *const ErrorRecord, *mut c_void) -> c_int;

/// `H5Pget_filter_by_id2`.
pub type FilterById =
    unsafe extern "C" fn(Id, c_int, *mut c_uint, *mut usize, *mut c_uint, usize, *mut c_char, *mut c_uint) -> c_int;

/// `H5Pget_filter2`.
pub type FilterAt =
    unsafe extern "C" fn(Id, c_uint, *mut c_uint, *mut usize, *mut c_uint, usize, *mut c_char, *mut c_uint) -> c_int;

/// Returns the flags and the parameters of a filter in a property list; `None` if HDF5 fails.
///
/// # Safety
/// `creation` is a property list of the library of `get`.
pub unsafe fn filter_values(get: FilterById, creation: Id, filter: c_int) -> Option<(c_uint, Vec<u32>)> {
    let mut values = vec![0u32; 128];
    let (mut flags, mut count, mut config) = (0, values.len(), 0);
    let no_name = std::ptr::null_mut();
    // SAFETY: an identifier of the library, and room for as many numbers as `count` says.
    let status = unsafe {
        get(creation, filter, &raw mut flags, &raw mut count, values.as_mut_ptr(), 0, no_name, &raw mut config)
    };
    values.truncate(count);
    (status >= 0).then_some((flags, values))
}

/// Functions that describe types.
#[derive(Clone, Copy)]
pub struct TypeFunctions {
    pub class: unsafe extern "C" fn(Id) -> c_int,
    pub size: unsafe extern "C" fn(Id) -> usize,
    pub sign: unsafe extern "C" fn(Id) -> c_int,
    pub order: unsafe extern "C" fn(Id) -> c_int,
    pub fields: unsafe extern "C" fn(Id, *mut usize, *mut usize, *mut usize, *mut usize, *mut usize) -> c_int,
}

impl TypeFunctions {
    /// Returns what tells the element type of a type. Programs may print every error, so that nothing is asked that a
    /// type does not have.
    ///
    /// # Safety
    /// `id` is a type of the library of these functions.
    pub unsafe fn traits(&self, id: Id) -> Traits {
        let [mut sign, mut exponent_at, mut exponent, mut mantissa_at, mut mantissa] = [0usize; 5];
        // SAFETY: an identifier of the library, and places for the results.
        unsafe {
            let class = (self.class)(id);
            if class == FLOAT {
                (self.fields)(
                    id,
                    &raw mut sign,
                    &raw mut exponent_at,
                    &raw mut exponent,
                    &raw mut mantissa_at,
                    &raw mut mantissa,
                );
            }
            Traits {
                class,
                size: (self.size)(id),
                sign: if class == INTEGER { (self.sign)(id) } else { 0 },
                order: if class == ARRAY { 0 } else { (self.order)(id) },
                bits: (exponent, mantissa),
            }
        }
    }
}

impl Functions {
    /// Returns the functions that describe types.
    pub fn types(&self) -> TypeFunctions {
        TypeFunctions {
            class: self.type_class,
            size: self.type_size,
            sign: self.type_sign,
            order: self.type_order,
            fields: self.type_fields,
        }
    }
}

macro_rules! functions {
    ($($field:ident = $($name:literal)|+ : ($($argument:ty),*) -> $result:ty;)*) => {
        /// Functions of an HDF5 library. Those with several names are called the same way in all versions.
        pub struct Functions {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            /// Looks the functions up. Returns the name of one that does not exist.
            ///
            /// # Safety
            /// `library` is an HDF5 library of version 1.10 or newer, and is never closed.
            pub unsafe fn load(library: &libloading::Library) -> Result<Self, &'static str> {
                Ok(Self {
                    $($field: {
                        type Function = unsafe extern "C" fn($($argument),*) -> $result;
                        let found = None::<Function>
                            // SAFETY: HDF5 declares the function with this name and signature since version 1.10.
                            $(.or_else(|| unsafe { library.get::<Function>($name.as_bytes()) }.ok().map(|f| *f)))+;
                        found.ok_or([$($name),+][0])?
                    },)*
                })
            }
        }
    };
}

functions! {
    open = "H5open": () -> c_int;
    version = "H5get_libversion": (*mut c_uint, *mut c_uint, *mut c_uint) -> c_int;
    print_errors = "H5Eset_auto2": (Id, Option<unsafe extern "C" fn(Id, *mut c_void) -> c_int>, *mut c_void) -> c_int;
    walk_errors = "H5Ewalk2": (Id, c_int, EachError, *mut c_void) -> c_int;
    clear_errors = "H5Eclear2": (Id) -> c_int;
    register_filter = "H5Zregister": (*const c_void) -> c_int;

    file_open = "H5Fopen": (*const c_char, c_uint, Id) -> Id;
    file_create = "H5Fcreate": (*const c_char, c_uint, Id, Id) -> Id;
    file_close = "H5Fclose": (Id) -> c_int;
    file_creation = "H5Fget_create_plist": (Id) -> Id;

    properties = "H5Pcreate": (Id) -> Id;
    properties_close = "H5Pclose": (Id) -> c_int;
    set_name_encoding = "H5Pset_char_encoding": (Id, c_int) -> c_int;
    link_order = "H5Pget_link_creation_order": (Id, *mut c_uint) -> c_int;
    set_link_order = "H5Pset_link_creation_order": (Id, c_uint) -> c_int;
    attribute_order = "H5Pget_attr_creation_order": (Id, *mut c_uint) -> c_int;
    set_attribute_order = "H5Pset_attr_creation_order": (Id, c_uint) -> c_int;
    set_create_groups = "H5Pset_create_intermediate_group": (Id, c_uint) -> c_int;
    set_copy_options = "H5Pset_copy_object": (Id, c_uint) -> c_int;
    add_type_path = "H5Padd_merge_committed_dtype_path": (Id, *const c_char) -> c_int;
    set_type_search = "H5Pset_mcdt_search_cb":
        (Id, unsafe extern "C" fn(*mut c_void) -> c_int, *mut c_void) -> c_int;
    set_chunk_cache = "H5Pset_chunk_cache": (Id, usize, usize, f64) -> c_int;
    layout = "H5Pget_layout": (Id) -> c_int;
    chunk = "H5Pget_chunk": (Id, c_int, *mut u64) -> c_int;
    set_chunk = "H5Pset_chunk": (Id, c_int, *const u64) -> c_int;
    remove_filter = "H5Premove_filter": (Id, c_int) -> c_int;
    set_filter = "H5Pset_filter": (Id, c_int, c_uint, usize, *const c_uint) -> c_int;
    filter_by_id = "H5Pget_filter_by_id2":
        (Id, c_int, *mut c_uint, *mut usize, *mut c_uint, usize, *mut c_char, *mut c_uint) -> c_int;
    external_count = "H5Pget_external_count": (Id) -> c_int;
    set_allocation_time = "H5Pset_alloc_time": (Id, c_int) -> c_int;
    fill_value_defined = "H5Pfill_value_defined": (Id, *mut c_int) -> c_int;
    fill_value = "H5Pget_fill_value": (Id, Id, *mut c_void) -> c_int;
    set_fill_value = "H5Pset_fill_value": (Id, Id, *const c_void) -> c_int;
    format_version = "H5Pget_version": (Id, *mut c_uint, *mut c_uint, *mut c_uint, *mut c_uint) -> c_int;
    set_format_versions = "H5Pset_libver_bounds": (Id, c_int, c_int) -> c_int;
    user_block = "H5Pget_userblock": (Id, *mut u64) -> c_int;

    object_open = "H5Oopen": (Id, *const c_char, Id) -> Id;
    object_close = "H5Oclose": (Id) -> c_int;
    object_copy = "H5Ocopy": (Id, *const c_char, Id, *const c_char, Id, Id) -> c_int;
    kind = "H5Iget_type": (Id) -> c_int;
    group_create = "H5Gcreate2": (Id, *const c_char, Id, Id, Id) -> Id;
    group_creation = "H5Gget_create_plist": (Id) -> Id;

    each_link = "H5Literate2" | "H5Literate1" | "H5Literate":
        (Id, c_int, c_int, *mut u64, EachName, *mut c_void) -> c_int;
    link_info = "H5Lget_info2" | "H5Lget_info1" | "H5Lget_info": (Id, *const c_char, *mut c_void, Id) -> c_int;
    link_value = "H5Lget_val": (Id, *const c_char, *mut c_void, usize, Id) -> c_int;
    link_exists = "H5Lexists": (Id, *const c_char, Id) -> c_int;
    link_soft = "H5Lcreate_soft": (*const c_char, Id, *const c_char, Id, Id) -> c_int;
    link_hard = "H5Lcreate_hard": (Id, *const c_char, Id, *const c_char, Id, Id) -> c_int;
    link_external = "H5Lcreate_external":
        (*const c_char, *const c_char, Id, *const c_char, Id, Id) -> c_int;
    link_external_parts = "H5Lunpack_elink_val":
        (*const c_void, usize, *mut c_uint, *mut *const c_char, *mut *const c_char) -> c_int;
    link_delete = "H5Ldelete": (Id, *const c_char, Id) -> c_int;

    dataset_open = "H5Dopen2": (Id, *const c_char, Id) -> Id;
    dataset_create = "H5Dcreate2": (Id, *const c_char, Id, Id, Id, Id, Id) -> Id;
    dataset_space = "H5Dget_space": (Id) -> Id;
    dataset_type = "H5Dget_type": (Id) -> Id;
    dataset_creation = "H5Dget_create_plist": (Id) -> Id;
    dataset_stored = "H5Dget_storage_size": (Id) -> u64;
    dataset_read = "H5Dread": (Id, Id, Id, Id, Id, *mut c_void) -> c_int;
    dataset_write = "H5Dwrite": (Id, Id, Id, Id, Id, *const c_void) -> c_int;
    dataset_write_chunk = "H5Dwrite_chunk": (Id, Id, u32, *const u64, usize, *const c_void) -> c_int;
    free_variable = "H5Dvlen_reclaim": (Id, Id, Id, *mut c_void) -> c_int;

    space_kind = "H5Sget_simple_extent_type": (Id) -> c_int;
    space_extents = "H5Sget_simple_extent_dims": (Id, *mut u64, *mut u64) -> c_int;
    space_points = "H5Sget_simple_extent_npoints": (Id) -> i64;
    space_select = "H5Sselect_hyperslab":
        (Id, c_int, *const u64, *const u64, *const u64, *const u64) -> c_int;
    space_simple = "H5Screate_simple": (c_int, *const u64, *const u64) -> Id;
    space_of_kind = "H5Screate": (c_int) -> Id;
    space_close = "H5Sclose": (Id) -> c_int;

    type_class = "H5Tget_class": (Id) -> c_int;
    type_has_class = "H5Tdetect_class": (Id, c_int) -> c_int;
    type_size = "H5Tget_size": (Id) -> usize;
    type_sign = "H5Tget_sign": (Id) -> c_int;
    type_order = "H5Tget_order": (Id) -> c_int;
    type_fields = "H5Tget_fields":
        (Id, *mut usize, *mut usize, *mut usize, *mut usize, *mut usize) -> c_int;
    type_copy = "H5Tcopy": (Id) -> Id;
    type_create = "H5Tcreate": (c_int, usize) -> Id;
    type_insert = "H5Tinsert": (Id, *const c_char, usize, Id) -> c_int;
    type_set_order = "H5Tset_order": (Id, c_int) -> c_int;
    type_set_size = "H5Tset_size": (Id, usize) -> c_int;
    type_set_fields = "H5Tset_fields": (Id, usize, usize, usize, usize, usize) -> c_int;
    type_set_bias = "H5Tset_ebias": (Id, usize) -> c_int;
    type_close = "H5Tclose": (Id) -> c_int;
    type_is_variable_string = "H5Tis_variable_str": (Id) -> c_int;
    type_super = "H5Tget_super": (Id) -> Id;
    type_member_count = "H5Tget_nmembers": (Id) -> c_int;
    type_member = "H5Tget_member_type": (Id, c_uint) -> Id;
    type_member_offset = "H5Tget_member_offset": (Id, c_uint) -> usize;
    type_equal = "H5Tequal": (Id, Id) -> c_int;

    attribute_create = "H5Acreate2": (Id, *const c_char, Id, Id, Id, Id) -> Id;
    attribute_open = "H5Aopen": (Id, *const c_char, Id) -> Id;
    attribute_exists = "H5Aexists": (Id, *const c_char) -> c_int;
    attribute_close = "H5Aclose": (Id) -> c_int;
    attribute_type = "H5Aget_type": (Id) -> Id;
    attribute_space = "H5Aget_space": (Id) -> Id;
    attribute_creation = "H5Aget_create_plist": (Id) -> Id;
    attribute_read = "H5Aread": (Id, Id, *mut c_void) -> c_int;
    attribute_write = "H5Awrite": (Id, Id, *const c_void) -> c_int;
    each_attribute = "H5Aiterate2": (Id, c_int, c_int, *mut u64, EachName, *mut c_void) -> c_int;

    reference_name = "H5Rget_name": (Id, c_int, *const c_void, *mut c_char, usize) -> isize;
    reference_region = "H5Rget_region": (Id, c_int, *const c_void) -> Id;
    reference = "H5Rcreate": (*mut c_void, Id, *const c_char, c_int, Id) -> c_int;
}
