//! Prints what reading parts of a stream fetches from a store: requests one after another, ranges, and bytes.
//!
//! ```sh
//! cargo run --release --example requests -- FILE.f32 100x100x100 1e-3
//! ```

use std::ops::Range;

use syncline::{ArrayView, Bound, CompressOptions, ElementType, Error, Shape, SparseBytes, StreamFile, compress};

/// Bytes that are fetched from the start of a stream, and from its end if it has several chunks.
const END_BYTES: usize = 20 << 10;

/// Ranges of each round of requests.
type Rounds = Vec<Vec<Range<u64>>>;

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [path, extents, bound] = words.as_slice() else {
        return Err(Error::InvalidArgument("give a file of f32, extents such as 100x100, and a relative bound".into()));
    };
    let number = |word: &str| word.parse::<f64>().map_err(|error| Error::InvalidArgument(format!("{word}: {error}")));
    let extents: Vec<u64> = extents.split('x').map(|word| number(word).map(|n| n as u64)).collect::<Result<_, _>>()?;
    let bytes = std::fs::read(path)?;
    let view = ArrayView::from_bytes(&bytes, ElementType::F32, Shape::new(&extents)?)?;
    let stored = compress(&view, &CompressOptions::new(Bound::Rel(number(bound)?)))?;
    println!("{} elements, stream of {} bytes", view.shape().len(), stored.len());
    println!("| region | rounds | ranges | bytes | share of the stream |\n|---|---|---|---|---|");
    for (name, side) in [("point", 1), ("row", 0), ("8 along each axis", 8), ("64 along each axis", 64)] {
        let region: Vec<Range<u64>> = (extents.iter().enumerate())
            .map(|(axis, &extent)| match side {
                0 if axis + 1 == extents.len() => 0..extent,
                _ => {
                    let start = (extent / 2).saturating_sub(3);
                    start..(start + side.max(1)).min(extent)
                }
            })
            .collect();
        let rounds = fetch(&stored, &region)?;
        let ranges: usize = rounds.iter().map(Vec::len).sum();
        let fetched: u64 = rounds.iter().flatten().map(|range| range.end - range.start).sum();
        let share = 100.0 * fetched as f64 / stored.len() as f64;
        println!("| {name} | {} | {ranges} | {fetched} | {share:.1} % |", rounds.len());
    }
    Ok(())
}

/// Returns the requests for a region, as a store sees them.
fn fetch(stored: &[u8], region: &[Range<u64>]) -> Result<Rounds, Error> {
    let slice = |range: &Range<u64>| stored[range.start as usize..range.end as usize].to_vec();
    let end = stored.len() as u64;
    let head = 0..end.min(END_BYTES as u64);
    let mut rounds = vec![vec![head.clone()]];
    let bytes = match SparseBytes::from_head(slice(&head))? {
        Some(bytes) => bytes,
        None => {
            let tail = end.saturating_sub(END_BYTES as u64)..end;
            let bytes = SparseBytes::from_ends(slice(&head), slice(&tail))?;
            rounds.push(vec![tail]);
            bytes
        }
    };
    let mut stream = StreamFile::open(bytes)?;
    loop {
        let missing = stream.missing_ranges(region)?;
        if missing.is_empty() {
            return Ok(rounds);
        }
        missing.iter().for_each(|range| stream.source_mut().insert(range.start, slice(range)));
        rounds.push(missing);
    }
}
