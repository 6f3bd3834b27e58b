//! Messages for the status of a chunk.

use crate::huffman::decode::status_text;

/// Status bits that parsing sets, as in `container/parse.cuh`, and their messages.
const PROBLEMS: [(u32, &str); 13] = [
    (1, "there is no chunk record at the position in the chunk table"),
    (STATUS_HASH, "its checksum does not match; other chunks may still be readable"),
    (2, "it is the record of another chunk"),
    (4, "its kind does not fit the stream's pipeline"),
    (8, "its sections do not fit its record"),
    (16, "a raw chunk has not the length of its elements"),
    (32, "its tile section does not fit the shape"),
    (64, "its section of tile bases is damaged"),
    (128, "a list of positions is not ascending, too long or outside the chunk"),
    (256, "its bitmaps do not fit its tiles"),
    (512, "its codes do not fit its tiles"),
    (STATUS_TOKENS, "the LZSS tokens of its codes are damaged"),
    (STATUS_TOKEN_STREAM, "the token stream of its codes is damaged"),
];
/// The hash differs. Kernels report this in a word of its own per chunk.
pub(crate) const STATUS_HASH: u32 = 1024;
/// The LZSS tokens are damaged. Set by the kernel that decodes tokens.
pub(crate) const STATUS_TOKENS: u32 = 2048;
/// The token stream is damaged. Set by the kernels that parse and decode it.
pub(crate) const STATUS_TOKEN_STREAM: u32 = 4096;

/// Returns the message for a chunk's word from [`RecordParser::finish`](super::RecordParser::finish), or `None` if the
/// chunk is valid.
pub fn chunk_status_text(status: u32) -> Option<String> {
    let parsing = PROBLEMS.iter().find(|(bit, _)| status & bit != 0).map(|(_, text)| (*text).to_owned());
    let stream = |shift: u32| status_text(status >> shift & 0xff).map(|text| format!("Huffman stream: {text}"));
    parsing.or_else(|| stream(16)).or_else(|| stream(24)).or_else(|| (status != 0).then(|| "damaged".to_owned()))
}
