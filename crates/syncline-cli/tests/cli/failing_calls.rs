//! What the program does when the system reports only at the end that a file could not be written, as network file
//! systems and quotas do. A filter of system calls stands for them.

#![allow(unsafe_code, reason = "the filter is set between fork and exec")]

use std::io;
use std::os::unix::process::CommandExt;

use super::*;

/// Makes a command see the error EIO from each of these system calls whose first argument is at least `least`.
fn failing(mut command: Command, calls: &'static [i64], least: u32) -> Output {
    let set = move || {
        let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
        // The places of the number of the call, and of the lower half of its first argument.
        let load = |place: u32| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, place);
        let end = |what: u32| step(libc::BPF_RET | libc::BPF_K, 0, 0, what);
        let mut filter = vec![load(16), step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, 0, least)];
        filter.extend([end(libc::SECCOMP_RET_ALLOW), load(0)]);
        for &call in calls {
            filter.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32));
            filter.push(end(libc::SECCOMP_RET_ERRNO | libc::EIO as u32));
        }
        filter.push(end(libc::SECCOMP_RET_ALLOW));
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: `program` describes `filter`, and both live during the call.
        let set = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
        };
        if set { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: the closure makes system calls and allocates, and the allocator of the C library is usable after a fork.
    unsafe { command.pre_exec(set) };
    command.output().unwrap()
}

fn without_sync(w: &Workshop, line: &str) -> Output {
    failing(w.command(line), &[libc::SYS_fsync, libc::SYS_fdatasync], 0)
}

#[test]
fn input_stays_when_the_output_cannot_reach_the_disk() {
    let w = Workshop::new();
    let bytes = field_f32(1000);
    w.write("x.f32", &bytes);
    w.ok("compress x.f32 --shape 1000 --abs 1e-3 -o y.f32.syn");
    for (line, input) in [
        ("compress x.f32 --shape 1000 --abs 1e-3 --rm", "x.f32"),
        ("decompress y.f32.syn --rm", "y.f32.syn"),
        ("-q decompress y.f32.syn --rm -o y.npz", "y.f32.syn"),
    ] {
        let kept = w.read(input);
        failed(line, &without_sync(&w, line), 1, "could not be written to the end");
        assert_eq!((w.names(), w.read(input)), (vec!["x.f32".into(), "y.f32.syn".into()], kept), "{line}");
    }
    // What is not the only copy may be written back later.
    let line = "compress x.f32 --shape 1000 --abs 1e-3";
    succeeded(line, without_sync(&w, line));
    // A file that is replaced would be lost, too.
    let (line, before) = ("compress x.f32 --shape 1000 --abs 1 --force", w.read("x.f32.syn"));
    failed(line, &without_sync(&w, line), 1, "x.f32.syn: could not be written to the end");
    assert_eq!(w.read("x.f32.syn"), before);
}

#[test]
fn error_of_closing_an_output_fails_the_command() {
    let w = Workshop::new();
    w.write("x.f32", &field_f32(1000));
    w.ok("compress x.f32 --shape 1000 --abs 1e-3 -o y.syn");
    let names = w.names();
    for line in
        ["decompress y.syn -o z.npy", "decompress y.syn --rm", "decompress y.syn -c", "decompress y.syn -o /dev/null"]
    {
        // The loader of programs closes files that it opens as number 3. The input of the program is 3, the output 4.
        let output = failing(w.command(line), &[libc::SYS_close], 4);
        failed(line, &output, 1, "Input/output error");
        assert_eq!(w.names(), names, "{line}");
    }
}
