use super::*;

#[test]
fn contradicting_options_are_errors() {
    let w = Workshop::new();
    w.write("x.f32", &field_f32(100));
    for (line, text) in [
        ("frobnicate", "'frobnicate' (see 'syncline --help')"),
        ("demo --outptu d", "found; a similar argument exists: '--output' (see 'syncline demo --help')"),
        ("-q compress --no", "(see 'syncline compress --help')"),
        ("--no", "(see 'syncline --help')"),
        ("compress", "<IN>..."),
        ("compress x.f32 --shape 100", "the bound is missing: add one, such as --rel 1e-3"),
        ("convert x.h5 y.h5", "the bound is missing: add one, such as --rel 1e-3"),
        ("compress x.f32 --shape 100 --abs 1 --rel 1", "cannot be used with"),
        ("compress x.f32 --shape 100 --abs 0", "use --lossless"),
        ("compress x.f32 --shape 100 --abs nan", "a finite number above 0"),
        ("compress x.f32 --shape 100 --abs -1", "a finite number above 0"),
        ("compress x.f32 --shape 100 --rel -inf", "a finite number above 0"),
        ("compress x.f32 --shape 100 --psnr 1e400", "to 1.7e308"),
        ("compress x.f32 --shape 100 --pw-rel 1e-400", "(5e-324"),
        ("compress x.f32 --shape 100 --pw-rel 1.5", "below 1"),
        ("compress x.f32 --shape ten --abs 1", "is not a shape"),
        ("compress x.f32 --shape 100 --abs 1 --dtype f128", "f128"),
        ("compress x.f32 --shape 100 --abs 1 --advanced index=best", "index=symbol|none"),
        ("compress x.f32 --shape 100 --abs 1 --fill land", "--fill"),
        ("compress x.f32 --shape 100 --abs 1 --fill -land", "--fill"),
        ("compress x.f32 --shape 100 --abs 1 --threads many", "--threads"),
        ("compress x.f32 --shape 100 --abs 1 --threads -1", "0 for one per core"),
        ("compress x.f32 --shape 100 --abs 1 --memory-limit lots", "--memory-limit"),
        ("compress x.f32 --shape 100 --abs 1 --memory-limit -2G", "a size in bytes"),
        ("compress x.f32 --shape 100 --abs 1 --advanced level=0", "level=1-9"),
        ("compress x.f32 --shape 100 --abs 1 --advanced level=-1", "level=1-9"),
        ("compress x.f32 --shape 100 --abs 1 --advanced symbol=3", "symbol=auto|1|2|4|8"),
        ("compress x.f32 --shape 100 --abs 1 --advanced level", "unknown advanced option level: use coder=auto|"),
        ("compress x.f32 --shape 100 --abs 1 -1 --effort best", "--effort"),
        ("compress x.f32 --shape 100 --abs 1 -q -v", "cannot be used with"),
        ("decompress x.f32", "-o"),
        ("decompress x.syn --region -5: -o y", "counting from the end is not supported"),
        ("decompress x.syn --region 0:1", "name an output file for the region with -o"),
    ] {
        w.fails(line, 2, text);
    }
    w.fails(&format!("compress x.f32 --shape {}100 --abs 1", "1x".repeat(32)), 2, "dimensions");
}

#[test]
fn shape_and_type() {
    let w = Workshop::new();
    w.write("x_10x20.f32", &field_f32(200));
    w.write("x", &field_f32(200));
    w.fails("compress x_10x20.f32 --abs 1", 2, "name suggests --shape 10x20");
    w.fails("compress x_10x20.f32 --abs 1 --shape 10x21", 2, "name suggests --shape 10x20");
    w.fails("compress x --abs 1 --dtype f32", 2, "200 elements");
    w.fails("compress x --abs 1 --dtype f32 --shape 199", 2, "takes 796 bytes, but the file has 800");
    let text = "takes 4,611,686,018,427,387,904 bytes, but the file has 800";
    w.fails("compress x --abs 1 --dtype f32 --shape 1152921504606846976", 2, text);
    w.fails("compress x --abs 1 --shape 200", 2, "x: the name does not contain the element type: add --dtype, such as");
    w.fails("compress x --abs 1", 2, "add --dtype and --shape");
    w.fails("compress - --abs 1", 2, "stdin: the element type is missing: add --dtype and --shape");
    w.ok("compress x --abs 1 --shape 10,20 --dtype float32");
    w.ok("compress x --abs 1 --dims 10x20 --dtype f32 --force");
}

#[test]
fn files_that_are_missing_or_in_the_way() {
    let w = Workshop::new();
    w.write("x.f32", &field_f32(100));
    for line in ["compress no.f32 --shape 1 --abs 1", "decompress no.syn", "inspect no.syn", "verify no.f32 no.syn"] {
        w.fails(line, 1, "no such file or directory");
    }
    w.fails("compress x.f32 --shape 100 --abs 1 -o no/x.syn", 1, "no/x.syn: the folder no does not exist: create it");
    w.fails("inspect .", 1, "is a directory");
    w.fails("compress x.f32 --shape 100 --abs 1 -o .", 2, "is a directory");
    w.fails("compress x.f32 --shape 100 --abs 1 -o x.f32 --force", 2, "is the input");
    w.write("x.f32.syn", b"precious");
    w.fails("compress x.f32 --shape 100 --abs 1", 2, "--force");
    assert_eq!(w.read("x.f32.syn"), b"precious");
    w.ok("compress x.f32 --shape 100 --abs 1 --force");
    for force in ["", " --force"] {
        let original = w.read("x.f32");
        w.fails(&format!("decompress x.f32.syn{force}"), 2, "x.f32: exists already and may be the original");
        assert!(w.read("x.f32") == original, "a lossy array must not replace its original");
    }
    w.ok("decompress x.f32.syn -o x.f32 --force");
    w.fails("decompress x.f32 -o y", 1, "not a Syncline stream");
}

#[test]
fn damaged_streams_leave_no_output() {
    let w = Workshop::new();
    w.write("x.f32", &field_f32(60_000));
    w.ok("compress x.f32 --shape 30x40x50 --abs 1e-3 -o good.syn");
    let good = w.read("good.syn");
    let damaged = |place: usize| {
        let mut bytes = good.clone();
        bytes[place] ^= 0x10;
        w.write("bad.syn", &bytes);
    };
    for place in [3, 20, 200, good.len() / 2, good.len() - 40, good.len() - 3] {
        damaged(place);
        w.fails("decompress bad.syn -o y", 1, "bad.syn");
        w.fails("verify x.f32 bad.syn", 1, "bad.syn");
    }
    damaged(8);
    w.fails("decompress bad.syn -o y", 1, "update Syncline");
    for length in [0, 7, 100, good.len() / 2, good.len() - 1] {
        w.write("bad.syn", &good[..length]);
        for line in ["decompress bad.syn -o y", "inspect bad.syn", "verify x.f32 bad.syn"] {
            w.fails(line, 1, "bad.syn");
        }
    }
    // An output that was there survives the failure.
    w.write("y", b"precious");
    w.fails("decompress bad.syn -o y --force", 1, "bad.syn");
    assert_eq!(w.read("y"), b"precious");
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn output_has_usual_permissions_and_follows_links() {
        let w = Workshop::new();
        w.write("x.f32", &field_f32(100));
        w.ok("compress x.f32 --shape 100 --abs 1");
        let mode = |name: &str| std::fs::metadata(w.path(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode("x.f32.syn"), mode("x.f32"));
        symlink("x.f32.syn", w.path("link.syn")).unwrap();
        w.fails("compress x.f32 --shape 100 --abs 1 -o link.syn", 2, "--force");
        w.ok("compress x.f32 --shape 100 --abs 2 -o link.syn --force");
        assert!(std::fs::symlink_metadata(w.path("link.syn")).unwrap().is_symlink());
        assert_eq!(w.read("link.syn"), w.read("x.f32.syn"));
    }

    #[test]
    fn a_replaced_file_keeps_its_permissions() {
        let w = Workshop::new();
        w.write("x.f32", &field_f32(100));
        for mode in [0o600, 0o444, 0o666] {
            w.write("y.syn", b"old");
            let path = w.path("y.syn");
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            w.ok("compress x.f32 --shape 100 --abs 1 -o y.syn --force");
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode);
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_new_file_is_as_old_and_as_open_as_its_input() {
        let w = Workshop::new();
        let input = w.write("x.f32", &field_f32(100));
        std::fs::set_permissions(&input, PermissionsExt::from_mode(0o640)).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        std::fs::File::options().write(true).open(&input).unwrap().set_modified(time).unwrap();
        w.ok("compress x.f32 --shape 100 --abs 1");
        w.ok("decompress x.f32.syn -o y");
        for name in ["x.f32.syn", "y"] {
            let metadata = std::fs::metadata(w.path(name)).unwrap();
            assert_eq!((metadata.permissions().mode() & 0o7777, metadata.modified().unwrap()), (0o640, time), "{name}");
        }
    }

    #[test]
    fn names_of_stdout_and_pipes_of_a_shell() {
        let w = Workshop::new();
        w.write("x.f32", &field_f32(100));
        w.ok("compress x.f32 --shape 100 --abs 1");
        let expected = w.read("x.f32.syn");
        let program = env!("CARGO_BIN_EXE_syncline");
        let line = format!("{program} -q compress x.f32 --shape 100 --abs 1 -o");
        assert_eq!(w.ok("compress x.f32 --shape 100 --abs 1 -o /dev/stdout"), expected);
        let mut scripts = vec![format!("{line} /dev/stdout > redirected")];
        if Path::new("/bin/bash").exists() {
            scripts.push(format!("{line} >(cat > redirected; touch done); while ! [ -e done ]; do sleep 0.01; done"));
        }
        for script in scripts {
            let shell = if script.contains(">(") { "bash" } else { "sh" };
            let status = Command::new(shell).args(["-c", &script]).current_dir(w.0.path()).status().unwrap();
            assert!(status.success() && w.read("redirected") == expected, "{script}");
        }
    }

    #[test]
    fn outputs_below_files_and_dangling_links_are_errors() {
        let w = Workshop::new();
        w.write("x.f32", &field_f32(100));
        w.fails("compress x.f32 --shape 100 --abs 1 -o x.f32/y.syn", 1, "x.f32 is not a folder");
        symlink("nowhere", w.path("link.syn")).unwrap();
        for force in ["", "--force"] {
            let line = format!("compress x.f32 --shape 100 --abs 1 -o link.syn {force}");
            w.fails(&line, 2, "link.syn: is a link that leads nowhere");
        }
    }

    #[test]
    fn control_characters_in_names_are_escaped() {
        let w = Workshop::new();
        w.write("\x1b[2J.f32", &field_f32(100));
        w.fails("inspect no\x1b[2J.syn", 1, "no\\u{1b}[2J.syn: no such file");
        let output = w.run("compress \x1b[2J.f32 --shape 100 --abs 1");
        let said = [output.stderr, w.ok("inspect \x1b[2J.f32.syn"), w.ok("inspect \x1b[2J.f32.syn --json")].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("\\u{1b}[2J.f32 -> ") && !said.contains('\x1b'), "{said}");
    }

    #[test]
    fn devices_are_written_not_replaced() {
        let w = Workshop::new();
        w.write("x.f32", &field_f32(100));
        w.ok("compress x.f32 --shape 100 --abs 1 -o /dev/null");
        w.ok("compress x.f32 --shape 100 --abs 1");
        w.ok("decompress x.f32.syn -o /dev/null");
        if Path::new("/dev/full").exists() {
            w.fails("compress x.f32 --shape 100 --abs 1 -o /dev/full", 1, "no space left");
            w.fails("decompress x.f32.syn -o /dev/full", 1, "no space left");
        }
    }
}

/// An input that another program still writes would make a stream of two states.
#[cfg(unix)]
#[test]
fn an_input_that_changes_is_an_error() {
    use std::io::Read;
    let w = Workshop::new();
    // It does not become smaller, so that the stream fills the pipe.
    let noise: Vec<u8> = (0..4_000_000u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8).collect();
    for change in ["append", "shorten"] {
        let path = w.write("x.u8", &noise);
        let mut child = w
            .command("compress x.u8 --shape 4000000 --lossless -c -T1")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 1000]).unwrap();
        let file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        match change {
            "append" => (&file).write_all(b"more").unwrap(),
            _ => file.set_len(1000).unwrap(),
        }
        stdout.read_to_end(&mut Vec::new()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = if change == "append" { "was changed while it was read" } else { "while it was read" };
        failed(change, &output, 1, text);
    }
}

#[test]
fn convert_keeps_the_kind_of_container() {
    let w = Workshop::new();
    w.fails("convert a.zarr b.nc --abs 1", 2, "b.nc: is the name of an HDF5 file");
    w.fails("convert a.nc b.zarr --abs 1", 2, "b.zarr: is the name of a Zarr store, and a.nc is none");
    if cfg!(not(feature = "zarr")) {
        w.fails("convert a.zarr b.zarr --abs 1", 1, "a.zarr: this build has no support for Zarr");
    }
}
