//! Makes a link to the HDF5 plugin, so that it becomes part of the wheel.
//!
//! The plugin is the shared library of the crate `syncline-hdf5`, which Cargo builds as a dependency of the extension
//! module: it does not exist yet while this script runs. Maturin takes files of the wheel from the script's own folder.

use std::env;
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(unix)]
    {
        let name = format!("{}syncline_hdf5{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR"));
        let link = out.join(&name);
        if link.symlink_metadata().is_ok() {
            std::fs::remove_file(&link)?;
        }
        // From `build/syncline-python-HASH/out` to `deps`.
        std::os::unix::fs::symlink(PathBuf::from("../../../deps").join(name), link)?;
    }
    Ok(())
}
