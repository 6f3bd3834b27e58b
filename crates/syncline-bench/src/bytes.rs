//! Generators of bytes: text, geometric symbols, and streams on which Huffman decoders never synchronize.

use rayon::prelude::*;

use crate::random::Stream;

/// Number of bytes that are generated from one seed; blocks are independent of each other.
const BLOCK: usize = 1 << 16;

/// Number of words in the artificial vocabulary of [`text`].
const VOCABULARY: usize = 20_000;

/// Returns text-like bytes: artificial words with frequencies according to Zipf's law, in sentences and paragraphs.
pub fn text(count: usize, seed: u64) -> Vec<u8> {
    let vocabulary: Vec<String> = (0..VOCABULARY).map(|w| word(Stream::new(seed).split(w as u64))).collect();
    let weights = (0..VOCABULARY).scan(0.0, |sum, rank| {
        *sum += 1.0 / (rank as f64 + 2.7);
        Some(*sum)
    });
    let cumulative: Vec<f64> = weights.collect();
    blocks(count, seed ^ 0x7465_7874, |stream, out| {
        let mut written = 0;
        let mut capital = true;
        for index in 0u64.. {
            let point = stream.uniform(2 * index) * cumulative[VOCABULARY - 1];
            let rank = cumulative.partition_point(|&c| c < point).min(VOCABULARY - 1);
            let ending = match stream.below(2 * index + 1, 100) {
                0..6 => ". ",
                6 => ".\n\n",
                7..15 => ", ",
                15..24 => "\n",
                _ => " ",
            };
            let bytes = vocabulary[rank].bytes().chain(ending.bytes());
            for (i, byte) in bytes.enumerate() {
                let Some(slot) = out.get_mut(written) else { return };
                *slot = if i == 0 && capital { byte.to_ascii_uppercase() } else { byte };
                written += 1;
            }
            capital = ending.starts_with('.');
        }
    })
}

/// Returns a word of one to four syllables of a consonant, a vowel and sometimes a closing consonant; common letters
/// are more likely.
fn word(stream: Stream) -> String {
    let pick = |letters: &str, index: u64| {
        // The minimum of two random numbers prefers the start of the list.
        let n = letters.len() as u64;
        let at = stream.below(2 * index, n).min(stream.below(2 * index + 1, n));
        letters.as_bytes()[at as usize] as char
    };
    let mut word = String::new();
    for syllable in 0..1 + stream.below(100, 4) {
        word.push(pick("tnshrdlcmwfgypbvkjxqz", 3 * syllable));
        word.push(pick("eaoiu", 3 * syllable + 1));
        if stream.bits(200 + syllable) & 1 == 0 {
            word.push(pick("nrstldmc", 3 * syllable + 2));
        }
    }
    word
}

/// Returns symbols 0, 1, 2, … whose probabilities fall by the factor `ratio`, limited to 255.
///
/// # Panics
/// Panics if `ratio` is not between 0 and 1.
pub fn geometric(count: usize, ratio: f64, seed: u64) -> Vec<u8> {
    assert!(ratio > 0.0 && ratio < 1.0, "a ratio between 0 and 1, not {ratio}");
    let scale = 1.0 / ratio.ln();
    blocks(count, seed, |stream, out| {
        for (i, byte) in out.iter_mut().enumerate() {
            // The conversion of a float to an integer saturates.
            *byte = ((1.0 - stream.uniform(i as u64)).ln() * scale) as u8;
        }
    })
}

/// Returns eight equally frequent symbols, so that every codeword has 3 bits. A decoder that starts at a multiple of 32
/// or 128 bits is inside a codeword in two of three cases and never synchronizes. The count is rounded down to a
/// multiple of 8.
pub fn never_synchronizing_flat(count: usize) -> Vec<u8> {
    // Each block has the same number of every symbol, and therefore the whole stream does, too.
    blocks(count / 8 * 8, 77, |stream, out| {
        out.iter_mut().enumerate().for_each(|(i, b)| *b = (i % 8) as u8);
        stream.shuffle(out);
    })
}

/// Returns a stream with several codeword lengths on which decoders never synchronize. The frequencies give symbols 0,
/// 1, 2 codewords of 2 bits (00, 01, 10) and symbols 3, 4 codewords of 3 bits (110, 111). The start of the stream takes
/// 27 bits, an odd number. Then 2, 1, 0 repeats endlessly as 100100..., with every codeword at an odd bit. A decoder
/// that starts at an even bit reads valid codewords endlessly, all of them off by one bit.
pub fn never_synchronizing_cycle(count: usize) -> Vec<u8> {
    const HEAD: [u8; 11] = [3, 3, 3, 4, 4, 1, 1, 0, 0, 0, 0];
    let cycle = (0..count).map(|i| 2 - (i % 3) as u8);
    HEAD.into_iter().chain(cycle.skip(HEAD.len())).take(count).collect()
}

fn blocks(count: usize, seed: u64, fill: impl Fn(Stream, &mut [u8]) + Sync) -> Vec<u8> {
    let mut bytes = vec![0u8; count];
    let stream = Stream::new(seed);
    bytes.par_chunks_mut(BLOCK).enumerate().for_each(|(i, block)| fill(stream.split(i as u64), block));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{histogram, huffman_bits};

    fn counts(bytes: &[u8]) -> Vec<u64> {
        histogram(&bytes.iter().map(|&b| u16::from(b)).collect::<Vec<_>>())
    }

    #[test]
    fn text_has_the_letters_spaces_and_entropy_of_text() {
        let bytes = text(300_000, 1);
        assert!(bytes.iter().all(|b| b.is_ascii_alphabetic() || b" .,\n".contains(b)));
        let bits = huffman_bits(&counts(&bytes));
        assert!((3.9..4.9).contains(&bits), "{bits} bits a byte");
        let spaces = counts(&bytes)[b' ' as usize] as f64 / bytes.len() as f64;
        assert!((0.1..0.25).contains(&spaces), "{spaces} spaces");
    }

    #[test]
    fn geometric_bytes_have_the_entropy_of_their_ratio() {
        for ratio in [0.3, 0.8, 0.955] {
            let bytes = geometric(400_000, ratio, 61);
            let zeros = counts(&bytes)[0] as f64 / bytes.len() as f64;
            assert!((zeros - (1.0 - ratio)).abs() < 0.005, "{ratio}: {zeros}");
        }
    }

    #[test]
    fn flat_stream_has_equal_counts() {
        for count in [8, 80, 2 * BLOCK + 24] {
            assert_eq!(counts(&never_synchronizing_flat(count)), vec![count as u64 / 8; 8]);
        }
        assert!(never_synchronizing_flat(7).is_empty());
    }

    #[test]
    fn cycle_stream_reads_as_a_valid_wrong_stream_at_even_bits() {
        let bytes = never_synchronizing_cycle(6000);
        let codewords: [&[u8]; 5] = [&[0, 0], &[0, 1], &[1, 0], &[1, 1, 0], &[1, 1, 1]];
        // The frequencies must give exactly these lengths.
        assert_eq!(
            huffman_bits(&counts(&bytes)),
            bytes.iter().map(|&b| codewords[b as usize].len()).sum::<usize>() as f64 / 6000.0
        );
        let bits: Vec<u8> = bytes.iter().flat_map(|&b| codewords[b as usize]).copied().collect();
        // Returns the bits at which codewords start if decoding starts at bit `at`.
        let starts = |mut at: usize| {
            let mut starts = Vec::new();
            while let Some(symbol) = codewords.iter().position(|c| bits[at.min(bits.len())..].starts_with(c)) {
                starts.push(at);
                at += codewords[symbol].len();
            }
            starts
        };
        assert_eq!(starts(0).len(), bytes.len());
        for wrong in (1..50).map(|n| starts(128 * n)) {
            assert!(wrong.len() > 2000 && wrong.iter().all(|s| s % 2 == 0), "valid for ever");
        }
        assert!(starts(0).iter().filter(|&&s| s >= 128).all(|s| s % 2 == 1), "so the two never meet");
    }

    #[test]
    fn short_streams_are_cut() {
        assert_eq!(never_synchronizing_cycle(3), [3, 3, 3]);
        assert!(text(0, 1).is_empty() && geometric(0, 0.5, 1).is_empty());
    }
}
