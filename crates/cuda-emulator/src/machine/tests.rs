//! Tests with small kernels in the form that a compiler produces.

#![allow(unsafe_code)]

mod waiting;

use std::sync::Barrier;

use super::{Kernel, Launch, Module, Shape};
use crate::memory::Memory;

static MEMORY: Memory = Memory::new();

const SHAPE: Shape = Shape {
    capability: 90,
    multiprocessors: 2,
    threads: 2048,
    blocks: 32,
    shared_memory: 228 << 10,
    shared_memory_per_block: 227 << 10,
    seed: 0,
};

const HEAD_OF_KERNEL: &str = ".visible .entry k(.param .u64 k_0)";

const HEAD: &str = ".version 8.0\n.target sm_90\n.address_size 64\n";

/// Runs a kernel with `body`, in which `%out` is the address of `words` numbers that are `fill` at the start, and `%t`
/// the global number of the thread. Returns the numbers.
fn run(body: &str, blocks: u32, threads: u32, words: usize, fill: u32) -> Result<Vec<u32>, String> {
    run_in(HEAD_OF_KERNEL, body, [1; 3], blocks, threads, words, fill)
}

/// Runs kernel `entry` in clusters, with several orders of execution, and checks that they give the same result.
fn run_in(
    entry: &str,
    body: &str,
    cluster: [u32; 3],
    blocks: u32,
    threads: u32,
    words: usize,
    fill: u32,
) -> Result<Vec<u32>, String> {
    let module = module(entry, body)?;
    let kernel = module.kernel("k")?.ok_or("no kernel")?;
    let outcomes = [0, 1, 77].map(|seed| run_seeded(&kernel, seed, cluster, [blocks, threads], words, fill));
    let [first, others @ ..] = outcomes;
    assert!(others.iter().all(|other| other.as_ref().ok() == first.as_ref().ok()), "{first:?}, {others:?}");
    first
}

fn module(entry: &str, body: &str) -> Result<Module, String> {
    let text = format!(
        "{HEAD}{entry}\n{{\n.reg .pred %p<10>;\n.reg .b32 %r<20>;\n.reg .b32 %t;\n.reg .b64 %rd<10>;\n.reg .b64 %out;\n
        ld.param.u64 %out, [k_0];\ncvta.to.global.u64 %out, %out;\n
        mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %tid.x;\nmad.lo.s32 %t, %r0, %r1, %r2;\n
        mul.wide.u32 %rd0, %t, 4;\nadd.s64 %rd0, %out, %rd0;\n{body}\nret;\n}}\n"
    );
    Module::load(&text, &MEMORY)
}

/// Returns the result of a kernel with one order of execution.
fn run_seeded(
    kernel: &Kernel,
    seed: u64,
    cluster: [u32; 3],
    [blocks, threads]: [u32; 2],
    words: usize,
    fill: u32,
) -> Result<Vec<u32>, String> {
    let out = MEMORY.allocate(words * 4).ok_or("no memory")?;
    // SAFETY: the memory was allocated above and is released only below.
    let numbers = unsafe { std::slice::from_raw_parts_mut(out as *mut u32, words) };
    numbers.fill(fill);
    let parameters = out.to_ne_bytes().to_vec();
    let launch = Launch { grid: [blocks, 1, 1], block: [threads, 1, 1], cluster, shared_memory: 64, parameters };
    let outcome = kernel.run(&launch, &Shape { seed, ..SHAPE }, &MEMORY);
    let numbers = numbers.to_vec();
    MEMORY.release(out);
    outcome.map(|()| numbers)
}

#[test]
fn each_thread_writes_its_number() {
    let numbers = run("st.global.u32 [%rd0], %t;", 3, 70, 210, 7).unwrap();
    assert!(numbers.iter().enumerate().all(|(place, number)| place as u32 == *number));
}

#[test]
fn lanes_go_apart_and_come_together() {
    // Each lane runs as many iterations of a loop as its number, then the warp computes a sum.
    let body = "
        and.b32 %r3, %t, 31;
        mov.u32 %r4, 0;
        $loop:
        setp.eq.u32 %p0, %r3, 0;
        @%p0 bra $done;
        add.s32 %r4, %r4, 2;
        sub.s32 %r3, %r3, 1;
        bra.uni $loop;
        $done:
        redux.sync.add.u32 %r5, %r4, 0xffffffff;
        add.s32 %r5, %r5, %r4;
        st.global.u32 [%rd0], %r5;";
    let numbers = run(body, 1, 64, 64, 0).unwrap();
    assert!(
        numbers.iter().enumerate().all(|(place, number)| 31 * 32 + 2 * (place as u32 % 32) == *number),
        "{numbers:?}"
    );
}

#[test]
fn functions_are_called_and_call_themselves() {
    let entry = "
        .func (.param .b32 back) sum(.param .b32 number)
        {
        .reg .pred %p<2>; .reg .b32 %r<6>;
        ld.param.u32 %r0, [number];
        setp.eq.u32 %p0, %r0, 0;
        mov.u32 %r3, 0;
        @%p0 bra $end;
        sub.s32 %r1, %r0, 1;
        { .param .b32 given; .param .b32 got;
        st.param.b32 [given+0], %r1;
        call.uni (got), sum, (given);
        ld.param.b32 %r2, [got+0]; }
        add.s32 %r3, %r2, %r0;
        $end:
        st.param.b32 [back+0], %r3;
        ret;
        }
        .visible .entry k(.param .u64 k_0)";
    let body = "
        { .param .b32 given; .param .b32 got;
        st.param.b32 [given+0], %t;
        call.uni (got), sum, (given);
        ld.param.b32 %r5, [got+0]; }
        st.global.u32 [%rd0], %r5;";
    assert_eq!(run_in(entry, body, [1; 3], 1, 5, 5, 0).unwrap(), [0, 1, 3, 6, 10]);
    // The call depth exceeds the limit of inlining.
    let error = run_in(entry, body, [1; 3], 1, 50, 50, 0).unwrap_err();
    assert!(error.contains("a trap"), "{error}");
}

#[test]
fn numbers_of_64_bits_by_carrying() {
    let body = "
        mov.u32 %r3, 0xffffffff;
        mad.lo.cc.u32 %r4, %r3, %r3, %r3;
        madc.hi.u32 %r5, %r3, %r3, 1;
        mov.b64 %rd1, {%r4, %r5};
        st.global.u64 [%out], %rd1;";
    // (2^32 - 1)^2 + (2^32 - 1) + 2^32.
    assert_eq!(run(body, 1, 1, 2, 0).unwrap(), [0, 0]);
    // Instructions for the high part do not change the carry flag, whether it is 0 or 1.
    let kept = |low: &str, high: &str| {
        let body = format!(
            "mov.u32 %r3, -1;\nmad.lo.cc.u32 %r4, {low};\nmadc.hi.u32 %r5, {high};\nmadc.hi.u32 %r5, 0, 0, 0;\n\
             st.global.u32 [%out], %r5;"
        );
        run(&body, 1, 1, 1, 7).unwrap()
    };
    assert_eq!(kept("0, 0, 0", "%r3, %r3, 9"), [0]);
    assert_eq!(kept("%r3, %r3, %r3", "0, 0, 0"), [1]);
    let wide = "mov.u32 %r3, 5;\nmad.wide.s32 %rd3, %r3, 2, -11;\nst.global.u64 [%out], %rd3;";
    assert_eq!(run(wide, 1, 1, 2, 0).unwrap(), [u32::MAX; 2]);
}

#[test]
fn loads_fill_their_registers() {
    let cases = [
        ("ld.global.s8 %r3, [%out];\ncvt.u64.u32 %rd3, %r3;", 0xFFFF_FF80),
        ("ld.global.u8 %r3, [%out];\ncvt.u64.u32 %rd3, %r3;", 0x80),
        ("ld.global.s8 %rd3, [%out];", 0xFFFF_FFFF_FFFF_FF80),
        ("ld.global.s16 %rd3, [%out];", 0xFFFF_FFFF_FFFF_8080),
        ("ld.global.s32 %rd3, [%out];", 0xFFFF_FFFF_FFFF_8080),
        ("ld.global.u32 %rd3, [%out];", 0xFFFF_8080),
        // The operands are equal in their low 16 bits, and their registers are equal.
        (
            ".reg .b16 %h<2>;\nld.global.s16 %h0, [%out];\nld.global.u16 %h1, [%out];\n\
             setp.eq.b16 %p0, %h0, %h1;\nselp.u64 %rd3, 1, 0, %p0;",
            1,
        ),
        (".reg .b16 %h;\nld.global.s8 %h, [%out];\ncvt.u64.u16 %rd3, %h;", 0xFF80),
    ];
    for (body, expected) in cases {
        let words = run(&format!("{body}\nst.global.u64 [%out], %rd3;"), 1, 1, 2, 0xFFFF_8080).unwrap();
        assert_eq!(u64::from(words[1]) << 32 | u64::from(words[0]), expected, "{body}");
    }
    let error = run("ld.global.v2.s8 {%r3, %rd3}, [%out];", 1, 1, 1, 0).unwrap_err();
    assert!(error.contains("several widths"), "{error}");
}

#[test]
fn asynchronous_copies_are_complete_after_their_wait() {
    let copied = |wait: &str| {
        let body = format!(
            "
            .shared .align 16 .b8 room[128];
            mov.u32 %r3, room;
            mad.lo.u32 %r3, %t, 4, %r3;
            cp.async.ca.shared.global [%r3], [%rd0], 4;
            {wait}
            ld.shared.u32 %r5, [%r3];
            st.global.u32 [%rd0], %r5;"
        );
        run(&body, 1, 32, 32, 7).unwrap()
    };
    assert_eq!(copied("cp.async.wait_all;"), [7; 32]);
    assert_eq!(copied("cp.async.commit_group; cp.async.wait_group 0;"), [7; 32]);
    assert_eq!(copied("cp.async.commit_group; cp.async.wait_group 1;"), [0xA5A5_A5A5; 32]);
    assert_eq!(copied("cp.async.wait_group 0;"), [0xA5A5_A5A5; 32], "it is in no group");
    assert_eq!(copied(""), [0xA5A5_A5A5; 32]);
}

#[test]
fn bulk_copy_source_stays_until_it_was_read() {
    let copied = |wait: &str| {
        let body = format!(
            "
            .shared .align 16 .b8 room[16];
            mov.u32 %r3, room;
            mov.u32 %r4, 5;
            st.shared.v4.u32 [%r3], {{%r4, %r4, %r4, %r4}};
            cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 16;
            cp.async.bulk.commit_group;
            {wait}
            st.shared.u32 [%r3+4], 9;"
        );
        run(&body, 1, 1, 4, 7).unwrap()
    };
    assert_eq!(copied("cp.async.bulk.wait_group.read 0;"), [5; 4]);
    assert_eq!(copied(""), [5, 9, 5, 5], "at its end it is done all the same");
}

#[test]
fn kernels_of_several_threads_change_memory_at_once() {
    let entry = format!(".global .align 4 .u32 sum;\n{HEAD_OF_KERNEL}");
    let body = "
        mov.u32 %r4, 0;
        $again:
        atom.global.add.u32 %r3, [sum], 1;
        add.s32 %r4, %r4, 1;
        setp.lt.u32 %p0, %r4, 20000;
        @%p0 bra $again;
        st.global.u32 [%rd0], %r3;";
    let module = module(&entry, body).unwrap();
    let kernel = module.kernel("k").unwrap().unwrap();
    let start = Barrier::new(2);
    let last = || {
        start.wait();
        run_seeded(&kernel, 0, [1; 3], [1, 32], 32, 0).unwrap().into_iter().max().unwrap()
    };
    let latest = std::thread::scope(|scope| {
        let other = scope.spawn(last);
        last().max(other.join().unwrap())
    });
    assert_eq!(latest, 2 * 32 * 20_000 - 1);
}

#[test]
fn access_out_of_bounds_is_reported() {
    let cases = [
        ("st.global.u32 [%rd0+40], %t;", "where there is nothing"),
        ("st.global.u32 [%out+-4], %t;", "where there is nothing"),
        ("ld.global.u32 %r3, [%out+2];", "not aligned"),
        ("ld.global.v2.u32 {%r3, %r4}, [%out+4];", "not aligned"),
        ("ld.shared.u32 %r3, [64];", "where there is nothing"),
        ("mov.u64 %rd1, 0;\nld.u32 %r3, [%rd1];", "where there is nothing"),
        ("bar.sync 16;", "no barrier 16"),
        ("discard.global.L2 [%out+4], 128;", "no line"),
        ("mov.u32 %r3, 0;\ncp.async.ca.shared.global [%r3], [%out], 12;", "which no copy can"),
        ("mov.u32 %r3, 4;\ncp.async.ca.shared.global [%r3], [%out], 8;", "not aligned"),
        ("mov.u32 %r3, 0;\ncp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 24;", "which no copy can"),
        ("mov.u32 %r3, 8;\ncp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 32;", "not aligned"),
    ];
    for (body, expected) in cases {
        let error = run(body, 1, 1, 10, 0).unwrap_err();
        assert!(error.contains(expected) && error.contains("block (0, 0, 0)"), "{body}: {error}");
    }
}

#[test]
fn unknown_instruction_is_named() {
    let error = run("frobnicate.u32 %r3, %r4;", 1, 1, 1, 0).unwrap_err();
    assert!(error.contains("frobnicate.u32"), "{error}");
    let error = run("mov.u32 %r3, %envreg3;", 1, 1, 1, 0).unwrap_err();
    assert!(error.contains("envreg3"), "{error}");
    let eight = "ld.global.v8.b32 {%r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10}, [%out];";
    for (body, expected) in [
        (eight.to_owned(), "more than 4 values"),
        (
            eight.replace("ld.global.v8.b32 {", "st.global.v8.b32 [%out], {").replace("}, [%out]", "}"),
            "more than 4 values",
        ),
        ("mapa.u64 %rd3, %rd4, 0;".to_owned(), "no such instruction"),
    ] {
        let error = run(&body, 1, 1, 1, 0).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
