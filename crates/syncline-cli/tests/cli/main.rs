//! The program as its users run it: a process with files, pipes and exit codes.

mod cliffs;
mod damage;
mod device;
mod estimates;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod failing_calls;
mod failures;
mod many;
mod memory;
mod npy;
mod readers;
mod report_page;
mod reports;
mod roundtrip;
#[cfg(unix)]
mod signals;
mod streaming;
#[cfg(feature = "zarr")]
mod zarr_stores;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A folder to run in.
struct Workshop(TempDir);

impl Workshop {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// Names of everything there is, hidden files included.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(self.0.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_syncline"));
        command.args(line.split_whitespace()).current_dir(self.0.path());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).stdin(Stdio::null()).output().unwrap()
    }

    fn run_with_stdin(&self, line: &str, stdin: &[u8]) -> Output {
        feed(self.command(line), stdin)
    }

    /// Runs what must succeed and gives stdout.
    fn ok(&self, line: &str) -> Vec<u8> {
        succeeded(line, self.run(line))
    }

    /// Runs what must fail with this code, one line on stderr holding `text`, and no trace in the folder.
    fn fails(&self, line: &str, code: i32, text: &str) {
        let before = self.names();
        let output = self.run(line);
        failed(line, &output, code, text);
        assert_eq!(self.names(), before, "{line}: leftovers");
    }
}

impl Workshop {
    /// Runs what must fail with this code after it has said something.
    fn fails_with_output(&self, line: &str, code: i32, text: &str) {
        let output = self.run(line);
        failed(line, &output, code, text);
        assert!(!output.stdout.is_empty(), "{line}");
    }
}

/// Runs a command with this stdin.
fn feed(mut command: Command, stdin: &[u8]) -> Output {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // The program may stop reading early; what it does then is what is tested.
        scope.spawn(move || pipe.write_all(stdin));
        child.wait_with_output().unwrap()
    })
}

fn succeeded(line: &str, output: Output) -> Vec<u8> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "syncline {line}: {:?} {stderr}", output.status.code());
    output.stdout
}

fn failed(line: &str, output: &Output, code: i32, text: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "syncline {line}: {stderr}");
    assert!(stderr.starts_with("syncline: error: ") && stderr.ends_with('\n'), "syncline {line}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "syncline {line}: {stderr}");
    assert!(stderr.contains(text), "syncline {line}: {stderr}");
}

/// A smooth field with some noise, as little-endian bytes.
fn field_f32(count: usize) -> Vec<u8> {
    (0..count).flat_map(|i| value(i).to_le_bytes()).collect()
}

fn value(i: usize) -> f32 {
    (i as f32 * 0.01).sin() * 10.0 + (i * 7919 % 101) as f32 * 1e-3
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn largest_error(a: &[u8], b: &[u8]) -> f64 {
    assert_eq!(a.len(), b.len());
    floats(a).iter().zip(floats(b)).map(|(a, b)| (f64::from(*a) - f64::from(b)).abs()).fold(0.0, f64::max)
}

/// The field that is built in.
fn geoid() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("egm96_361x720.f32")
}
