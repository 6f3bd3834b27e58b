//! The stream around the chunks: header, chunk records, chunk table, trailer (`docs/FORMAT.md`).

mod bases;
mod checksum;
mod header;
mod pieces;
mod record;
mod sections;
mod sparse;
mod table;
mod tiles;

pub use bases::{read_bases, write_bases};
pub use header::{FORMAT_VERSION, HEADER_HASH_AT, HEADER_LEN, Header};
pub use pieces::{LONGEST_WITHOUT_PIECES, PIECE_LEN, Pieces, RECORD_HEAD_LEN};
pub use record::{
    ChunkKind, RECORD_HEADER_LEN, RECORD_MARKER, RecordBuilder, RecordChecksum, Unchecked, parse_record,
    parse_unchecked, record_header, record_kind, record_length,
};
pub use sections::{SECTIONS, SectionWriter, Sections};
pub use sparse::{SparseList, write_sparse};
pub use table::{ChunkTable, TRAILER_LEN, outline_of_end, read_outline, table_and_trailer};
pub use tiles::{INTERPOLATED, MAX_CLASSES, TileInfo, TileSection};
pub(crate) use tiles::{pack_aligned, unpack_aligned};

/// Every section, record and stream starts on a multiple of this many bytes.
pub const ALIGNMENT: usize = 16;
