//! The file that a decompression writes.

use std::path::Path;

use syncline::{Header, Pipeline, Shape};

use crate::args::DecompressArgs;
use crate::message::{self, Failure, Outcome};
use crate::names::{self, is_dash};
use crate::npy;
use crate::output::Output;

use crate::tasks::Task;

/// Warns if the name of an output says another type than the elements have.
fn warn_of_type(args: &DecompressArgs, path: &Path, header: &Header) {
    let named = args.output.as_ref().and_then(|_| names::type_of(path));
    if let Some(named) = named.filter(|named| *named != header.element_type && !names::is_npy(path)) {
        let (path, real) = (path.display(), header.element_type);
        message::warn(format_args!("{path}: the name says {named}, but the elements are of {real}"));
    }
}

/// Creates the output of an array of this shape, and returns it with the header of a .npy file.
pub fn prepare(args: &DecompressArgs, task: &Task, header: &Header, shape: Shape) -> Outcome<(Output, Vec<u8>)> {
    let path = &task.output;
    warn_of_type(args, path, header);
    let start = match names::is_npy(path) {
        true => npy::write_header(header.element_type, shape)
            .ok_or_else(|| Failure::usage("NumPy has no bfloat16: name a raw output with -o, such as x.bf16"))?,
        false => Vec::new(),
    };
    let by_default = args.output.is_none() && args.files.output_dir.is_none() && !is_dash(path);
    if by_default && header.pipeline != Pipeline::Lossless && path.exists() {
        return Err(Failure::usage(format!(
            "{}: exists already and may be the original of this lossy stream: name another output with -o, or name \
             this one with -o and --force",
            path.display()
        )));
    }
    task.make_folder()?;
    Ok((Output::create(path, args.files.force, &[&task.input])?, start))
}
