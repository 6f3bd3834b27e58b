//! Runs the subcommands as processes on the CPU.

use std::collections::HashMap;
use std::process::{Command, Output};

type Row = HashMap<String, String>;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_syncline-bench")).args(arguments).output().unwrap()
}

/// Returns the records that a command prints.
fn records(arguments: &[&str]) -> Vec<Row> {
    let output = bench(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    csv::Reader::from_reader(&output.stdout[..]).into_deserialize().collect::<Result<_, _>>().unwrap()
}

fn number(row: &Row, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} of {row:?}"))
}

const SMALL: [&str; 4] = ["--mebibytes", "1", "--runs", "1"];

#[test]
fn lossy_has_a_record_for_each_array_bound_effort_and_direction() {
    let more = ["--fields", "hurricane,nyx-u16", "--rel", "1e-2,1e-4", "--threads", "1,2", "--only", "syncline"];
    let rows = records(&[&["lossy"], &SMALL[..], &more].concat());
    assert_eq!(rows.len(), 2 * 2 * 3 * 2 * 2);
    assert_eq!(rows[0]["options"], "balanced", "the default is first");
    for row in &rows {
        assert!(number(row, "error") <= 1.0 && number(row, "seconds") > 0.0, "{row:?}");
        assert!(row["of_copy"].is_empty() && row["bench"] == "lossy" && row["codec"] == "syncline", "{row:?}");
    }
    let stream = |bound: &str, options: &str, device: &str| {
        let is = |row: &&Row| row["bound"] == bound && row["options"] == options && row["device"] == device;
        number(rows.iter().find(is).unwrap(), "stream_bytes")
    };
    assert!(stream("1e-2", "fast", "cpu, 1 thread") < stream("1e-4", "fast", "cpu, 1 thread"), "bounds matter");
    assert_eq!(stream("1e-2", "best", "cpu, 1 thread"), stream("1e-2", "best", "cpu, 2 threads"), "threads do not");
}

#[test]
fn lossless_records_of_codecs_are_exact() {
    let rows = records(&[&["lossless"], &SMALL[..], &["--fields", "tpch-linenumber,hurricane-codes"]].concat());
    let ours = rows.iter().filter(|row| row["codec"] == "syncline").count();
    assert_eq!(ours, 2 * 4 * 2, "two arrays, two efforts and two coders, two directions");
    // Codecs in Python are included if this Python has them.
    assert!(cfg!(not(feature = "rivals")) || rows.len() - ours >= 2 * 4 * 2);
    for row in &rows {
        assert!(row["bound"] == "lossless" && row["error"].is_empty(), "{row:?}");
        assert!(number(row, "bytes") > number(row, "stream_bytes"), "{row:?}");
    }
}

#[test]
fn ratio_has_every_variant_within_its_bound() {
    let rows = records(&["ratio", "--mebibytes", "1", "--fields", "turbulence", "--rel", "1e-3"]);
    let ours: Vec<&Row> = rows.iter().filter(|row| row["codec"] == "syncline" && row["what"] == "compress").collect();
    assert_eq!(ours.len(), 3);
    assert!(ours.iter().all(|row| number(row, "error") <= 1.0));
    let bytes = |options: &str| number(ours.iter().find(|row| row["options"] == options).unwrap(), "stream_bytes");
    assert!(bytes("balanced") < bytes("fast") && bytes("best") <= bytes("balanced"));
    // Other codecs round once more at the end.
    assert!(rows.iter().all(|row| number(row, "error") <= 1.0 + 1e-3), "{rows:?}");
}

#[test]
fn regions_read_less_than_the_whole_stream() {
    let more = ["--mebibytes", "2", "--fields", "nyx", "--rel", "1e-3", "--only", "syncline"];
    let rows = records(&[&["regions"], &more[..]].concat());
    assert_eq!(rows.len(), 3 * 5, "three efforts; four kinds of regions, and all");
    for kinds in rows.chunks(5) {
        let all = &kinds[4];
        assert!(all["what"] == "all" && number(all, "bytes") >= 4.0 * 64_f64.powi(3), "{all:?}");
        assert!(number(&kinds[0], "bytes") < number(all, "bytes"), "a point needs one tile: {kinds:?}");
        assert!(kinds.iter().all(|row| number(row, "stream_bytes") <= number(all, "stream_bytes")), "{kinds:?}");
    }
}

#[test]
fn lossy_system_of_the_papers_is_measured_without_a_gpu() {
    let more = ["--parts", "before-huffman", "--fields", "hurricane,nyx-codes"];
    let rows = records(&[&["papers"], &SMALL[..], &more].concat());
    let rows: Vec<&Row> = rows.iter().filter(|row| row["device"] == "cpu, 1 thread").collect();
    assert_eq!(rows.len(), 2 * 3, "two bounds; both directions, and without LZSS");
    assert!(rows.iter().all(|row| row["field"] == "hurricane" && number(row, "error") <= 1.0), "{rows:?}");
    let ratio = |codec: &str, bound: &str| {
        let is = |row: &&&Row| row["codec"] == codec && row["bound"] == bound && row["what"] == "compress";
        let row = rows.iter().find(is).unwrap();
        number(row, "bytes") / number(row, "stream_bytes")
    };
    assert!(ratio("cusz_gpulz_2023", "1e-2") > ratio("cusz_2020", "1e-2"), "a sparse field has matches");
    assert!(ratio("cusz_gpulz_2023", "1e-2") > ratio("cusz_gpulz_2023", "1e-3"));
}

#[test]
fn generate_writes_the_array_that_it_describes() {
    let path = std::env::temp_dir().join(format!("syncline-bench-generate-{}.i32", std::process::id()));
    let output = bench(&["generate", "tpch-discount", "--mebibytes", "1", "-o", path.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    let length = std::fs::metadata(&path).unwrap().len();
    std::fs::remove_file(&path).unwrap();
    assert!(length == 1 << 20 && text.contains(&format!("i32 {}", length / 4)), "{text}");
}

#[test]
fn arguments_that_make_no_sense_are_errors() {
    for (arguments, complaint) in [
        (&["lossy", "--fields", "nowhere"][..], "nowhere"),
        (&["lossy", "--rel", "0"], "between 0 and 1"),
        (&["lossy", "--rel", "tight"], "tight"),
        (&["lossy", "--effort", "slow"], "balanced"),
        (&["lossy", "--device", "tpu"], "tpu"),
        (&["lossy", "--only", "nothing"], "no codec"),
        (&["lossy", "--mebibytes", "0"], "mebibytes"),
        (&["lossless", "--runs", "0"], "--runs"),
        (&["generate", "nowhere"], "nowhere"),
        (&["lossy", "--fields", "timestamps", "--mebibytes", "1", "--only", "syncline"], "use `lossless`"),
    ] {
        let output = bench(arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(complaint), "{arguments:?}: {errors}");
    }
}

#[test]
fn missing_gpu_is_one_line_before_anything_is_generated() {
    if syncline_cuda::Device::open(0, &syncline_cuda::HEADERS).is_ok() {
        eprintln!("skipped: this machine has a GPU");
        return;
    }
    for command in [&["lossy", "--device", "gpu"][..], &["lossless", "--device", "gpu"], &["stages"], &["papers"]] {
        let output = bench(command);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {errors}");
        assert!(errors.starts_with("error: ") && errors.lines().count() == 1, "{command:?}: {errors}");
        assert!(errors.contains("install") && output.stdout.is_empty(), "{command:?}: {errors}");
    }
}
