//! The HDF5 filter plugin: a dynamically loaded filter that links no HDF5 library.

mod filter;
mod library;
mod options;
mod set_local;
