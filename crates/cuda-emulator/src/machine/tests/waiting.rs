//! Tests of lanes, blocks and clusters that wait for each other.

use super::{HEAD_OF_KERNEL, Kernel, module, run, run_in, run_seeded};

/// Returns the head of a kernel in clusters of `blocks` blocks.
fn in_clusters_of(blocks: u32) -> String {
    format!(".visible .entry k(.param .u64 k_0) .explicitcluster .reqnctapercluster {blocks}, 1, 1")
}

/// Each block of a cluster of four writes a number to its shared memory and reads that of the opposite block, with
/// barriers of the cluster before and after.
const READS_ANOTHER_BLOCK: &str = "
        .shared .align 4 .b8 place[128];
        add.s32 %r3, %r0, 100;
        mov.u32 %r4, place;
        st.shared.u32 [%r4], %r3;
        barrier.cluster.arrive.release;
        barrier.cluster.wait.acquire;
        mov.u32 %r5, %cluster_ctarank;
        xor.b32 %r5, %r5, 3;
        mapa.shared::cluster.u32 %r6, %r4, %r5;
        ld.shared::cluster.u32 %r7, [%r6];
        st.global.u32 [%rd0], %r7;
        barrier.cluster.arrive.release;
        barrier.cluster.wait.acquire;";

#[test]
fn a_lane_may_wait_for_another_of_its_warp() {
    // Lane 0 polls memory for a value that lane 31 writes after the loop.
    let body = "
        setp.ne.u32 %p0, %t, 0;
        @%p0 bra $others;
        $wait:
        ld.volatile.global.u32 %r3, [%out+124];
        setp.eq.u32 %p1, %r3, 0;
        @%p1 bra $wait;
        st.global.u32 [%out], %r3;
        bra.uni $end;
        $others:
        st.global.u32 [%rd0], %t;
        $end:";
    assert_eq!(run(body, 1, 32, 32, 0).unwrap()[0], 31);
}

#[test]
fn diverged_lanes_reconverge_later() {
    // Each lane reads what its neighbor has written, with or without synchronization in between.
    let kernel = |wait: &str| {
        let body = format!(
            "
            .shared .align 4 .b8 place[128];
            mov.u32 %r4, place;
            mad.lo.u32 %r5, %t, 4, %r4;
            st.shared.u32 [%r5], %t;
            {wait}
            xor.b32 %r3, %t, 1;
            mad.lo.u32 %r5, %r3, 4, %r4;
            ld.shared.u32 %r6, [%r5];
            st.global.u32 [%rd0], %r6;"
        );
        module(HEAD_OF_KERNEL, &body).unwrap().kernel("k").unwrap().unwrap()
    };
    let right: Vec<u32> = (0..32).map(|lane| lane ^ 1).collect();
    let is_right = |kernel: &Kernel, seed| run_seeded(kernel, seed, [1; 3], [1, 32], 32, 0).unwrap() == right;
    let (waiting, not_waiting) = (kernel("bar.warp.sync 0xffffffff;"), kernel(""));
    assert!((0..20).all(|seed| is_right(&waiting, seed)));
    assert!(is_right(&not_waiting, 0), "the usual order does not show it");
    assert!((1..20).any(|seed| !is_right(&not_waiting, seed)));
}

#[test]
fn blocks_wait_for_those_before() {
    let body = "
        setp.eq.u32 %p0, %t, 0;
        @%p0 bra $write;
        $wait:
        ld.volatile.global.u32 %r3, [%rd0+-4];
        setp.eq.u32 %p1, %r3, 0;
        @%p1 bra $wait;
        $write:
        add.s32 %r4, %t, 1;
        st.volatile.global.u32 [%rd0], %r4;";
    assert_eq!(run(body, 500, 1, 500, 0).unwrap()[499], 500);
}

#[test]
fn a_block_meets_at_barriers() {
    let body = "
        .shared .align 4 .b8 place[512];
        shl.b32 %r3, %t, 2;
        mov.u32 %r4, place;
        add.s32 %r4, %r4, %r3;
        st.shared.u32 [%r4], %t;
        setp.lt.u32 %p0, %t, 5;
        bar.red.popc.u32 %r6, 0, %p0;
        xor.b32 %r3, %r3, 508;
        mov.u32 %r4, place;
        add.s32 %r4, %r4, %r3;
        ld.shared.u32 %r5, [%r4];
        setp.gt.u32 %p1, %t, 200;
        bar.red.or.pred %p2, 1, %p1;
        selp.u32 %r7, 1000, 0, %p2;
        mad.lo.s32 %r5, %r6, 10000, %r5;
        add.s32 %r5, %r5, %r7;
        st.global.u32 [%rd0], %r5;";
    let numbers = run(body, 1, 128, 128, 0).unwrap();
    assert!(numbers.iter().enumerate().all(|(place, number)| 50_000 + 127 - place as u32 == *number), "{numbers:?}");
}

#[test]
fn exited_threads_are_not_counted_at_barriers() {
    let body = "
        setp.ge.u32 %p0, %t, 40;
        @%p0 exit;
        bar.sync 0;
        setp.ge.u32 %p0, %t, 8;
        @%p0 exit;
        bar.warp.sync 0xffffffff;
        vote.sync.ballot.b32 %r3, %p0, 0xffffffff;
        st.global.u32 [%rd0], 9;";
    assert_eq!(run(body, 1, 64, 64, 1).unwrap().iter().filter(|number| **number == 9).count(), 8);
}

#[test]
fn a_warp_comes_to_an_aligned_barrier_by_one_instruction() {
    let apart = "
        setp.lt.u32 %p0, %t, 16;
        @%p0 bra $first;
        bar.sync 0;
        bra $end;
        $first:
        bar.sync 0;
        $end:
        st.global.u32 [%rd0], %t;";
    let error = run(apart, 1, 64, 64, 0).unwrap_err();
    assert!(error.contains("without others of 0xffffffff") && error.contains("warp 0"), "{error}");
    run(&apart.replace("bar.sync", "barrier.sync"), 1, 64, 64, 0).unwrap();
    assert!(run(&apart.replace("bar.sync", "barrier.sync.aligned"), 1, 64, 64, 0).is_err());
    // Exited threads are not waited for.
    run("setp.lt.u32 %p0, %t, 16;\n@%p0 exit;\nbar.sync 0;\nst.global.u32 [%rd0], %t;", 1, 64, 64, 0).unwrap();
}

#[test]
fn barrier_of_part_of_a_warp_is_an_error() {
    assert!(run("bar.sync 1, 40;", 1, 64, 64, 0).unwrap_err().contains("no warps"));
    let by_lane = "and.b32 %r3, %t, 1;\nbarrier.sync %r3;";
    assert!(run(by_lane, 1, 64, 64, 0).unwrap_err().contains("different barriers"));
}

#[test]
fn a_cluster_reads_its_other_blocks() {
    let numbers = run_in(&in_clusters_of(4), READS_ANOTHER_BLOCK, [4, 1, 1], 8, 1, 8, 0).unwrap();
    assert_eq!(numbers, [103, 102, 101, 100, 107, 106, 105, 104]);
}

#[test]
fn last_arrival_at_a_cluster_barrier_waits_at_the_next() {
    // Each block reads what another one has written, which does not change before the second barrier.
    let body = format!(
        "{READS_ANOTHER_BLOCK}
        st.shared.u32 [%r4], 0;
        barrier.cluster.arrive.release;
        barrier.cluster.wait.acquire;"
    );
    let numbers = run_in(&in_clusters_of(4), &body, [4, 1, 1], 8, 1, 8, 0).unwrap();
    assert_eq!(numbers, [103, 102, 101, 100, 107, 106, 105, 104]);
}

#[test]
fn exited_thread_does_not_arrive_for_others() {
    // One warp of block 0 arrives and exits; the other one writes later, after a loop.
    let body = "
        .shared .align 4 .b8 place[128];
        mov.u32 %r5, %cluster_ctarank;
        mov.u32 %r4, place;
        setp.eq.u32 %p0, %r5, 0;
        setp.ge.u32 %p1, %r2, 32;
        @!%p0 bra $arrive;
        @%p1 bra $early;
        mov.u32 %r3, 9000;
        $loop:
        sub.s32 %r3, %r3, 1;
        setp.ne.u32 %p2, %r3, 0;
        @%p2 bra $loop;
        st.shared.u32 [%r4], 7;
        bra.uni $arrive;
        $early:
        barrier.cluster.arrive.release;
        exit;
        $arrive:
        barrier.cluster.arrive.release;
        barrier.cluster.wait.acquire;
        @%p0 bra $end;
        mapa.shared::cluster.u32 %r6, %r4, 0;
        ld.shared::cluster.u32 %r7, [%r6];
        st.global.u32 [%rd0], %r7;
        $end:
        barrier.cluster.arrive.release;
        barrier.cluster.wait.acquire;";
    let numbers = run_in(&in_clusters_of(2), body, [2, 1, 1], 2, 64, 128, 1).unwrap();
    assert_eq!((&numbers[..64], &numbers[64..]), (&[1; 64][..], &[7; 64][..]));
}

#[test]
fn wrong_cluster_barrier_is_reported() {
    let outcome = |body| run_in(&in_clusters_of(2), body, [2, 1, 1], 2, 32, 64, 0);
    let twice = "barrier.cluster.arrive.release;\nbarrier.cluster.arrive.release;";
    assert!(outcome(twice).unwrap_err().contains("arrives twice"));
    assert!(outcome("barrier.cluster.wait.acquire;").unwrap_err().contains("without having arrived"));
    // Block 0 exits while block 1 still reads its memory.
    let ended = "
        .shared .align 4 .b8 place[128];
        mov.u32 %r5, %cluster_ctarank;
        setp.eq.u32 %p0, %r5, 0;
        @%p0 exit;
        mov.u32 %r4, place;
        mapa.shared::cluster.u32 %r6, %r4, 0;
        $again:
        ld.shared::cluster.u32 %r7, [%r6];
        bra.uni $again;";
    assert!(outcome(ended).unwrap_err().contains("where there is nothing"));
}

#[test]
fn deadlock_is_reported() {
    let body = "
        setp.eq.u32 %p0, %t, 3;
        @%p0 bra $end;
        bar.sync 1, 64;
        $end:
        bar.sync 1, 128;";
    let error = run(body, 1, 40, 40, 0).unwrap_err();
    assert!(error.contains("barrier 1 waits for"), "{error}");
    let error = run("bar.sync 1, 64;", 1, 32, 32, 0).unwrap_err();
    assert!(error.contains("wait for each other for ever"), "{error}");
}
