//! Functions of the driver API for captures and graphs. A graph contains recorded operations that can be run
//! repeatedly.

#![allow(unsafe_code)]

use std::ffi::c_int;

use super::captures::{Capture, Mode, Status};
use super::errors::{Code, Result, guard, put};
use super::handles::{Handle, Handles};
use super::operations::Operation;
use super::streams::{is_default, stream};

static GRAPHS: Handles<Vec<Operation>> = Handles::new();
static EXECUTABLES: Handles<Vec<Operation>> = Handles::new();

fn launch(executable: Handle, handle: Handle) -> Result<()> {
    let (operations, stream) = (EXECUTABLES.get(executable)?, stream(handle)?);
    match stream.capture() {
        Some(capture) => operations.iter().try_for_each(|operation| capture.record(stream.id(), operation.clone())),
        None => operations.iter().try_for_each(|operation| stream.run(operation)),
    }
}

/// Begins the capture of a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamBeginCapture_v2(handle: Handle, mode: u32) -> i32 {
    guard(|| {
        let stream = stream(handle)?;
        let mode = match mode {
            0 => Mode::Global,
            1 => Mode::ThreadLocal,
            2 => Mode::Relaxed,
            _ => return Err(Code::InvalidValue),
        };
        if is_default(handle) {
            return Err(Code::CaptureUnsupported);
        }
        if stream.capture().is_some() {
            return Err(Code::IllegalState);
        }
        stream.set_capture(Capture::begin(stream.id(), mode));
        Ok(())
    })
}

/// Ends a capture. Writes the handle of the graph, or 0 if the capture is invalid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamEndCapture(handle: Handle, graph: *mut Handle) -> i32 {
    guard(|| {
        // SAFETY: the caller passes null or a valid place.
        unsafe { put(graph, 0) }?;
        let stream = stream(handle)?;
        let operations = stream.capture().ok_or(Code::IllegalState)?.end(stream.id())?;
        // SAFETY: `put` above has returned an error if the place is null, and the caller passes a valid place
        // otherwise.
        unsafe { put(graph, GRAPHS.insert(operations)) }
    })
}

/// Writes whether a stream is captured.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(handle: Handle, status: *mut c_int) -> i32 {
    guard(|| {
        let number = match stream(handle)?.capture().map(|capture| capture.status()) {
            None | Some(Status::Ended) => 0,
            Some(Status::Active) => 1,
            Some(Status::Invalid) => 2,
        };
        // SAFETY: the caller passes null or a valid place.
        unsafe { put(status, number) }
    })
}

/// Creates an executable graph. The flags (memory of graphs, upload, priorities) have no effect here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, _flags: u64) -> i32 {
    guard(|| {
        if executable.is_null() {
            return Err(Code::InvalidValue);
        }
        let operations = GRAPHS.get(graph)?.to_vec();
        // SAFETY: `executable` was checked, and the caller passes a valid place.
        unsafe { put(executable, EXECUTABLES.insert(operations)) }
    })
}

/// Runs all operations of a graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphLaunch(executable: Handle, handle: Handle) -> i32 {
    guard(|| launch(executable, handle))
}

/// Uploads a graph to the device, which has no effect here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphUpload(executable: Handle, handle: Handle) -> i32 {
    guard(|| EXECUTABLES.get(executable).and_then(|_| stream(handle)).map(|_| ()))
}

/// Destroys an executable graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecDestroy(executable: Handle) -> i32 {
    guard(|| EXECUTABLES.remove(executable).map(|_| ()))
}

/// Destroys a graph; executable graphs created from it remain valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphDestroy(graph: Handle) -> i32 {
    guard(|| GRAPHS.remove(graph).map(|_| ()))
}
