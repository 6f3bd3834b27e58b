//! HDF5 files for Syncline, without linking an HDF5 library.
//!
//! - [`filter`] is the filter that HDF5 libraries call: a chunk of a dataset becomes one stream. As a shared library,
//!   this crate is a plugin of HDF5.
//! - [`Library`] is an HDF5 library that is found at run time. With it, the command reads, writes, and converts files.
//!
//! `docs/HDF5.md` describes the filter and its parameters.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod attributes;
mod caller;
mod contents;
mod convert;
mod dataset;
mod element;
mod error;
mod file;
pub mod filter;
mod functions;
mod library;
mod links;
mod object;
mod options;
mod parameters;
mod pipeline;
mod plugin;
mod recompress;
mod references;
mod set_local;
mod value;

pub use contents::{Attributes, Contents, Variable};
pub use convert::{Change, Conversion, convert};
pub use dataset::Dataset;
pub use error::{Error, Result};
pub use file::{File, has_signature};
pub use library::Library;
pub use options::Options;
pub use parameters::advanced_number;
pub use recompress::Choice;
pub use value::Value;
