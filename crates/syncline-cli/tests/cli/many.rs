//! Several files and folders, short forms, and the environment.

use super::*;

fn workshop() -> Workshop {
    let w = Workshop::new();
    std::fs::create_dir_all(w.path("run/step")).unwrap();
    w.write("run/a.f32", &field_f32(1000));
    w.write("run/step/b.f32", &field_f32(1000));
    w.write("run/notes.txt", b"no array");
    w.write("c.f32", &field_f32(1000));
    w
}

fn stderr(w: &Workshop, line: &str) -> String {
    let output = w.run(line);
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn folders_there_and_back() {
    let w = workshop();
    let said = stderr(&w, "compress run c.f32 --shape 1000 --abs 1e-3 --output-dir packed");
    assert_eq!(said.lines().count(), 4, "{said}");
    let total = said.lines().last().unwrap();
    assert!(total.starts_with("3 files: ") && total.contains("ratio") && total.ends_with("B/s"), "{said}");
    for name in ["packed/a.f32.syn", "packed/step/b.f32.syn", "packed/c.f32.syn"] {
        assert!(w.path(name).is_file(), "{name}");
    }
    assert!(!w.path("packed/notes.txt.syn").exists());
    w.ok("decompress packed --output-dir back");
    for name in ["back/a.f32", "back/step/b.f32", "back/c.f32"] {
        assert!(largest_error(&w.read(name), &field_f32(1000)) <= 1e-3, "{name}");
    }
    let report: serde_json::Value =
        serde_json::from_slice(&w.ok("compress run c.f32 --shape 1000 --abs 1e-3 --output-dir packed -f --json"))
            .unwrap();
    assert_eq!(report.as_array().unwrap().len(), 3);
}

#[test]
fn one_bad_file_does_not_stop_the_others() {
    let w = workshop();
    let output = w.run("compress no.f32 c.f32 --shape 1000 --lossless");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no.f32: no such file") && said.contains("1 file, 1 failed"), "{said}");
    assert!(w.path("c.f32.syn").is_file());
    // Two problems with the command line alone.
    w.write("d.f32.syn", b"precious");
    w.write("d.f32", &field_f32(1000));
    let output = w.run("compress c.f32 d.f32 --shape 1000 --lossless");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(w.read("d.f32.syn"), b"precious");
}

#[test]
fn raw_files_of_a_folder_without_a_shape_are_named_and_the_others_are_done() {
    let w = workshop();
    w.ok("compress c.f32 --shape 10x100 --lossless");
    w.ok("decompress c.f32.syn -o run/c.npy");
    w.write("run/d_10x100.f32", &field_f32(1000));
    let output = w.run("compress run --rel 1e-3 --output-dir packed");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let lines: Vec<_> = said.lines().filter(|line| line.starts_with("syncline: error: ")).collect();
    assert_eq!(lines.len(), 3, "{said}");
    for name in ["run/a.f32", "run/step/b.f32", "run/d_10x100.f32"] {
        let wanted = format!("{name}: the shape is missing: add --shape");
        assert!(lines.iter().any(|line| line.contains(&wanted)), "{said}");
    }
    assert!(said.contains("(the name suggests --shape 10x100)"), "{said}");
    assert!(said.lines().last().unwrap().starts_with("1 file, 3 failed: "), "{said}");
    assert_eq!(floats(&w.ok("decompress packed/c.npy.syn -c")).len(), 1000);
    assert!(!w.path("packed/a.f32.syn").exists());
}

#[test]
fn contradicting_options_of_many_files_are_errors() {
    let w = workshop();
    std::fs::create_dir(w.path("empty")).unwrap();
    std::fs::copy(w.path("run/a.f32"), w.path("a.f32")).unwrap();
    let compress = "--shape 1000 --lossless";
    w.fails(&format!("compress run {compress} -o x.syn"), 2, "--output-dir");
    w.fails(&format!("compress c.f32 a.f32 {compress} -c"), 2, "one output cannot hold several inputs");
    w.fails(&format!("compress a.f32 run/a.f32 {compress} --output-dir out"), 2, "have the same output");
    w.fails(&format!("compress empty {compress}"), 1, "the folder has no arrays");
    w.fails("decompress empty", 1, "the folder has no streams");
    w.fails(&format!("compress c.f32 {compress} -o - --rm"), 2, "--rm");
    w.fails(&format!("compress c.f32 {compress} -c -o x"), 2, "cannot be used with");
    w.fails(&format!("compress c.f32 {compress} -1 -2"), 2, "cannot be used with");
    #[cfg(unix)]
    {
        w.fails(&format!("compress c.f32 {compress} -o /dev/null --rm"), 2, "--rm");
        w.fails("compress /dev/null --dtype u8 --shape 1 --lossless -o x.syn --rm", 2, "no file that could be removed");
    }
    assert!(w.path("c.f32").is_file());
}

#[test]
fn inputs_are_kept_or_removed() {
    let w = workshop();
    w.ok("compress c.f32 --shape 1000 --lossless --rm --keep");
    assert!(w.path("c.f32").is_file());
    w.ok("compress c.f32 --shape 1000 --lossless --rm -f");
    assert!(!w.path("c.f32").exists());
    w.ok("decompress c.f32.syn --rm");
    assert_eq!(w.read("c.f32"), field_f32(1000));
    assert!(!w.path("c.f32.syn").exists());
    // Not after a failure.
    w.write("bad.syn", b"nothing");
    w.fails("decompress bad.syn --rm", 1, "not a Syncline stream");
    assert!(w.path("bad.syn").exists());
}

#[test]
fn file_that_takes_the_name_of_an_input_meanwhile_stays() {
    const KEPT: &str = "was changed or replaced while it was read, and is kept";
    let w = Workshop::new();
    let is_at_work = || w.names().iter().any(|name| name.ends_with(".tmp"));
    let replace = |name: &str| {
        w.write("new", b"new");
        std::fs::rename(w.path("new"), w.path(name)).unwrap();
    };
    w.write("x.u8", b"short");
    w.ok("compress x.u8 --lossless");
    // The second stream comes only when the first has another file under its name.
    let line = "-q decompress x.u8.syn - -o x.npz --rm";
    let mut child = w.command(line).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let second = (child.stdin.take().unwrap(), w.read("x.u8.syn"));
    while !is_at_work() {
        assert!(child.try_wait().unwrap().is_none());
    }
    replace("x.u8.syn");
    { second.0 }.write_all(&second.1).unwrap();
    failed(line, &child.wait_with_output().unwrap(), 1, KEPT);
    assert_eq!(w.read("x.u8.syn"), b"new");
    assert!(w.path("x.npz").exists());

    // An array that takes some time, or more time if it was too quick for this.
    let line = "-q compress long.u8 --lossless --advanced coder=lzss --advanced level=9 -T1 --rm -f";
    let race = |size: u64| {
        std::fs::File::create(w.path("long.u8")).unwrap().set_len(size).unwrap();
        let mut child = w.command(line).stderr(Stdio::piped()).spawn().unwrap();
        while !is_at_work() && child.try_wait().unwrap().is_none() {}
        replace("long.u8");
        child.wait_with_output().unwrap()
    };
    let output = (24..28).map(|log2| race(1 << log2)).find(|output| !output.status.success()).expect("a slow machine");
    failed(line, &output, 1, KEPT);
    assert_eq!(w.read("long.u8"), b"new");
}

#[test]
fn short_forms() {
    let w = workshop();
    w.ok("c.f32 --shape 1000 --abs 1e-3");
    w.ok("compress c.f32 --shape 1000 --abs 1e-3 -o long.syn");
    assert_eq!(w.read("c.f32.syn"), w.read("long.syn"));
    let back = w.ok("decompress long.syn -o -");
    assert_eq!(w.ok("-dc long.syn"), back);
    assert_eq!(w.ok("-c -T1 long.syn"), back);
    assert_eq!(succeeded("-d", w.run_with_stdin("-d", &w.read("long.syn"))), back);
    w.ok("long.syn");
    assert_eq!(w.read("long"), back);
    for (digits, effort) in [("123", "fast"), ("456", "balanced"), ("789", "best")] {
        w.ok(&format!("compress c.f32 --shape 1000 --abs 1e-3 --effort {effort} -o long.syn -f"));
        for digit in digits.chars() {
            w.ok(&format!("-{digit} c.f32 --shape 1000 --abs 1e-3 -o short.syn -f"));
            assert_eq!(w.read("short.syn"), w.read("long.syn"), "-{digit}");
        }
    }
    w.ok("compress c.f32 --shape 1000 --abs 1 --fill -9 -o nine.syn");
    let said = stderr(&w, "compress c.f32 --shape 1000 --abs 1 --advanced level=9 -o warned.syn");
    assert!(said.contains("warning: --advanced level has no effect with an error bound"), "{said}");
    w.fails("c.f32 --shape 1000", 2, "--lossless");
}

#[test]
fn the_environment_gives_defaults() {
    let w = workshop();
    let run = |name: &str, value: &str, line: &str| w.command(line).env(name, value).output().unwrap();
    let line = "compress c.f32 --shape 1000 --abs 1 -v -f";
    let output = run("SYNCLINE_THREADS", "many", line);
    failed(line, &output, 2, "--threads");
    let output = run("SYNCLINE_MEMORY_LIMIT", "1K", line);
    failed(line, &output, 2, "memory limit");
    let lossless = "compress c.f32 --shape 1000 --lossless";
    succeeded(lossless, run("SYNCLINE_ADVANCED", "coder=lzss", &format!("{lossless} -o env.syn")));
    w.ok(&format!("{lossless} --advanced coder=lzss -o option.syn"));
    assert_eq!(w.read("env.syn"), w.read("option.syn"));
    // The command line has the last word.
    succeeded(
        lossless,
        run(
            "SYNCLINE_ADVANCED",
            "coder=numbers,index=none",
            &format!("{lossless} --advanced coder=lzss -o env.syn -f"),
        ),
    );
    assert_eq!(w.read("env.syn"), w.read("option.syn"));
}
