use super::*;
use proptest::prelude::*;

/// Decodes tokens block by block according to the text of `docs/FORMAT.md`.
fn decode_all(tokens: &Tokens, params: &Params, length: usize) -> Result<Vec<u8>, &'static str> {
    let padded = length.next_multiple_of(params.width.bytes());
    let mut out = vec![0xA5; padded + SLACK];
    let with_slack = |bytes: &[u8]| [bytes, &[0; SLACK]].concat();
    let (literals, lengths, distances) =
        (with_slack(&tokens.literals), with_slack(&tokens.lengths), with_slack(&tokens.distances));
    let (mut flag, mut literal, mut matched) = (0, 0, 0);
    for (i, counts) in tokens.blocks.iter().enumerate() {
        let (count, matches) = (counts.tokens as usize, counts.matches as usize);
        let words = count.div_ceil(64);
        let parts = TokenParts {
            tokens: count,
            matches,
            flags: tokens.flags.get(flag..flag + words).ok_or("flags end")?,
            literals: literals.get(literal..).ok_or("literals end")?,
            lengths: lengths.get(matched..).ok_or("lengths end")?,
            distances: distances.get(matched * params.distance_bytes()..).ok_or("distances end")?,
        };
        let start = i * params.block_bytes();
        decode_block(&parts, params, &mut out, start, padded.min(start + params.block_bytes()))?;
        flag += words;
        matched += matches;
        literal += (count - matches) * params.width.bytes();
    }
    out.truncate(length);
    Ok(out)
}

/// Returns bytes of the kinds that take different paths: few values, repeated pieces, noise, runs.
fn any_bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    let noise = |range: std::ops::Range<u8>| prop::collection::vec(range, 0..most);
    let pieces =
        (prop::collection::vec(any::<u8>(), 1..200), prop::collection::vec((0..200usize, 1..90usize), 0..most / 30))
            .prop_map(|(dictionary, pieces)| {
                let piece = |(at, length): (usize, usize)| dictionary.iter().cycle().skip(at).take(length).copied();
                pieces.into_iter().flat_map(piece).collect()
            });
    let runs = prop::collection::vec((any::<u8>(), 1..700usize), 0..most / 100)
        .prop_map(|runs| runs.into_iter().flat_map(|(byte, length)| std::iter::repeat_n(byte, length)).collect());
    // Few or many values of four or eight bytes.
    let words = (prop::collection::vec(0..60_000u64, 0..most / 8), prop_oneof![Just(3), Just(200), Just(60_000u64)])
        .prop_map(|(words, values)| words.into_iter().flat_map(|word| (word % values).to_le_bytes()).collect());
    let halves = (prop::collection::vec(0..60_000u32, 0..most / 4), prop_oneof![Just(3), Just(200), Just(60_000u32)])
        .prop_map(|(words, values)| words.into_iter().flat_map(|word| (word % values + 7).to_le_bytes()).collect());
    // Decimals in hundredths, say, of which one may have more.
    let multiples =
        (prop::collection::vec(0..200u32, 0..most / 4), 2..400u32, any::<prop::sample::Index>(), any::<bool>())
            .prop_map(|(mut words, factor, other, is_other)| {
                words.iter_mut().for_each(|word| *word = *word * factor + 7);
                if is_other && !words.is_empty() {
                    let at = other.index(words.len());
                    words[at] += 1;
                }
                words.into_iter().flat_map(u32::to_le_bytes).collect()
            });
    prop_oneof![noise(0..2), noise(0..255), pieces, runs, words, halves, multiples]
}

fn any_params() -> impl Strategy<Value = Params> {
    (0..4usize, LEVELS, prop_oneof![4 => 0..4u8, 1 => Just(MAX_MIN_MATCH)]).prop_map(|(width, level, more)| {
        let params = Params::new(SymbolWidth::ALL[width], level);
        Params { min_match: (params.min_match + more).min(MAX_MIN_MATCH), ..params }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn chains_find_what_the_oracle_finds(bytes in any_bytes(3000), params in any_params()) {
        let mut padded = bytes.clone();
        padded.resize(bytes.len().next_multiple_of(params.width.bytes()), 0);
        let mut tokens = Tokens::default();
        encode(&bytes, &params, &mut EncodeScratch::default(), &mut tokens);
        prop_assert_eq!(&tokens, &oracle::encode(&padded, &params));
        prop_assert_eq!(decode_all(&tokens, &params, bytes.len()), Ok(bytes));
    }

    #[test]
    fn several_blocks_round_trip(bytes in any_bytes(90_000), params in any_params()) {
        let mut tokens = Tokens::default();
        encode(&bytes, &params, &mut EncodeScratch::default(), &mut tokens);
        prop_assert_eq!(tokens.blocks.len(), bytes.len().div_ceil(params.block_bytes()));
        // Blocks that are encoded alternately do not affect each other.
        let (mut one_by_one, mut scratch) = (Tokens::default(), EncodeScratch::default());
        bytes.chunks(params.block_bytes()).for_each(|block| encode(block, &params, &mut scratch, &mut one_by_one));
        prop_assert_eq!(&tokens, &one_by_one);
        prop_assert_eq!(decode_all(&tokens, &params, bytes.len()), Ok(bytes));
    }

    #[test]
    fn damaged_tokens_are_errors_or_other_bytes(
        bytes in any_bytes(3000), params in any_params(), part in 0..5usize, at in any::<prop::sample::Index>(),
            bit in 0..8u32,
    ) {
        let mut tokens = Tokens::default();
        encode(&bytes, &params, &mut EncodeScratch::default(), &mut tokens);
        let flip = |bytes: &mut Vec<u8>| if !bytes.is_empty() { let i = at.index(bytes.len()); bytes[i] ^= 1 << bit };
        match part {
            0 => flip(&mut tokens.literals),
            1 => flip(&mut tokens.lengths),
            2 => flip(&mut tokens.distances),
            3 => tokens.flags.iter_mut().take(1).for_each(|word| *word ^= 1 << at.index(64)),
            _ => tokens.blocks.iter_mut().for_each(|counts| counts.tokens ^= 1 << bit),
        }
        if let Ok(back) = decode_all(&tokens, &params, bytes.len()) {
            prop_assert_eq!(back.len(), bytes.len());
            prop_assert!(part < 3 || bytes.is_empty() || part == 3, "a wrong number of tokens went unnoticed");
        }
    }
}

#[test]
fn invalid_tokens_are_named_in_errors() {
    let params = Params::new(SymbolWidth::Four, 3);
    let literals = [7; 4 + SLACK];
    let mut out = [0; 16 + SLACK];
    let mut run = |tokens, matches, flags: u64, length: u8, distance: u8| {
        let parts = TokenParts {
            tokens,
            matches,
            flags: &[flags],
            literals: &literals,
            lengths: &[length; 2 + SLACK],
            distances: &[distance; 2 + SLACK],
        };
        decode_block(&parts, &params, &mut out, 0, 16)
    };
    // A literal, then a match before the block; past the end; of no distance.
    for (length, distance) in [(0, 2), (9, 1), (0, 0)] {
        assert!(run(2, 1, 0b10, length, distance).unwrap_err().contains("reaches out"), "{length} {distance}");
    }
    assert!(run(2, 1, 0b10, 0, 1).unwrap_err().contains("end before"));
    assert_eq!(run(2, 1, 0b10, 2, 1), Ok(()));
    assert!(run(2, 1, 0b11, 0, 1).unwrap_err().contains("disagree"));
    assert!(run(2, 1, 1 << 63, 0, 1).unwrap_err().contains("disagree"));
    assert!(run(1, 2, 0b11, 0, 1).unwrap_err().contains("more matches"));
    assert!(run(65, 1, 0b10, 0, 1).unwrap_err().contains("disagree"));
}
