//! What the program does when it is told to end.

use std::process::{Child, ChildStdin, ExitStatus};
use std::time::{Duration, Instant};

use super::*;

const LINE: &str = "compress - --dtype f32 --shape 100 --abs 1 -o out.syn --force";

/// The program at a certain moment: it has its temporary output and waits for stdin.
struct Waiting {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Waiting {
    /// Starts it by a shell that ignores some signals.
    fn new(w: &Workshop, ignored: &str) -> Self {
        w.write("out.syn", b"precious");
        let script = format!("trap '' {ignored}; exec {} {LINE}", env!("CARGO_BIN_EXE_syncline"));
        // A program that is started in the background of a script inherits ignored interrupts, which a shell cannot
        // undo.
        let mut shell = Command::new(if cfg!(target_os = "linux") { "env" } else { "sh" });
        if cfg!(target_os = "linux") {
            shell.args(["--default-signal", "sh"]);
        }
        shell.args(["-c", &script]).current_dir(w.0.path()).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        // Waiting for the program closes its stdin, which would end it another way.
        let stdin = child.stdin.take();
        let patience = Instant::now();
        while w.names().len() < 2 {
            assert!(patience.elapsed() < Duration::from_secs(20), "no temporary file: {:?}", w.names());
            std::thread::sleep(Duration::from_millis(2));
        }
        Self { child, stdin }
    }

    fn tell(&self, signal: &str) {
        let sent = Command::new("kill").args([&format!("-{signal}"), &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Sends what it waits for.
    fn feed(&mut self) {
        self.stdin.take().unwrap().write_all(&field_f32(100)).unwrap();
    }

    fn end(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

#[test]
fn interrupt_removes_the_temporary_file() {
    // What is ignored beside them makes no difference.
    for (signal, number, ignored) in [
        ("INT", 2, "USR1"),
        ("TERM", 15, "USR1"),
        ("HUP", 1, "USR1"),
        ("QUIT", 3, "USR1"),
        ("INT", 2, "HUP"),
        ("TERM", 15, "HUP INT"),
    ] {
        let w = Workshop::new();
        let program = Waiting::new(&w, ignored);
        program.tell(signal);
        assert_eq!(program.end().code(), Some(128 + number), "{signal}");
        assert_eq!(w.names(), ["out.syn"]);
        assert_eq!(w.read("out.syn"), b"precious");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn signal_ignored_by_the_parent_stays_ignored() {
    for signal in ["HUP", "INT", "TERM"] {
        let w = Workshop::new();
        let mut program = Waiting::new(&w, signal);
        program.tell(signal);
        // Long enough for who would take it.
        std::thread::sleep(Duration::from_millis(50));
        program.feed();
        assert_eq!(program.end().code(), Some(0), "{signal}");
        assert_eq!(w.names(), ["out.syn"]);
        assert_ne!(w.read("out.syn"), b"precious");
    }
}

#[test]
fn a_file_that_becomes_too_large_leaves_nothing() {
    let w = Workshop::new();
    w.write("x.u8", &[7; 4096]);
    w.ok("compress x.u8 --lossless");
    for name in ["y", "y.npy", "y.npz"] {
        let program = env!("CARGO_BIN_EXE_syncline");
        let script = format!("ulimit -f 1; exec {program} -q decompress x.u8.syn -o {name}");
        let output = Command::new("sh").args(["-c", &script]).current_dir(w.0.path()).output().unwrap();
        failed(name, &output, 1, "too large");
        assert_eq!(w.names(), ["x.u8", "x.u8.syn"]);
    }
}

/// Memory that cannot be allocated aborts the program.
#[cfg(target_os = "linux")]
#[test]
fn abort_removes_the_temporary_file() {
    use std::os::unix::process::ExitStatusExt;

    const SIGABRT: i32 = 6;
    let w = Workshop::new();
    let program = Waiting::new(&w, "USR1");
    program.tell("ABRT");
    assert_eq!(program.end().signal(), Some(SIGABRT));
    assert_eq!(w.names(), ["out.syn"]);
    assert_eq!(w.read("out.syn"), b"precious");
    // With limits of the system, some of which leave too little.
    w.write("x.f32", &field_f32(1 << 22));
    for limit in (80_000..400_000).step_by(40_000) {
        let line = "compress x.f32 --shape 4194304 --rel 1e-3 -T2 -o y.syn --force";
        let script = format!("ulimit -v {limit}; exec {} {line}", env!("CARGO_BIN_EXE_syncline"));
        let output = Command::new("sh").args(["-c", &script]).current_dir(w.0.path()).output().unwrap();
        assert!(w.names().iter().all(|name| !name.ends_with(".tmp")), "{:?} after {output:?}", w.names());
    }
}

#[test]
#[cfg(feature = "zarr")]
fn interrupted_convert_removes_its_folder() {
    let w = Workshop::new();
    zarr_stores::write_large(&w, "a.zarr");
    let mut child = w.command("convert a.zarr b.zarr --abs 1e-6 --effort best -T 4 -q").spawn().unwrap();
    let start = Instant::now();
    // Until threads write chunks.
    let is_writing = || files_below(w.0.path()) > files_below(&w.path("a.zarr")) + 8;
    while !is_writing() {
        assert!(start.elapsed() < Duration::from_secs(20) && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!(std::os::unix::process::ExitStatusExt::into_raw(child.wait().unwrap()) >> 8, 128 + 15);
    assert_eq!(w.names(), ["a.zarr"]);
}

/// Returns the number of files in a folder and in those below.
#[cfg(feature = "zarr")]
fn files_below(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { files_below(&entry.path()) } else { 1 }).sum()
}
