//! Makes a link to the HDF5 plugin, so that it becomes part of the wheel.
//!
//! The plugin is the shared library of the crate `syncline-hdf5`, which Cargo builds as a dependency of the extension
//! module: it does not exist yet while this script runs. Maturin takes files of the wheel from the script's own folder.

use std::env;
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let name = format!("{}syncline_hdf5{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let link = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR")).join(&name);
    if link.symlink_metadata().is_ok() {
        std::fs::remove_file(&link)?;
    }
    // From `build/syncline-python-HASH/out` to `deps`.
    let target: PathBuf = ["..", "..", "..", "deps", &name].iter().collect();
    #[cfg(unix)]
    std::os::unix::fs::symlink(target, link)?;
    // Not everybody may make links on Windows.
    #[cfg(windows)]
    if let Err(error) = std::os::windows::fs::symlink_file(target, link) {
        println!("cargo::warning=the wheel will have no HDF5 plugin: {error}");
    }
    Ok(())
}
