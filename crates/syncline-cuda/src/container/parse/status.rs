//! Messages for the problems of a chunk.

/// Bits that kernels set, as in `kernels/container/parse.cuh` and `kernels/container/parsed.cuh`, and their messages.
const PROBLEMS: [(u32, &str); 15] = [
    (1, "there is no chunk record at the position in the chunk table"),
    (PROBLEM_HASH, "its checksum does not match; other chunks may still be readable"),
    (2, "it is the record of another chunk"),
    (4, "its kind does not fit the stream's pipeline"),
    (8, "its sections do not fit its record"),
    (16, "a raw chunk has not the length of its elements"),
    (32, "its tile section is damaged"),
    (64, "its section of tile bases is damaged"),
    (128, "a list of positions is not ascending, too long or outside the chunk"),
    (256, "its section of codes is damaged"),
    (512, "a strip has codewords that it cannot have"),
    (2048, "unknown prediction of blocks, or damaged tables"),
    (4096, "sizes of units are damaged"),
    (8192, "anchors are damaged"),
    (16384, "a block is damaged"),
];
/// The hash differs. Kernels report this in a word of its own per chunk.
pub(crate) const PROBLEM_HASH: u32 = 1024;

/// Returns the message for the problems of a chunk, or `None` if it is valid.
pub fn problem_text(problems: u32) -> Option<&'static str> {
    PROBLEMS.iter().find(|(bit, _)| problems & bit != 0).map(|(_, text)| *text)
}
