//! Programs in C, C++, and Fortran that use the library, compiled by the system's compilers and run. A missing compiler
//! is reported and skipped, because building and testing Syncline requires only Rust.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the shared library, which cargo puts beside the tests.
fn library() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("libsyncline_c.so");
    assert!(library.exists(), "no {}", library.display());
    library
}

fn is_installed(compiler: &str) -> bool {
    let found = Command::new(compiler).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let installed = found.is_ok_and(|status| status.success());
    if !installed {
        eprintln!("skipped: {compiler} is not installed");
    }
    installed
}

/// Compiles a source file with a compiler and options, and runs it.
fn run(compiler: &str, options: &[&str], source: &str) {
    if !cfg!(target_os = "linux") || !is_installed(compiler) {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The names that an installation provides for the linker and for the dynamic linker.
    let programs = tempfile::tempdir().unwrap();
    for name in ["libsyncline.so", "libsyncline.so.0"] {
        std::os::unix::fs::symlink(library(), programs.path().join(name)).unwrap();
    }
    let program = programs.path().join("program");
    let mut compile = Command::new(compiler);
    compile.args(options).arg("-I").arg(root.join("include")).arg("-o").arg(&program).arg(root.join(source));
    compile.arg("-L").arg(programs.path()).args(["-lsyncline", "-lm", "-lpthread"]).current_dir(programs.path());
    let compiled = compile.output().unwrap();
    assert!(compiled.status.success(), "{compile:?}: {}", String::from_utf8_lossy(&compiled.stderr));
    let mut started = Command::new(&program);
    started.env("LD_LIBRARY_PATH", programs.path()).current_dir(programs.path());
    let output = started.output().unwrap();
    let texts = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{source}: {} {}\n{}", output.status, texts[0], texts[1]);
    assert!(texts[0].ends_with("ok\n"), "{}", texts[0]);
}

const C_WARNINGS: [&str; 5] = ["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror"];

#[test]
fn every_function_works_from_c() {
    run("cc", &C_WARNINGS, "tests/c/all.c");
}

#[test]
fn every_function_works_under_sanitizers() {
    let options = [&C_WARNINGS[..], &["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]].concat();
    run("cc", &options, "tests/c/all.c");
}

#[test]
fn the_example_runs() {
    run("cc", &C_WARNINGS, "examples/region.c");
}

#[test]
fn the_example_of_the_cookbook_runs() {
    let (_, example) = include_str!("COOKBOOK.md").split_once("```c\n").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("cookbook.c");
    std::fs::write(&source, example.split_once("```").unwrap().0).unwrap();
    run("cc", &C_WARNINGS, source.to_str().unwrap());
}

const CPP_WARNINGS: [&str; 5] = ["-std=c++17", "-pedantic", "-Wall", "-Wextra", "-Werror"];

#[test]
fn the_header_serves_c_plus_plus() {
    run("c++", &CPP_WARNINGS, "tests/c/all.cpp");
}

#[test]
fn the_example_in_c_plus_plus_runs() {
    run("c++", &CPP_WARNINGS, "examples/compress.cpp");
}

#[test]
fn the_library_serves_fortran() {
    run("gfortran", &["-std=f2008", "-Wall", "-Werror"], "examples/compress.f90");
}
