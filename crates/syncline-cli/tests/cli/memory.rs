//! `--memory-limit`.

use super::*;

/// More than one chunk of tiles has, not by a whole number.
const COUNT: usize = (1 << 21) + 12_345;

fn workshop() -> Workshop {
    let w = Workshop::new();
    w.write("x.f32", &field_f32(COUNT));
    w.ok(&format!("compress x.f32 --shape {COUNT} --rel 1e-3 --effort fast"));
    w.ok("decompress x.f32.syn -o whole");
    w
}

/// The limit that a line with too small a one asks for.
fn needed(w: &Workshop, line: &str) -> u64 {
    let output = w.run(&format!("{line} --memory-limit 1K"));
    failed(line, &output, 2, "raise the limit");
    let stderr = String::from_utf8(output.stderr).unwrap();
    let (_, needed) = stderr.split_once("needs ").unwrap();
    needed.split_once(' ').unwrap().0.parse().unwrap()
}

#[test]
fn threads_and_memory_limit_do_not_change_the_stream() {
    let w = workshop();
    let report: serde_json::Value = serde_json::from_slice(&w.ok("inspect x.f32.syn --json")).unwrap();
    assert!(report["chunks"].as_u64().unwrap() > 2, "one chunk alone has no order");
    let line = format!("compress x.f32 --shape {COUNT} --rel 1e-3 --effort fast -o");
    let enough = needed(&w, &format!("{line} no.syn"));
    for (threads, limit) in
        [(1, "1GiB".into()), (4, "1GiB".into()), (4, enough.to_string()), (3, (3 * enough).to_string())]
    {
        w.ok(&format!("{line} b.syn --force --threads {threads} --memory-limit {limit}"));
        assert_eq!(w.read("x.f32.syn"), w.read("b.syn"), "{threads} {limit}");
        w.ok(&format!("decompress b.syn -o b --force --threads {threads} --memory-limit {limit}"));
        assert_eq!(w.read("whole"), w.read("b"), "{threads} {limit}");
    }
}

#[test]
fn memory_limit_that_suffices_for_the_whole_suffices_for_regions() {
    let w = workshop();
    let enough = needed(&w, "decompress x.f32.syn -o no");
    let whole = w.read("whole");
    for limit in [enough, enough + 1_000_000, 4 * enough] {
        let limit = format!("--memory-limit {limit}");
        w.ok(&format!("decompress x.f32.syn -o b --force {limit}"));
        assert_eq!(w.read("b"), whole);
        assert_eq!(w.ok(&format!("decompress x.f32.syn -o - {limit}")), whole);
        w.ok(&format!("decompress x.f32.syn --region 1000:2000000 -o b --force {limit}"));
        assert_eq!(w.read("b"), whole[4000..8_000_000]);
        w.ok(&format!("verify x.f32 x.f32.syn {limit}"));
    }
}

#[test]
fn memory_limit_named_in_the_error_suffices() {
    let w = workshop();
    let region = "decompress x.f32.syn --region 1000:1010 -o -";
    let lines = [region, "decompress x.f32.syn -o -", "verify x.f32 x.f32.syn"];
    let least = lines.map(|line| needed(&w, line));
    assert_eq!(least, [least[0]; 3]);
    assert_eq!(w.ok(&format!("{region} --memory-limit {}", least[0])), w.read("whole")[4000..4040]);
    w.fails(&format!("{region} --memory-limit {}", least[0] - 1), 2, "raise the limit");
}

// Elsewhere TMPDIR says nothing.
#[cfg(unix)]
#[test]
fn stdin_is_spooled_within_the_limit() {
    let w = workshop();
    let field = w.read("x.f32");
    let line = format!("compress - --dtype f32 --shape {COUNT} --rel 1e-3 -1 -o b.syn --force --memory-limit 20M");
    // It has more than a quarter of the limit: a folder for it is needed.
    let run = |folder: &str| {
        let mut command = w.command(&line);
        command.env("TMPDIR", folder);
        feed(command, &field)
    };
    failed(&line, &run("/no/such/folder"), 1, "stdin: cannot be kept in the temporary folder /no/such/folder");
    assert!(!w.names().contains(&"b.syn".into()));
    succeeded(&line, run(w.path(".").to_str().unwrap()));
    assert_eq!(w.read("b.syn"), w.read("x.f32.syn"));
}

/// The most memory in bytes that the program had, of which it has some itself.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn peak(w: &Workshop, line: &str) -> u64 {
    let mut child = w.command(line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|number| number.parse().ok());
        peak = peak.max(kibibytes.unwrap_or(0) * 1024);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    succeeded(line, child.wait_with_output().unwrap());
    assert!(peak > 0, "{line}");
    peak
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn every_command_stays_below_the_limit() {
    // What the program itself takes (docs/COMMAND.md).
    const PROGRAM: u64 = 15 << 20;
    let w = Workshop::new();
    // Of more bytes than both together. A part is repeated, because making values takes long in a test.
    w.write("x.f32", &field_f32(4 << 18).repeat(12));
    for (effort, limit) in [("fast", 32 << 20), ("balanced", 64 << 20)] {
        let compress = format!("compress x.f32 --shape 48x512x512 --rel 1e-3 --force --effort {effort} -o");
        w.ok(&format!("{compress} x.syn --memory-limit {limit}"));
        for line in [
            format!("{compress} z.syn"),
            "decompress x.syn -o z.f32 --force".into(),
            format!("estimate x.f32 --shape 48x512x512 --rel 1e-3 --effort {effort}"),
            "report x.f32 x.syn -o z.html --force".into(),
        ] {
            let peak = peak(&w, &format!("{line} -q --threads 4 --memory-limit {limit}"));
            assert!(peak < limit + PROGRAM, "{line}: {peak} bytes");
        }
    }
}
