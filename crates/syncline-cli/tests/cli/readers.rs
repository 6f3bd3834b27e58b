//! Readers of stdout and of pipes that leave before the end.

use super::*;

/// A large array, its stream, and another array.
fn workshop() -> Workshop {
    let w = Workshop::new();
    w.write("big.u8", &vec![7; 8 << 20]);
    w.ok("compress big.u8 --shape 8388608 --lossless -o big.syn");
    w.write("other.u8", &vec![8; 8 << 20]);
    w
}

/// Runs a line whose stdout nobody reads.
fn unread(w: &Workshop, line: &str) -> Output {
    let mut child = w.command(line).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    child.wait_with_output().unwrap()
}

#[test]
fn full_message_pipe_does_not_block() {
    let w = workshop();
    for line in [
        "inspect big.syn",
        "inspect big.syn --json",
        "verify big.u8 big.syn",
        "verify big.u8 big.syn --json",
        "compress big.u8 --shape 8388608 --lossless -o c.syn --json --quiet",
        "info",
        "--help",
        "compress --help",
        "completions bash",
        "man",
        "demo",
    ] {
        let output = unread(&w, line);
        assert!(output.status.success() && output.stderr.is_empty(), "{line}: {output:?}");
    }
    assert_eq!(w.read("c.syn"), w.read("big.syn"));
}

#[test]
fn a_verdict_does_not_depend_on_readers() {
    let w = workshop();
    for line in ["verify other.u8 big.syn", "verify other.u8 big.syn --json", "verify other.u8 big.syn --quiet"] {
        failed(line, &unread(&w, line), 1, "not equal bit for bit");
    }
}

#[test]
fn data_that_is_lost_is_an_error() {
    let w = workshop();
    for line in [
        "decompress big.syn -o -",
        "decompress big.syn --region 5: -o -",
        "compress big.u8 --shape 8388608 --lossless -o -",
        "demo -o -",
    ] {
        failed(line, &unread(&w, line), 1, "stdout: the reading program ended");
    }
}

#[cfg(unix)]
#[test]
fn a_closed_stdout_is_an_error() {
    let w = workshop();
    let run = |line: &str| {
        let script = format!("exec {} {line} >&-", env!("CARGO_BIN_EXE_syncline"));
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(w.0.path()).stdin(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap().wait_with_output().unwrap()
    };
    for line in [
        "decompress big.syn -o -",
        "decompress big.syn -c",
        "decompress big.syn -o /dev/stdout",
        "compress big.u8 --shape 8388608 --lossless -c",
        "list big.syn",
        "inspect big.syn --json",
    ] {
        failed(line, &run(line), 1, "stdout: is closed");
    }
    // It is not needed.
    succeeded("decompress", run("decompress big.syn -o y"));
    assert_eq!(w.read("y"), w.read("big.u8"));
}

#[cfg(unix)]
#[test]
fn named_pipe_is_read_as_a_pipe() {
    use std::io::Read;

    let w = workshop();
    let made = Command::new("mkfifo").arg(w.path("pipe")).status().unwrap();
    assert!(made.success());
    // More than a pipe holds, however it is compressed.
    let noise: Vec<u8> =
        (0..1u32 << 18).flat_map(|i| (i.wrapping_mul(i) ^ i << 7).wrapping_mul(0x9e37_79b1).to_le_bytes()).collect();
    w.write("noise.u8", &noise);
    for line in ["decompress big.syn -o pipe", "compress noise.u8 --shape 1048576 --lossless -o pipe"] {
        let child = w.command(line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut pipe = std::fs::File::open(w.path("pipe")).unwrap();
        pipe.read_exact(&mut [0]).unwrap();
        drop(pipe);
        failed(line, &child.wait_with_output().unwrap(), 1, "pipe: the reading program ended");
    }
}
