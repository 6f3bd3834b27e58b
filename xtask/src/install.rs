//! `cargo xtask install-c`: installs the C library.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX, OS};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;

/// Major version of the binary interface, as in the name of the shared library.
const INTERFACE: &str = "0";

/// Arguments of `install-c`.
#[derive(Args)]
pub struct Arguments {
    /// Folder to install to, such as /usr/local
    #[arg(long)]
    prefix: PathBuf,
    /// Folder of the libraries in it, such as lib/x86_64-linux-gnu
    #[arg(long, default_value = "lib")]
    libdir: String,
    /// Then compile and run the example as users do, with pkg-config and with CMake, where they are installed
    #[arg(long)]
    test: bool,
}

/// Builds the libraries and writes them, the header, and the files for pkg-config and CMake.
pub fn run(arguments: &Arguments) -> Result<()> {
    let root = crate::root();
    crate::run(crate::cargo().args(["build", "--release", "--package", "syncline-capi"]).current_dir(root))?;
    let prefix = std::path::absolute(&arguments.prefix).context("cannot find the prefix")?;
    let built = root.join("target/release");
    let version = env!("CARGO_PKG_VERSION");
    let lib = prefix.join(&arguments.libdir);
    let names = Names::on(OS, version);
    copy(&built.join(format!("{DLL_PREFIX}syncline_c{DLL_SUFFIX}")), &lib.join(&names.file))?;
    copy(&built.join("libsyncline_c.a"), &lib.join("libsyncline.a"))?;
    link(&names.file, &lib.join(&names.of_interface))?;
    link(&names.file, &lib.join(&names.of_linker))?;
    // HDF5 opens every library of a plugin folder, so that the plugin has a folder of its own.
    link(&format!("../../{}", names.file), &lib.join("syncline/hdf5").join(&names.of_linker))?;
    copy(&root.join("crates/syncline-capi/include/syncline.h"), &prefix.join("include/syncline.h"))?;
    write(&lib.join("pkgconfig/syncline.pc"), &pkg_config(&arguments.libdir, version))?;
    // With names in lower case, `find_package` finds the files for `syncline` and for `Syncline`.
    write(&lib.join("cmake/syncline/syncline-config.cmake"), &cmake(&arguments.libdir, &names))?;
    write(&lib.join("cmake/syncline/syncline-config-version.cmake"), &cmake_version(version))?;
    println!("installed to {}", prefix.display());
    if arguments.test { test(&prefix, &lib, version) } else { Ok(()) }
}

/// The names of the shared library.
struct Names {
    /// The file.
    file: String,
    /// What programs load, with the version of the binary interface.
    of_interface: String,
    /// What the linker looks for.
    of_linker: String,
}

impl Names {
    fn on(system: &str, version: &str) -> Self {
        let name = |version: &str| match (system, version) {
            ("macos", "") => "libsyncline.dylib".to_owned(),
            ("macos", version) => format!("libsyncline.{version}.dylib"),
            (_, "") => "libsyncline.so".to_owned(),
            (_, version) => format!("libsyncline.so.{version}"),
        };
        Self { file: name(version), of_interface: name(INTERFACE), of_linker: name("") }
    }
}

/// Returns the way from a folder that is `depth` folders below the folder of the libraries to the prefix.
fn to_prefix(libdir: &str, depth: usize) -> String {
    vec![".."; libdir.split('/').count() + depth].join("/")
}

/// Returns the file for pkg-config, which finds the prefix from where the file is, so that the folder can be moved.
fn pkg_config(libdir: &str, version: &str) -> String {
    format!(
        "prefix=${{pcfiledir}}/{}\nlibdir=${{prefix}}/{libdir}\nincludedir=${{prefix}}/include\n\nName: syncline\n\
         Description: Error-bounded and lossless compression of numeric arrays\nVersion: {version}\n\
         Libs: -L${{libdir}} -lsyncline\nLibs.private: -lm -lpthread -ldl\nCflags: -I${{includedir}}\n",
        to_prefix(libdir, 1)
    )
}

/// Returns the file for CMake.
fn cmake(libdir: &str, names: &Names) -> String {
    let text = CMAKE.replace("@OF_INTERFACE@", &names.of_interface).replace("@OF_LINKER@", &names.of_linker);
    let text = text.replace("@LIBDIR@", libdir).replace("@RPATH@", if OS == "macos" { "@rpath/" } else { "" });
    text.replace("@TO_PREFIX@", &to_prefix(libdir, 2))
}

const CMAKE: &str = r#"get_filename_component(SYNCLINE_PREFIX "${CMAKE_CURRENT_LIST_DIR}/@TO_PREFIX@" ABSOLUTE)
if(NOT TARGET syncline::syncline)
  add_library(syncline::syncline SHARED IMPORTED)
  set_target_properties(syncline::syncline PROPERTIES
    IMPORTED_LOCATION "${SYNCLINE_PREFIX}/@LIBDIR@/@OF_LINKER@"
    IMPORTED_SONAME "@RPATH@@OF_INTERFACE@"
    INTERFACE_INCLUDE_DIRECTORIES "${SYNCLINE_PREFIX}/include")
  add_library(syncline::syncline-static STATIC IMPORTED)
  set_target_properties(syncline::syncline-static PROPERTIES
    IMPORTED_LOCATION "${SYNCLINE_PREFIX}/@LIBDIR@/libsyncline.a"
    INTERFACE_INCLUDE_DIRECTORIES "${SYNCLINE_PREFIX}/include"
    INTERFACE_LINK_LIBRARIES "m;pthread;dl")
endif()
"#;

fn cmake_version(version: &str) -> String {
    format!(
        "set(PACKAGE_VERSION \"{version}\")\nif(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)\n  \
         set(PACKAGE_VERSION_COMPATIBLE FALSE)\nelse()\n  set(PACKAGE_VERSION_COMPATIBLE TRUE)\nendif()\n\
         if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)\n  set(PACKAGE_VERSION_EXACT TRUE)\nendif()\n"
    )
}

/// Compiles and runs the example in C with what was installed. What is not on this system is skipped, and a note is
/// printed.
fn test(prefix: &Path, lib: &Path, version: &str) -> Result<()> {
    let folder = crate::root().join("target/install-c");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot clear {}", folder.display()))?;
    }
    let example = crate::root().join("crates/syncline-capi/examples/region.c");
    copy(&example, &folder.join("region.c"))?;
    if !is_installed("cc") {
        return Ok(());
    }
    if is_installed("pkg-config") {
        test_with_pkg_config(lib, &folder)?;
    }
    if is_installed("cmake") {
        test_with_cmake(prefix, &folder, version)?;
    }
    Ok(())
}

/// Returns whether a program starts, and says so if it does not.
fn is_installed(program: &str) -> bool {
    let status = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let installed = status.is_ok_and(|status| status.success());
    if !installed {
        println!("skipped: {program} is not installed");
    }
    installed
}

/// Compiles the example with the flags of pkg-config, and runs it.
fn test_with_pkg_config(lib: &Path, folder: &Path) -> Result<()> {
    let mut tool = Command::new("pkg-config");
    tool.args(["--cflags", "--libs", "syncline"]).env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
    let output = tool.output().context("cannot start pkg-config")?;
    ensure!(output.status.success(), "pkg-config: {}", String::from_utf8_lossy(&output.stderr));
    let flags = String::from_utf8(output.stdout).context("the flags of pkg-config are no text")?;
    let program = folder.join("region-pkg-config");
    let mut compile = Command::new("cc");
    compile.arg(folder.join("region.c")).arg("-o").arg(&program).args(flags.split_whitespace()).arg("-lm");
    crate::run(&mut compile)?;
    crate::run(Command::new(&program).env(if OS == "macos" { "DYLD_LIBRARY_PATH" } else { "LD_LIBRARY_PATH" }, lib))
}

/// Builds the example with CMake, with the shared and with the static library, and runs it.
fn test_with_cmake(prefix: &Path, folder: &Path, version: &str) -> Result<()> {
    let text = format!(
        "cmake_minimum_required(VERSION 3.10)\nproject(region C)\nfind_package(syncline {version} EXACT REQUIRED)\n\
         find_package(Syncline {version} REQUIRED)\nadd_executable(region-shared region.c)\n\
         target_link_libraries(region-shared syncline::syncline m)\nadd_executable(region-static region.c)\n\
         target_link_libraries(region-static syncline::syncline-static m)\n"
    );
    write(&folder.join("CMakeLists.txt"), &text)?;
    let build = folder.join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(folder).arg("-B").arg(&build);
    crate::run(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())))?;
    crate::run(Command::new("cmake").arg("--build").arg(&build))?;
    // CMake has put the folder of the shared library into the program.
    crate::run(&mut Command::new(build.join("region-shared")))?;
    crate::run(&mut Command::new(build.join("region-static")))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_for_pkg_config_and_cmake_lead_to_the_prefix_from_any_folder_of_libraries() {
        assert!(pkg_config("lib", "1.2.3").starts_with("prefix=${pcfiledir}/../..\n"));
        let text = pkg_config("lib/x86_64-linux-gnu", "1.2.3");
        assert!(text.starts_with("prefix=${pcfiledir}/../../..\nlibdir=${prefix}/lib/x86_64-linux-gnu\n"));
        let names = Names::on("linux", "1.2.3");
        assert!(cmake("lib", &names).contains("\"${CMAKE_CURRENT_LIST_DIR}/../../..\""));
        let text = cmake("lib/x86_64-linux-gnu", &names);
        assert!(text.contains("\"${CMAKE_CURRENT_LIST_DIR}/../../../..\""));
        assert!(text.contains("\"${SYNCLINE_PREFIX}/lib/x86_64-linux-gnu/libsyncline.so\""));
    }

    #[test]
    fn the_shared_library_has_the_names_that_linkers_of_the_system_look_for() {
        let names = |system| {
            let Names { file, of_interface, of_linker } = Names::on(system, "1.2.3");
            [file, of_interface, of_linker]
        };
        assert_eq!(names("linux"), ["libsyncline.so.1.2.3", "libsyncline.so.0", "libsyncline.so"]);
        assert_eq!(names("macos"), ["libsyncline.1.2.3.dylib", "libsyncline.0.dylib", "libsyncline.dylib"]);
    }
}
