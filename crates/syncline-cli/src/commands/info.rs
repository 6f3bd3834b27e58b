//! `syncline info`: describes the build, the processor, and the GPUs.

use serde_json::json;
use syncline::gpu::{self, DeviceInfo};
use syncline::{Coder, FORMAT_VERSION, instruction_set_name};

use super::{aligned, say};
use crate::args::InfoArgs;
use crate::json;
use crate::message::Outcome;

/// Runs the command. Without a usable GPU it succeeds and says what is missing.
pub fn run(args: &InfoArgs) -> Outcome {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let devices = devices();
    if args.json {
        let gpus = match &devices {
            Ok(devices) => json!(devices.iter().map(device_json).collect::<Vec<_>>()),
            Err(_) => json!([]),
        };
        let report = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "format_version": FORMAT_VERSION,
            "threads": threads,
            "instruction_set": instruction_set_name(),
            "coders": coders(),
            "gpus": gpus,
            "gpu_error": devices.as_ref().err(),
        });
        return json::print(&report);
    }
    let mut rows = vec![
        ("version", env!("CARGO_PKG_VERSION").to_string()),
        ("format version", format!("{FORMAT_VERSION} (newest that this build reads and writes)")),
        ("threads", threads.to_string()),
        ("instruction set", instruction_set_name().to_string()),
        ("coders", coders().join(", ")),
    ];
    match devices {
        Ok(devices) if devices.is_empty() => rows.push(("GPU", "none".to_string())),
        Ok(devices) => rows.extend(devices.into_iter().map(|device| match device {
            Ok(info) => ("GPU", info.to_string()),
            Err(error) => ("GPU", error),
        })),
        Err(error) => rows.push(("GPU", format!("none: {error}"))),
    }
    say(&aligned(&rows))
}

/// A usable GPU, or the reason why it cannot be used.
type Gpu = Result<DeviceInfo, String>;

fn devices() -> Result<Vec<Gpu>, String> {
    let count = gpu::device_count().map_err(|error| error.to_string())?;
    Ok((0..count).map(|ordinal| gpu::device(ordinal).map_err(|error| error.to_string())).collect())
}

fn device_json(device: &Gpu) -> serde_json::Value {
    match device {
        Ok(info) => json!({
            "ordinal": info.ordinal,
            "name": info.name,
            "compute_capability": version(info.compute_capability),
            "memory": info.memory,
            "multiprocessors": info.multiprocessors,
            "driver": version(info.driver),
            "nvrtc": version(info.nvrtc),
            "target": version(info.target),
            "kernel_cache": info.kernel_cache,
            "kernel_cache_error": info.kernel_cache_error,
        }),
        Err(error) => json!({ "error": error }),
    }
}

fn version((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

/// Returns the names of the available coders.
fn coders() -> Vec<&'static str> {
    Coder::ALL.map(Coder::name).to_vec()
}
