//! The commands that time a GPU report an error on a machine without one.

use std::process::Command;

#[test]
fn one_line_says_what_is_missing() {
    if syncline_cuda::Device::open(0, &syncline_cuda::HEADERS).is_ok() {
        eprintln!("skipped: this machine has a GPU");
        return;
    }
    for command in ["huffman", "lossy", "lzss"] {
        // The error must come before sets are generated, which would take minutes.
        let bench = Command::new(env!("CARGO_BIN_EXE_syncline-bench")).args([command, "--device", "cuda"]).output();
        let output = bench.unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command}: {errors}");
        assert!(errors.starts_with("error: ") && errors.lines().count() == 1, "{command}: {errors}");
        assert!(errors.contains("install"), "{command}: {errors}");
        assert!(output.stdout.is_empty(), "{command}");
    }
}
