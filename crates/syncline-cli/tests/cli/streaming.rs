//! Pipes: arrays and streams that are compressed and decompressed while they are read.

use std::io::Read;
use std::process::{Child, ChildStdin};
use std::time::{Duration, Instant};

use super::*;

const COUNT: usize = 12 << 20;

/// Starts a line with pipes.
fn start(w: &Workshop, line: &str) -> (Child, ChildStdin) {
    let mut child =
        w.command(line).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    (child, stdin)
}

/// Feeds a line in two halves. The second follows after `enough` bytes of output.
fn in_halves(w: &Workshop, line: &str, input: &[u8], enough: usize) -> Vec<u8> {
    let (mut child, mut stdin) = start(w, line);
    let mut stdout = child.stdout.take().unwrap();
    let (first, second) = input.split_at(input.len() / 2);
    let (sender, receiver) = std::sync::mpsc::channel::<Vec<u8>>();
    let reader = std::thread::spawn(move || {
        let mut piece = vec![0; 1 << 16];
        loop {
            let count = stdout.read(&mut piece).unwrap();
            if count == 0 || sender.send(piece[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    stdin.write_all(first).unwrap();
    let mut output = Vec::new();
    while output.len() < enough {
        output.extend(receiver.recv_timeout(Duration::from_secs(20)).expect("output before the end of the input"));
    }
    #[cfg(target_os = "linux")]
    {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(kib < 40 << 10, "{line}: {kib} KiB for an array of 48 MiB");
    }
    stdin.write_all(second).unwrap();
    drop(stdin);
    output.extend(receiver.into_iter().flatten());
    reader.join().unwrap();
    assert!(child.wait().unwrap().success(), "{line}");
    output
}

#[test]
fn output_begins_before_input_ends() {
    let w = Workshop::new();
    // A part is repeated, because making values takes long in a test.
    let field = field_f32(COUNT / 12).repeat(12);
    let line = "compress - --dtype f32 --shape 96x256x512 --abs 1e-3 --effort fast --threads 1";
    let stream = in_halves(&w, line, &field, 1 << 20);
    w.write("x.syn", &stream);
    let back = in_halves(&w, "decompress - --threads 1", &stream, 16 << 20);
    w.write("x.f32", &field);
    w.ok("verify x.f32 x.syn");
    w.ok("decompress x.syn -o back.f32");
    assert!(w.read("back.f32") == back);
}

/// Waits for the end of a program whose stdin stays open.
fn ends(mut child: Child) -> Output {
    let patience = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(patience.elapsed() < Duration::from_secs(20), "waits for more input");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn wrong_arguments_are_errors_before_any_work() {
    let w = Workshop::new();
    for (line, input, text) in [
        ("decompress -", b"nothing!".to_vec(), "stdin: not a Syncline stream"),
        ("inspect -", b"nothing!".to_vec(), "stdin: not a Syncline stream"),
        ("test -", b"nothing!".to_vec(), "stdin: not a Syncline stream"),
        ("compress - --dtype f32 --shape 10x10 --abs 1 -o x.syn", vec![0; 401], "stdin: has more than the 400 bytes"),
        ("compress - --dtype f32 --shape 10x10 --rel 1 -o x.syn", vec![0; 401], "stdin: has more than the 400 bytes"),
    ] {
        let (child, mut stdin) = start(&w, line);
        stdin.write_all(&input).unwrap();
        failed(line, &ends(child), 1, text);
        drop(stdin);
    }
    for bound in ["--abs 1", "--rel 1e-3"] {
        let line = format!("compress - --dtype f32 --shape 10x10 {bound} -o x.syn");
        failed(&line, &w.run_with_stdin(&line, &[0; 399]), 1, "stdin: ended after 399 of 400 bytes");
    }
    for (line, text) in [
        ("compress - --dtype f64 --abs 1", "stdin: 5 of f64 takes 40 bytes, but the file has 41: correct"),
        ("compress - --shape 10 --abs 1", "stdin: the element type is missing: add --dtype"),
    ] {
        failed(line, &w.run_with_stdin(line, &[0; 41]), 2, text);
    }
    assert_eq!(w.names(), [""; 0]);
}

#[test]
fn a_pipe_without_a_shape_has_one_axis() {
    let w = Workshop::new();
    let field = field_f32(1000);
    w.write("x.syn", &succeeded("", w.run_with_stdin("compress - --dtype f32 --abs 1e-3", &field)));
    assert!(String::from_utf8(w.ok("inspect x.syn")).unwrap().contains("f32 1000"));
    assert!(largest_error(&w.ok("decompress x.syn -o -"), &field) <= 1e-3);
}

#[test]
fn what_goes_into_a_pipe_has_no_summary() {
    let w = Workshop::new();
    let field = field_f32(1000);
    let said = |line: &str, input: &[u8]| {
        let output = w.run_with_stdin(line, input);
        let said = String::from_utf8(output.stderr.clone()).unwrap();
        (succeeded(line, output), said)
    };
    w.write("x.f32", &field);
    let (stream, silent) = said("compress - --dtype f32 --rel 1e-3", &field);
    assert_eq!(silent, "");
    w.write("x.syn", &stream);
    for line in ["-d", "-dc x.syn", "decompress x.syn -o /dev/stdout", "decompress - --keep-going"] {
        if cfg!(unix) || !line.contains("/dev/") {
            assert_eq!(said(line, &stream).1, "", "{line}");
        }
    }
    assert!(said("-dv", &stream).1.starts_with("stdin -> stdout: f32 1000, "));
    assert!(said("compress x.f32 --shape 10x100 --abs 1 -c -v", &[]).1.starts_with("x.f32 -> stdout: "));
    assert!(said("decompress - -o y.f32", &stream).1.starts_with("stdin -> y.f32: f32 1000, "));
    // Warnings are not left out.
    let (_, warned) = said("compress x.f32 --shape 1000 --lossless --fill 1 -c", &[]);
    assert!(warned.starts_with("syncline: warning: --fill has no effect") && warned.lines().count() == 1, "{warned}");
}

#[test]
fn between_pipes_any_bytes_are_compressed_as_by_gzip() {
    let w = Workshop::new();
    let text = "It is the same, again and again. ".repeat(1000).into_bytes();
    for line in ["", "-9", "-c -T2"] {
        let output = w.run_with_stdin(line, &text);
        assert!(output.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let stream = succeeded(line, output);
        assert!(stream.len() < text.len() / 10, "{line}: {} bytes", stream.len());
        let back = w.run_with_stdin("-d", &stream);
        assert!(back.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&back.stderr));
        assert_eq!(succeeded("-d", back), text);
    }
    assert_eq!(succeeded("", w.run_with_stdin("-d", &succeeded("", w.run_with_stdin("", &[])))), [0; 0]);
}

#[test]
fn the_range_of_a_pipe_is_given_or_looked_for() {
    let w = Workshop::new();
    let field = field_f32(10_000);
    w.write("x.f32", &field);
    let line = "compress - --dtype f32 --shape 100x100 -o x.syn --force";
    let (low, high) = floats(&field).iter().fold((f32::MAX, f32::MIN), |(a, b), &v| (a.min(v), b.max(v)));
    let range = format!("--range {low}:{high}");
    let said = |bound: &str| {
        let output = w.run_with_stdin(&format!("{line} {bound}"), &field);
        let said = String::from_utf8(output.stderr.clone()).unwrap();
        succeeded(bound, output);
        w.ok("verify x.f32 x.syn");
        said
    };
    for bound in ["--rel 1e-3", "--psnr 60"] {
        assert!(said(bound).contains("kept in memory or in a temporary file"), "{bound}");
    }
    assert!(!said(&format!("--rel 1e-3 {range}")).contains("temporary file"));
    for bound in ["--abs 1e-3", "--pw-rel 1e-3", "--lossless"] {
        assert!(!said(bound).contains("temporary file"), "{bound}");
    }
    // A file's range can be given as well.
    w.ok(&format!("compress x.f32 --shape 100x100 --rel 1e-3 {range} -o y.syn"));
    said(&format!("--rel 1e-3 {range}"));
    assert_eq!(w.read("x.syn"), w.read("y.syn"));
    for wrong in ["1", "2:1", "a:b", "0:inf"] {
        w.fails(&format!("compress x.f32 --shape 100x100 --rel 1 --range {wrong} -o z"), 2, "--range");
    }
    w.fails("compress x.f32 --shape 100x100 --abs 1 --range 0:1 -o z", 2, "cannot be used with");
}

#[test]
fn numpy_files_in_pipes() {
    let w = Workshop::new();
    w.write("x.f32", &field_f32(6000));
    w.ok("compress x.f32 --shape 50x120 --lossless");
    w.ok("decompress x.f32.syn -o x.npy");
    let file = w.read("x.npy");
    let stream = succeeded("compress -", w.run_with_stdin("compress - --lossless", &file));
    assert_eq!(stream, w.read("x.f32.syn"));
    let line = "compress - --lossless --dtype f64";
    failed(line, &w.run_with_stdin(line, &file), 2, "stdin: is a .npy file of f32 50x120");
    for end in [7, 11, 60, file.len() - 1] {
        let output = w.run_with_stdin("compress - --lossless -o y.syn", &file[..end]);
        assert!(!output.status.success(), "{end}");
    }
    w.run_with_stdin("decompress - -o y.npy", &stream);
    assert_eq!(w.read("y.npy"), file);
}

#[cfg(unix)]
#[test]
fn pipes_with_names() {
    let w = Workshop::new();
    let field = field_f32(6000);
    let made = Command::new("mkfifo").args([w.path("in.f32"), w.path("out.syn")]).status().unwrap();
    assert!(made.success());
    let line = "compress in.f32 --shape 50x120 --abs 1e-3 -o out.syn";
    let mut child = w.command(line).stderr(Stdio::null()).spawn().unwrap();
    let stream = std::thread::scope(|scope| {
        scope.spawn(|| std::fs::write(w.path("in.f32"), &field).unwrap());
        std::fs::read(w.path("out.syn")).unwrap()
    });
    assert!(child.wait().unwrap().success());
    let back = succeeded("decompress -", w.run_with_stdin("decompress -", &stream));
    assert!(largest_error(&field, &back) <= 1e-3);
}
