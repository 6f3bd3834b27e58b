//! `test`, `list`, `inspect` of damaged streams, and `decompress --keep-going`.

use serde_json::Value;

use super::*;

/// Five chunks.
const COUNT: usize = 2_500_000;

/// A stream, and the array in it.
fn workshop() -> (Workshop, Vec<u8>, Vec<u8>) {
    let w = Workshop::new();
    w.write("x.f32", &field_f32(COUNT));
    w.ok("compress x.f32 --shape 2500x1000 --abs 1e-3 --effort fast -o good.syn");
    w.ok("decompress good.syn -o whole");
    let (good, whole) = (w.read("good.syn"), w.read("whole"));
    (w, good, whole)
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn streams_are_tested_without_their_originals() {
    let (w, good, _) = workshop();
    let output = w.run("test good.syn");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.starts_with("good.syn: intact, f32 2500x1000, 5 chunks"), "{said}");
    assert!(w.run("test good.syn -q").stderr.is_empty());
    assert_eq!(json(&w.ok("test good.syn --json"))["intact"], true);
    for place in [good.len() / 2, good.len() - 50, good.len() - 3] {
        let mut bad = good.clone();
        bad[place] ^= 4;
        w.write("bad.syn", &bad);
        w.fails("test bad.syn", 1, "--keep-going");
    }
    let output = w.run("-t good.syn bad.syn");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("good.syn: intact") && said.contains("1 file, 1 failed"), "{said}");
    assert_eq!(output.status.code(), Some(1));
    succeeded("test -", w.run_with_stdin("test -", &good));
    w.fails("test x.f32", 1, "not a Syncline stream");
}

#[test]
fn streams_are_listed() {
    let (w, good, _) = workshop();
    w.ok("compress x.f32 --shape 2500000 --lossless -o other.syn");
    let text = String::from_utf8(w.ok("list good.syn other.syn")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].split_whitespace().eq(["RATIO", "STREAM", "ARRAY", "TYPE", "SHAPE", "BOUND", "NAME"]), "{text}");
    assert!(lines[1].contains("2500x1000  absolute 0.001  good.syn"), "{text}");
    assert_eq!(w.ok("-l good.syn other.syn"), text.as_bytes());
    let report = json(&w.ok("list good.syn other.syn --json"));
    assert_eq!(report[0]["compressed_bytes"].as_u64(), Some(good.len() as u64));
    assert_eq!(report[1]["bound"]["kind"], "lossless");
    let output = w.run("list . no.syn");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no.syn: no such file") && output.status.code() == Some(1), "{said}");
}

#[test]
fn keep_going_restores_intact_chunks() {
    let (w, good, whole) = workshop();
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 4;
    w.write("bad.syn", &bad);
    w.fails("decompress bad.syn -o y", 1, "checksum");
    let output = w.run("decompress bad.syn -o y --keep-going");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("chunk 2: lost, within the region 1024:1536: "), "{said}");
    assert!(said.contains("1 of 5 chunks are lost: their elements are NaN in y"), "{said}");
    let back = floats(&w.read("y"));
    let lost = 1024 * 1000..1536 * 1000;
    for (i, (found, expected)) in back.iter().zip(floats(&whole)).enumerate() {
        assert!(if lost.contains(&i) { found.is_nan() } else { *found == expected }, "element {i}");
    }
    assert_eq!(w.run("decompress bad.syn -c --keep-going").stdout, w.read("y"));
    let output = w.run("decompress bad.syn -o y.npy --keep-going --json");
    assert_eq!(json(&output.stdout)["lost"][0]["chunks"], serde_json::json!([2, 3]));
    assert!(w.read("y.npy").ends_with(&w.read("y")));

    // Without the end, the records are found.
    w.write("cut.syn", &good[..good.len() - 20]);
    let output = w.run("decompress cut.syn -o z --keep-going");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("warning") && said.contains("all chunks are intact"), "{said}");
    assert!(w.read("z") == whole);
    w.write("cut.syn", &good[..good.len() / 2]);
    let output = w.run("decompress cut.syn -o z --keep-going --force");
    assert_eq!(output.status.code(), Some(1));
    assert!(w.read("z")[..1024 * 4000] == whole[..1024 * 4000]);
    w.fails("decompress bad.syn -o z --force --keep-going --region 1", 2, "cannot be used with");
    w.write("none.syn", &good[..100]);
    w.fails("decompress none.syn -o n --keep-going", 1, "truncated");
    // Nothing is lost of an intact one.
    w.ok("decompress good.syn -o g --keep-going");
    assert!(w.read("g") == whole);
}

#[test]
fn fill_values_mark_what_is_lost() {
    let w = Workshop::new();
    let mut values = floats(&field_f32(COUNT));
    values.iter_mut().step_by(10).for_each(|value| *value = -9999.0);
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    w.write("x.f32", &bytes);
    w.ok("compress x.f32 --shape 2500x1000 --abs 1e-3 --effort fast -o x.syn");
    let mut bad = w.read("x.syn");
    let middle = bad.len() / 2;
    bad[middle] ^= 4;
    w.write("x.syn", &bad);
    let output = w.run("decompress x.syn -o y --keep-going");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("their elements are the fill value -9999 in y"), "{said}");
    assert!(floats(&w.read("y"))[1024 * 1000..1536 * 1000].iter().all(|&value| value == -9999.0));
}

#[test]
fn of_a_lost_stream_no_rest_is_promised() {
    let w = Workshop::new();
    w.write("x.f32", &field_f32(1000));
    w.ok("compress x.f32 --shape 1000 --abs 1e-3 -o x.syn");
    let good = w.read("x.syn");
    w.write("cut.syn", &good[..good.len() - good.len() / 3]);
    w.fails("test cut.syn", 1, "its only chunk is lost; copy or download the stream again");
    w.fails("decompress cut.syn -o y --keep-going", 1, "none is left: copy or download the stream again");
    let output = w.run("inspect cut.syn");
    failed("inspect", &output, 1, "its only chunk is lost; copy or download the stream again");
    // The bytes that are left are too few for the array.
    let rows = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).unwrap();
        ["ratio", "bits a value"].map(|name| text.lines().any(|line| line.starts_with(name)))
    };
    assert_eq!(rows(output.stdout), [false; 2]);
    assert_eq!(rows(w.ok("inspect x.syn")), [true; 2]);
}

#[test]
fn a_damaged_stream_is_described() {
    let (w, good, _) = workshop();
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 4;
    w.write("bad.syn", &bad[..good.len() - 5]);
    let output = w.run("inspect bad.syn");
    failed("inspect", &output, 1, "1 of 5 chunks are lost");
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in ["f32 2500x1000", "damaged: the counts are those of its intact chunks", "chunk 2: lost", "4 (0 raw"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let report = json(&w.run("inspect bad.syn --json").stdout);
    assert_eq!((&report["damaged"], &report["chunks"]), (&Value::Bool(true), &Value::from(4)));
    // The bytes that are left are too few for the array.
    assert_eq!(["ratio", "bits_per_value"].map(|name| report.get(name)), [Some(&Value::Null); 2]);
    assert_eq!(report["lost"][0]["elements"], serde_json::json!([1_024_000, 1_536_000]));
}
