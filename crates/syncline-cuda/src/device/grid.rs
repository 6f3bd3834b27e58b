//! The shape of a launch.

/// How many blocks and threads a launch has, and when it starts.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    pub(super) blocks: (u32, u32),
    pub(super) threads: u32,
    pub(super) shared_memory: u32,
    pub(super) early: bool,
    pub(super) cooperative: bool,
}

impl Grid {
    /// Returns a grid of `blocks` blocks of `threads` threads, which start after all earlier work on the stream.
    pub fn new(blocks: u32, threads: u32) -> Self {
        Self { blocks: (blocks, 1), threads, shared_memory: 0, early: false, cooperative: false }
    }

    /// Sets the number of rows of blocks (`gridDim.y`).
    #[must_use]
    pub fn rows(self, rows: u32) -> Self {
        Self { blocks: (self.blocks.0, rows), ..self }
    }

    /// Sets the bytes of dynamic shared memory of each block.
    #[must_use]
    pub fn shared_memory(self, bytes: u32) -> Self {
        Self { shared_memory: bytes, ..self }
    }

    /// Sets whether blocks may start before the previous kernel on the stream has ended, for a kernel that itself
    /// waits for it (`grid_dependency_wait` in device/sync.cuh), so that they can clear their shared memory meanwhile.
    /// On devices that do not support this (before sm_90), they start like any other.
    #[must_use]
    pub fn early(self, early: bool) -> Self {
        Self { early, ..self }
    }

    /// Makes all blocks run concurrently, or the launch fail.
    #[must_use]
    pub fn cooperative(self) -> Self {
        Self { cooperative: true, ..self }
    }
}
