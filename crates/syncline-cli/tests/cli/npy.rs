use super::*;

/// A `.npy` file as NumPy writes it.
fn npy(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
    text.extend(std::iter::repeat_n(' ', 118 - text.len() - 1));
    text.push('\n');
    [b"\x93NUMPY\x01\x00".as_slice(), &118u16.to_le_bytes(), text.as_bytes(), data].concat()
}

#[test]
fn both_ways() {
    let w = Workshop::new();
    let field = field_f32(6000);
    let file = npy("<f4", "False", "(50, 120)", &field);
    w.write("x.npy", &file);
    w.ok("compress x.npy --lossless");
    assert_eq!(w.names(), ["x.npy", "x.npy.syn"]);
    w.ok("verify x.npy x.npy.syn");
    std::fs::remove_file(w.path("x.npy")).unwrap();
    w.ok("decompress x.npy.syn");
    assert_eq!(w.read("x.npy"), file);
    w.ok("decompress x.npy.syn -o raw.f32");
    assert_eq!(w.read("raw.f32"), field);
    w.ok("verify raw.f32 x.npy.syn");

    w.ok("decompress x.npy.syn --region 10:12,3: -o part.npy");
    let rows = [&field[(1200 + 3) * 4..1320 * 4], &field[(1320 + 3) * 4..1440 * 4]].concat();
    assert_eq!(w.read("part.npy"), npy("<f4", "False", "(2, 117)", &rows));
    let piped = succeeded("compress -", w.run_with_stdin("compress - --lossless", &file));
    assert_eq!(piped, w.read("x.npy.syn"));
    succeeded("verify -", w.run_with_stdin("verify - x.npy.syn", &file));
}

#[test]
fn npy_files_with_other_names_are_recognized() {
    let w = Workshop::new();
    let field = field_f32(6000);
    let file = npy("<f4", "False", "(50, 120)", &field);
    w.write("x.npy", &file);
    w.ok("compress x.npy --abs 1e-3 -o x.syn");
    for name in ["x.f32", "x.dat", "x"] {
        w.write(name, &file);
        for options in ["", "--shape 50x120", "--dtype f32 --shape 50x120"] {
            w.ok(&format!("compress {name} --abs 1e-3 -o y.syn --force {options}"));
            assert_eq!(w.read("y.syn"), w.read("x.syn"), "{name} {options}");
        }
        w.ok(&format!("verify {name} x.syn"));
        w.fails(&format!("compress {name} --abs 1 --dtype f32 --shape 6000 -o z"), 2, "is a .npy file of f32 50x120");
    }
    // All of the file as elements is what can be meant, but hardly is.
    for name in ["x.dat", "x.npy"] {
        let line = format!("compress {name} --lossless --dtype u8 --shape {} -o raw.syn --force", file.len());
        let output = w.run(&line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stderr.contains("warning") && stderr.contains(".npy"), "{stderr}");
        assert!(w.run(&format!("{line} --quiet")).stderr.is_empty());
        w.ok(&format!("verify {name} raw.syn"));
        w.ok("decompress raw.syn -o raw --force");
        assert_eq!(w.read("raw"), file);
    }
}

#[test]
fn integers_and_a_lossy_bound() {
    let w = Workshop::new();
    let bytes: Vec<u8> = (0..=255).collect();
    for (descr, shape) in [("|u1", "(256,)"), ("<i2", "(2, 64)"), ("<u8", "(2, 2, 2, 4)"), ("<f2", "(128,)")] {
        let file = npy(descr, "False", shape, &bytes);
        w.write("i.npy", &file);
        w.ok("compress i.npy --lossless --force");
        w.ok("decompress i.npy.syn --force");
        assert_eq!(w.read("i.npy"), file, "{descr}");
    }
    w.write("x.npy", &npy("<f4", "False", "(60, 100)", &field_f32(6000)));
    w.ok("compress x.npy --abs 1e-3");
    w.ok("verify x.npy x.npy.syn");
}

#[test]
fn unsupported_npy_files_are_errors() {
    let w = Workshop::new();
    let data = [0; 24];
    for (descr, fortran, shape, text) in [
        ("<c32", "False", "(3,)", "not supported"),
        (
            "<f4",
            "False",
            "(7,)",
            "takes 28 bytes, but the file has 24 after its header: the file is truncated: copy or save it",
        ),
        ("<f4", "False", "(5,)", "takes 20 bytes, but the file has 24 after its header: save one array alone"),
    ] {
        w.write("x.npy", &npy(descr, fortran, shape, &data));
        w.fails("compress x.npy --lossless", 1, text);
    }
    w.write("x.npy", b"\x93NUMPY\x01\x00\x76");
    w.fails("compress x.npy --lossless", 1, "truncated");
    w.write("x.npy", &data);
    w.fails("compress x.npy --lossless", 1, "not a .npy file");
    w.write("x.npy", &npy("<f4", "False", "(6,)", &data));
    w.fails("compress x.npy --lossless --shape 2x3", 2, "leave them out");
    w.write("b.bf16", &data);
    w.ok("compress b.bf16 --shape 12 --lossless");
    w.fails("decompress b.bf16.syn -o b.npy", 2, "bfloat16");
}

#[test]
fn arrays_of_other_orders_and_types() {
    let w = Workshop::new();
    let field = field_f32(6000);
    let big: Vec<u8> = field.chunks_exact(4).flat_map(|word| word.iter().rev().copied().collect::<Vec<_>>()).collect();
    for (descr, fortran, shape, data, like, said) in [
        ("<f4", "True", "(50, 120)", &field, "f32 120x50", "the array is in Fortran order"),
        (">f4", "False", "(50, 120)", &big, "f32 50x120", "the array is big-endian"),
        ("<c8", "False", "(50, 60)", &field, "f32 50x60x2", "the array is complex"),
        (">c8", "True", "(50, 60)", &big, "f32 60x50x2", "the array is complex"),
        ("|b1", "False", "(200, 120)", &field, "u8 200x120", "the array is of bool"),
    ] {
        let file = npy(descr, fortran, shape, data);
        w.write("x.npy", &file);
        let output = w.run("compress x.npy --lossless --force");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && text.contains(said), "{descr}: {text}");
        assert!(String::from_utf8(w.ok("inspect x.npy.syn")).unwrap().contains(like), "{descr}");
        assert!(w.ok("decompress x.npy.syn -c") == field, "{descr}");
        w.ok("verify x.npy x.npy.syn");
        w.ok("compare x.npy x.npy");
        // In pipes as well.
        let stream = succeeded("compress -", w.run_with_stdin("compress - --lossless", &file));
        assert!(stream == w.read("x.npy.syn"), "{descr}");
        succeeded("verify -", w.run_with_stdin("verify - x.npy.syn", &file));
        if descr.contains('f') {
            for bound in ["--abs 1e-3", "--rel 1e-3"] {
                w.ok(&format!("compress x.npy {bound} --force"));
                w.ok("verify x.npy x.npy.syn");
                let stream = w.run_with_stdin(&format!("compress - {bound}"), &file).stdout;
                w.write("piped.syn", &stream);
                w.ok("verify x.npy piped.syn");
            }
        }
    }
}

/// A .npz file with these arrays, as `numpy.savez` or `numpy.savez_compressed` writes it.
fn npz(members: &[(&str, Vec<u8>)], method: zip::CompressionMethod) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in members {
        let options = zip::write::SimpleFileOptions::default().compression_method(method);
        writer.start_file(format!("{name}.npy"), options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn members_of_npz_files() {
    let w = Workshop::new();
    let field = field_f32(6000);
    let (t, u) = (npy("<f4", "False", "(50, 120)", &field), npy("<i4", "False", "(6000,)", &field));
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        w.write("x.npz", &npz(&[("t", t.clone()), ("u", u.clone())], method));
        let said = String::from_utf8(w.run("compress x.npz --lossless --force").stderr).unwrap();
        assert!(said.contains("x.npz:t -> x.npz.t.npy.syn") && said.contains("2 files"), "{said}");
        w.ok("verify x.npz:t x.npz.t.npy.syn");
        w.ok("compress x.npz:t --abs 1e-3 -o t.syn --force");
        w.ok("verify x.npz:t.npy t.syn");
        w.ok("compare x.npz:u x.npz:u");
        // And back, as members or alone.
        w.ok("decompress x.npz.t.npy.syn x.npz.u.npy.syn -o back.npz --force");
        let mut back = zip::ZipArchive::new(std::io::Cursor::new(w.read("back.npz"))).unwrap();
        for (name, expected) in [("t.npy", &t), ("u.npy", &u)] {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut back.by_name(name).unwrap(), &mut bytes).unwrap();
            assert!(bytes == *expected, "{name}");
        }
        w.ok("compare x.npz:t back.npz:t --abs 1e-300");
    }
    w.ok("decompress x.npz.t.npy.syn");
    assert_eq!(w.read("x.npz.t.npy"), t);
    w.fails("verify x.npz x.npz.t.npy.syn", 2, "has 2 arrays (t, u): name one, such as x.npz:t");
    w.fails("compress x.npz:v --lossless", 1, "there is no such array");
    w.fails("compress x.npz --lossless --rm --output-dir o", 2, "--rm");
    w.fails("decompress x.npz.t.npy.syn -o back.npz", 2, "--force");
    w.fails("decompress x.npz.t.npy.syn t.syn -o no.npz --region 0:1", 2, "not available for .npz");
    let file = w.read("x.npz");
    w.write("short.npz", &file[..file.len() / 2]);
    w.fails("compress short.npz --lossless", 1, "the .npz file is damaged");
    let mut wrong = npz(&[("t", t)], zip::CompressionMethod::Stored);
    wrong[5000] ^= 1;
    w.write("wrong.npz", &wrong);
    w.fails("compress wrong.npz --lossless", 1, "the .npz file is damaged");
    // As NumPy writes it, without quotes around the list.
    let record =
        String::from_utf8_lossy(&npy("[('time', '<f8'), ('wind', '<f4', (2,))]", "False", "(3,)", &[0; 48])[10..])
            .replacen("'[", " [", 1)
            .replacen("]'", "] ", 1);
    w.write("r.npy", &[b"\x93NUMPY\x01\x00\x76\x00".as_slice(), record.as_bytes()].concat());
    w.fails(
        "compress r.npy --lossless",
        1,
        "r.npy: is a structured array with the fields time, wind: save one of them",
    );
    w.write("empty.npz", &npz(&[], zip::CompressionMethod::Stored));
    w.fails("compress empty.npz --lossless", 1, "has no arrays");
}

#[test]
fn many_axes_come_back() {
    let w = Workshop::new();
    let file = npy("<f4", "False", "(2, 3, 1, 5, 4, 50)", &field_f32(6000));
    w.write("x.npy", &file);
    w.ok("compress x.npy --lossless");
    w.ok("decompress x.npy.syn -o back.npy");
    assert_eq!(w.read("back.npy"), file);
    w.ok("compress x.npy --rel 1e-3 --force");
    w.ok("verify x.npy x.npy.syn --region 1,0:2");
}

#[test]
fn type_that_contradicts_the_name_prints_a_note() {
    let w = Workshop::new();
    w.write("x.f32", &field_f32(100));
    let said = |line: &str| String::from_utf8(w.run(line).stderr).unwrap();
    let text = said("compress x.f32 --dtype i32 --shape 100 --lossless");
    assert!(text.contains("warning: x.f32: the name says f32, but --dtype i32"), "{text}");
    let text = said("decompress x.f32.syn -o y.f64");
    assert!(text.contains("warning: y.f64: the name says f64, but the elements are of i32"), "{text}");
    assert!(!said("decompress x.f32.syn -o y.i32").contains("warning"));
}
