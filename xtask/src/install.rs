//! `cargo xtask install-c`: installs the C library.

use std::env::consts::OS;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;

/// Major version of the binary interface, as in the name of the shared library.
const INTERFACE: &str = "0";

/// Bytes of the shared library at most; with debug information it has several times as many.
const MAX_SHARED_BYTES: u64 = 24 << 20;

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
    let version = env!("CARGO_PKG_VERSION");
    let lib = prefix.join(&arguments.libdir);
    let files = Files::on(OS, version, &arguments.libdir);
    for (built, installed) in &files.copies {
        copy(&root.join("target/release").join(built), &prefix.join(installed))?;
    }
    for (target, at) in &files.links {
        link(target, &prefix.join(at))?;
    }
    copy(&root.join("crates/syncline-capi/include/syncline.h"), &prefix.join("include/syncline.h"))?;
    write(&lib.join("pkgconfig/syncline.pc"), &pkg_config(&arguments.libdir, version, &files))?;
    // With names in lower case, `find_package` finds the files for `syncline` and for `Syncline`.
    write(&lib.join("cmake/syncline/syncline-config.cmake"), &cmake(&arguments.libdir, &files))?;
    write(&lib.join("cmake/syncline/syncline-config-version.cmake"), &cmake_version(version))?;
    println!("installed to {}", prefix.display());
    if !arguments.test {
        return Ok(());
    }
    let bytes = fs::metadata(prefix.join(&files.shared)).context("cannot find the shared library")?.len();
    ensure!(bytes <= MAX_SHARED_BYTES, "{} has {bytes} bytes: does it have debug information?", files.shared);
    test(&prefix, &lib, version)
}

/// What is installed on a system, by paths in the prefix.
struct Files {
    /// What cargo builds, and where it is installed.
    copies: Vec<(String, String)>,
    /// Symbolic links: what they lead to, and where they are.
    links: Vec<(String, String)>,
    /// The shared library that CMake names.
    shared: String,
    /// A property of the shared library for CMake: the name that programs load, or the library that is linked for it.
    shared_property: String,
    /// The static library.
    archive: String,
    /// Libraries of the system that the static one needs.
    needed: &'static [&'static str],
}

impl Files {
    fn on(system: &str, version: &str, libdir: &str) -> Self {
        if system == "windows" {
            return Self::on_windows(libdir);
        }
        let (suffix, rpath) = if system == "macos" { ("dylib", "@rpath/") } else { ("so", "") };
        // The name that the linker looks for has no version.
        let name = |version: &str| match (system, version) {
            (_, "") => format!("libsyncline.{suffix}"),
            ("macos", version) => format!("libsyncline.{version}.{suffix}"),
            (_, version) => format!("libsyncline.{suffix}.{version}"),
        };
        let (file, of_interface, of_linker) = (name(version), name(INTERFACE), name(""));
        let in_lib = |name: &str| format!("{libdir}/{name}");
        Self {
            copies: vec![
                (format!("libsyncline_c.{suffix}"), in_lib(&file)),
                ("libsyncline_c.a".to_owned(), in_lib("libsyncline.a")),
            ],
            links: vec![
                (file.clone(), in_lib(&of_interface)),
                (file.clone(), in_lib(&of_linker)),
                // HDF5 opens every library of a plugin folder, so that the plugin has a folder of its own.
                (format!("../../{file}"), in_lib(&format!("syncline/hdf5/{of_linker}"))),
            ],
            shared: in_lib(&of_linker),
            shared_property: format!("IMPORTED_SONAME \"{rpath}{of_interface}\""),
            archive: in_lib("libsyncline.a"),
            needed: &["m", "pthread", "dl"],
        }
    }

    /// The library for linking names the DLL as cargo does, which therefore keeps that name.
    fn on_windows(libdir: &str) -> Self {
        let in_lib = |name: &str| format!("{libdir}/{name}");
        let (dll, import, archive) =
            ("bin/syncline_c.dll".to_owned(), in_lib("syncline.lib"), in_lib("syncline-static.lib"));
        Self {
            copies: vec![
                ("syncline_c.dll".to_owned(), dll.clone()),
                ("syncline_c.dll.lib".to_owned(), import.clone()),
                ("syncline_c.lib".to_owned(), archive.clone()),
                ("syncline_c.dll".to_owned(), in_lib("syncline/hdf5/syncline.dll")),
            ],
            links: Vec::new(),
            shared: dll,
            shared_property: format!("IMPORTED_IMPLIB \"${{SYNCLINE_PREFIX}}/{import}\""),
            archive,
            needed: &["kernel32", "ntdll", "userenv", "ws2_32", "dbghelp"],
        }
    }
}

/// Returns the way from a folder that is `depth` folders below the folder of the libraries to the prefix.
fn to_prefix(libdir: &str, depth: usize) -> String {
    vec![".."; libdir.split('/').count() + depth].join("/")
}

/// Returns the file for pkg-config, which finds the prefix from where the file is, so that the folder can be moved.
fn pkg_config(libdir: &str, version: &str, files: &Files) -> String {
    let needed: Vec<_> = files.needed.iter().map(|library| format!("-l{library}")).collect();
    format!(
        "prefix=${{pcfiledir}}/{}\nlibdir=${{prefix}}/{libdir}\nincludedir=${{prefix}}/include\n\nName: syncline\n\
         Description: Error-bounded and lossless compression of numeric arrays\nVersion: {version}\n\
         Libs: -L${{libdir}} -lsyncline\nLibs.private: {}\nCflags: -I${{includedir}}\n",
        to_prefix(libdir, 1),
        needed.join(" ")
    )
}

/// Returns the file for CMake.
fn cmake(libdir: &str, files: &Files) -> String {
    let text = CMAKE.replace("@SHARED@", &files.shared).replace("@PROPERTY@", &files.shared_property);
    let text = text.replace("@ARCHIVE@", &files.archive).replace("@NEEDED@", &files.needed.join(";"));
    text.replace("@TO_PREFIX@", &to_prefix(libdir, 2))
}

const CMAKE: &str = r#"get_filename_component(SYNCLINE_PREFIX "${CMAKE_CURRENT_LIST_DIR}/@TO_PREFIX@" ABSOLUTE)
if(NOT TARGET syncline::syncline)
  add_library(syncline::syncline SHARED IMPORTED)
  set_target_properties(syncline::syncline PROPERTIES
    IMPORTED_LOCATION "${SYNCLINE_PREFIX}/@SHARED@"
    @PROPERTY@
    INTERFACE_INCLUDE_DIRECTORIES "${SYNCLINE_PREFIX}/include")
  add_library(syncline::syncline-static STATIC IMPORTED)
  set_target_properties(syncline::syncline-static PROPERTIES
    IMPORTED_LOCATION "${SYNCLINE_PREFIX}/@ARCHIVE@"
    INTERFACE_INCLUDE_DIRECTORIES "${SYNCLINE_PREFIX}/include"
    INTERFACE_LINK_LIBRARIES "@NEEDED@")
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
    anyhow::bail!("there are no symbolic links to install on this system")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_for_pkg_config_and_cmake_lead_to_the_prefix_from_any_folder_of_libraries() {
        let files = |libdir| Files::on("linux", "1.2.3", libdir);
        assert!(pkg_config("lib", "1.2.3", &files("lib")).starts_with("prefix=${pcfiledir}/../..\n"));
        let libdir = "lib/x86_64-linux-gnu";
        let text = pkg_config(libdir, "1.2.3", &files(libdir));
        assert!(text.starts_with("prefix=${pcfiledir}/../../..\nlibdir=${prefix}/lib/x86_64-linux-gnu\n"));
        assert!(text.contains("\nLibs.private: -lm -lpthread -ldl\n"));
        assert!(cmake("lib", &files("lib")).contains("\"${CMAKE_CURRENT_LIST_DIR}/../../..\""));
        let text = cmake(libdir, &files(libdir));
        assert!(text.contains("\"${CMAKE_CURRENT_LIST_DIR}/../../../..\""));
        assert!(text.contains("\"${SYNCLINE_PREFIX}/lib/x86_64-linux-gnu/libsyncline.so\""));
        assert!(text.contains("IMPORTED_SONAME \"libsyncline.so.0\""));
    }

    #[test]
    fn the_shared_library_has_the_names_that_linkers_of_the_system_look_for() {
        let installed = |system| {
            let Files { copies, links, .. } = Files::on(system, "1.2.3", "lib");
            let paths = copies.into_iter().map(|(_, path)| path).chain(links.into_iter().map(|(_, path)| path));
            paths.map(|path| path.trim_start_matches("lib/").to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            installed("linux"),
            "libsyncline.so.1.2.3 libsyncline.a libsyncline.so.0 libsyncline.so syncline/hdf5/libsyncline.so"
        );
        assert_eq!(
            installed("macos"),
            "libsyncline.1.2.3.dylib libsyncline.a libsyncline.0.dylib libsyncline.dylib \
             syncline/hdf5/libsyncline.dylib"
        );
        assert_eq!(
            installed("windows"),
            "bin/syncline_c.dll syncline.lib syncline-static.lib syncline/hdf5/syncline.dll"
        );
        assert!(cmake("lib", &Files::on("windows", "1.2.3", "lib")).contains("/lib/syncline.lib\""));
    }
}
