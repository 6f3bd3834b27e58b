//! `syncline info`: what this build is and what it can run on.

use serde_json::json;
use syncline::cuda::Device;
use syncline::{FORMAT_VERSION, LosslessPipeline, instruction_set_name};

use super::{aligned, say};
use crate::args::InfoArgs;
use crate::json;
use crate::message::Outcome;

/// Runs the command. A machine without a GPU is no failure: it says what is missing.
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
            "vectors": instruction_set_name(),
            "pipelines": pipelines(),
            "gpus": gpus,
            "gpu_error": devices.as_ref().err(),
        });
        return json::print(&report);
    }
    let mut rows = vec![
        ("version", env!("CARGO_PKG_VERSION").to_string()),
        ("format version", format!("{FORMAT_VERSION}: writes it, reads up to it")),
        ("threads", threads.to_string()),
        ("vectors", instruction_set_name().to_string()),
        ("pipelines", pipelines().join(", ")),
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

/// What is known of each GPU, or what keeps it from being used.
type Found = Result<syncline::cuda::DeviceInfo, String>;

fn devices() -> Result<Vec<Found>, String> {
    let count = Device::count().map_err(|error| error.to_string())?;
    let open = |ordinal| Device::open(ordinal).map(|device| device.info().clone()).map_err(|error| error.to_string());
    Ok((0..count).map(open).collect())
}

fn device_json(device: &Found) -> serde_json::Value {
    match device {
        Ok(info) => json!({
            "ordinal": info.ordinal,
            "name": info.name,
            "capability": info.capability,
            "memory": info.memory,
            "multiprocessors": info.multiprocessors,
            "driver": info.driver.to_string(),
            "nvrtc": info.compiler.to_string(),
            "architecture": info.architecture,
            "cache": info.cache,
            "cache_error": info.cache_error(),
        }),
        Err(error) => json!({ "error": error }),
    }
}

/// Names of the pipelines that streams can be made with.
fn pipelines() -> Vec<&'static str> {
    LosslessPipeline::ALL.map(LosslessPipeline::name).to_vec()
}
