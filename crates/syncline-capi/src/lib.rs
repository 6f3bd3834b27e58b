//! The C library of Syncline. `include/syncline.h` declares it, and `docs/C.md` is the guide.
//!
//! The same library is an HDF5 filter plugin (`docs/HDF5.md`).
//!
//! No panic leaves a function: each runs in `status::guard`, which turns a panic into an error code.

#![allow(non_camel_case_types, reason = "C names of types")]

mod codec;
mod context;
mod device;
mod options;
mod status;
mod structs;

// Exports the functions of an HDF5 plugin.
use syncline_hdf5 as _;
