//! Graphs: what was recorded while streams were captured, to be done again and again.

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

/// Ends a capture: a graph, or 0 if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamEndCapture(handle: Handle, graph: *mut Handle) -> i32 {
    guard(|| {
        // SAFETY: null or the caller's place for it.
        unsafe { put(graph, 0) }?;
        let stream = stream(handle)?;
        let operations = stream.capture().ok_or(Code::IllegalState)?.end(stream.id())?;
        // SAFETY: as above.
        unsafe { put(graph, GRAPHS.insert(operations)) }
    })
}

/// Whether a stream is captured.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(handle: Handle, status: *mut c_int) -> i32 {
    guard(|| {
        let number = match stream(handle)?.capture().map(|capture| capture.status()) {
            None | Some(Status::Ended) => 0,
            Some(Status::Active) => 1,
            Some(Status::Invalid) => 2,
        };
        // SAFETY: null or the caller's place for it.
        unsafe { put(status, number) }
    })
}

/// Makes what can be launched of a graph. The flags are about allocations, which are not recorded, uploading and
/// priorities: they change nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, _flags: u64) -> i32 {
    guard(|| {
        if executable.is_null() {
            return Err(Code::InvalidValue);
        }
        let operations = GRAPHS.get(graph)?.to_vec();
        // SAFETY: the caller's place for it.
        unsafe { put(executable, EXECUTABLES.insert(operations)) }
    })
}

/// Does all that is in a graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphLaunch(executable: Handle, handle: Handle) -> i32 {
    guard(|| launch(executable, handle))
}

/// Would bring a graph to the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphUpload(executable: Handle, handle: Handle) -> i32 {
    guard(|| EXECUTABLES.get(executable).and_then(|_| stream(handle)).map(|_| ()))
}

/// Destroys what can be launched of a graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecDestroy(executable: Handle) -> i32 {
    guard(|| EXECUTABLES.remove(executable).map(|_| ()))
}

/// Destroys a graph; what was made of it stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphDestroy(graph: Handle) -> i32 {
    guard(|| GRAPHS.remove(graph).map(|_| ()))
}
