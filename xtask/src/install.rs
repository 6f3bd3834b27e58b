//! `cargo xtask install-c`: installs the C library.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

/// Major version of the binary interface, as in the name of the shared library.
const INTERFACE: &str = "0";

/// Arguments of `install-c`.
#[derive(Args)]
pub struct Arguments {
    /// Folder to install to, such as /usr/local
    #[arg(long)]
    prefix: PathBuf,
}

/// Builds the libraries and writes them, the header, and the files for pkg-config and CMake.
pub fn run(arguments: &Arguments) -> Result<()> {
    let root = crate::root();
    crate::run(crate::cargo().args(["build", "--release", "--package", "syncline-capi"]).current_dir(root))?;
    let prefix = std::path::absolute(&arguments.prefix).context("cannot find the prefix")?;
    let built = root.join("target/release");
    let version = env!("CARGO_PKG_VERSION");
    let lib = prefix.join("lib");
    let shared = format!("libsyncline.so.{version}");
    copy(&built.join("libsyncline_c.so"), &lib.join(&shared))?;
    copy(&built.join("libsyncline_c.a"), &lib.join("libsyncline.a"))?;
    link(&shared, &lib.join(format!("libsyncline.so.{INTERFACE}")))?;
    link(&shared, &lib.join("libsyncline.so"))?;
    // HDF5 opens every library of a plugin folder, so that the plugin has a folder of its own.
    link(&format!("../../{shared}"), &lib.join("syncline/hdf5/libsyncline.so"))?;
    copy(&root.join("crates/syncline-capi/include/syncline.h"), &prefix.join("include/syncline.h"))?;
    write(&lib.join("pkgconfig/syncline.pc"), &pkg_config(&prefix, version))?;
    write(&lib.join("cmake/syncline/synclineConfig.cmake"), CMAKE)?;
    write(&lib.join("cmake/syncline/synclineConfigVersion.cmake"), &cmake_version(version))?;
    println!("installed to {}", prefix.display());
    Ok(())
}

fn pkg_config(prefix: &Path, version: &str) -> String {
    format!(
        "prefix={}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\nName: syncline\n\
         Description: Error-bounded and lossless compression of numeric arrays\nVersion: {version}\n\
         Libs: -L${{libdir}} -lsyncline\nLibs.private: -lm -lpthread -ldl\nCflags: -I${{includedir}}\n",
        prefix.display()
    )
}

const CMAKE: &str = r#"get_filename_component(SYNCLINE_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET syncline::syncline)
  add_library(syncline::syncline SHARED IMPORTED)
  set_target_properties(syncline::syncline PROPERTIES
    IMPORTED_LOCATION "${SYNCLINE_PREFIX}/lib/libsyncline.so"
    INTERFACE_INCLUDE_DIRECTORIES "${SYNCLINE_PREFIX}/include")
  add_library(syncline::syncline-static STATIC IMPORTED)
  set_target_properties(syncline::syncline-static PROPERTIES
    IMPORTED_LOCATION "${SYNCLINE_PREFIX}/lib/libsyncline.a"
    INTERFACE_INCLUDE_DIRECTORIES "${SYNCLINE_PREFIX}/include"
    INTERFACE_LINK_LIBRARIES "m;pthread;dl")
endif()
"#;

fn cmake_version(version: &str) -> String {
    format!(
        "set(PACKAGE_VERSION \"{version}\")\nif(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)\n  \
         set(PACKAGE_VERSION_COMPATIBLE FALSE)\nelse()\n  set(PACKAGE_VERSION_COMPATIBLE TRUE)\nendif()\n"
    )
}

/// Creates the folder of a file.
fn create_parent(file: &Path) -> Result<()> {
    let folder = file.parent().context("a file has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    create_parent(to)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

fn write(to: &Path, text: &str) -> Result<()> {
    create_parent(to)?;
    fs::write(to, text).with_context(|| format!("cannot write {}", to.display()))
}

/// Replaces `at` by a symbolic link to `target`.
#[cfg(unix)]
fn link(target: &str, at: &Path) -> Result<()> {
    create_parent(at)?;
    match fs::remove_file(at) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot replace {}", at.display()));
        }
        _ => {}
    }
    std::os::unix::fs::symlink(target, at).with_context(|| format!("cannot create {}", at.display()))
}

#[cfg(not(unix))]
fn link(_: &str, _: &Path) -> Result<()> {
    anyhow::bail!("install-c works on Unix systems")
}
