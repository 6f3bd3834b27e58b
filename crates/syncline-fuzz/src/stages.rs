//! Targets for single stages: the Huffman decoders and the LZSS decoders.

use syncline_core::huffman::{self, Decoder, EncodeOptions, IndexKind, Stream, Symbol};
use syncline_core::lzss::{self, Params, SLACK, SymbolWidth, TokenParts, Tokens, decode_block};

use crate::input::{Input, Rng, generate_bytes};

/// Decodes arbitrary bytes as a Huffman stream of bytes and of u16. All decoders that succeed must return the same
/// symbols.
pub fn huffman_stream(bytes: &[u8]) {
    decode_huffman::<u8>(bytes);
    decode_huffman::<u16>(bytes);
}

fn decode_huffman<S: Symbol>(bytes: &[u8]) {
    let Ok(stream) = Stream::<S>::parse(bytes, "fuzz") else { return };
    let classes: Vec<u8> = (0..stream.groups()).map(|group| (group % 4) as u8).collect();
    let mut first: Option<Vec<S>> = None;
    for kind in [Decoder::Chunked, Decoder::SelfSync, Decoder::Indexed] {
        let Ok(decoder) = stream.decoder(kind, &classes) else { continue };
        let mut symbols = vec![S::truncate(0); stream.symbols()];
        if decoder.decode(&mut symbols, 1).is_ok() {
            let expected = first.get_or_insert_with(|| symbols.clone());
            assert!(*expected == symbols, "{kind:?} returns other symbols");
        }
    }
}

/// Generates a Huffman stream with some damaged bytes.
pub fn generate_huffman(rng: &mut Rng) -> Vec<u8> {
    let symbols = generate_bytes(rng);
    let options = EncodeOptions {
        group_log2: 6 + rng.below(2) as u8,
        index: IndexKind::ALL[rng.below(IndexKind::ALL.len())],
        zero_bit_symbol: [None, Some(0)][rng.below(2)],
    };
    let whole = symbols.len() >> options.group_log2 << options.group_log2;
    let mut stream = Vec::new();
    if rng.below(2) == 0 {
        huffman::encode(&symbols[..whole], &[], &options, &mut Default::default(), &mut stream);
    } else {
        let symbols: Vec<u16> = symbols[..whole].iter().map(|&symbol| u16::from(symbol) * 3).collect();
        huffman::encode(&symbols, &[], &options, &mut Default::default(), &mut stream);
    }
    for _ in 0..rng.below(4) {
        let at = rng.below(stream.len());
        stream[at] ^= 1 << rng.below(8);
    }
    stream
}

/// Decodes arbitrary LZSS tokens: symbols or an error, and no panic.
pub fn lzss_tokens(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let params = take_params(&mut input);
    // Sometimes the number of matches is that of the flags, which must agree.
    let tokens = input.below(300);
    let mut flags: Vec<u64> =
        (0..tokens.div_ceil(64)).map(|_| u64::from(input.number()) << 32 | u64::from(input.number())).collect();
    if !tokens.is_multiple_of(64)
        && let Some(last) = flags.last_mut()
    {
        *last &= (1 << (tokens % 64)) - 1;
    }
    let ones = flags.iter().map(|word| word.count_ones() as usize).sum();
    let matches = if input.byte() < 230 { ones } else { input.below(300) };
    let out_bytes = input.below(params.block_symbols() + 1) * params.width.bytes();
    let source = input.rest();
    let field = |start: usize, count: usize| -> Vec<u8> {
        source.iter().copied().cycle().skip(start).take(count).chain([0; SLACK]).collect()
    };
    let parts = TokenParts {
        tokens,
        matches,
        flags: &flags,
        literals: &field(0, tokens.saturating_sub(matches) * params.width.bytes()),
        lengths: &field(1, matches),
        distances: &field(2, matches * params.distance_bytes()),
    };
    let mut out = vec![0; out_bytes + SLACK];
    let _ = decode_block(&parts, &params, &mut out, 0, out_bytes);
}

/// Encodes bytes as LZSS tokens and decodes them again.
pub fn lzss_round_trip(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let params = take_params(&mut input);
    // Some inputs are repeated until they span several blocks.
    let copies = 1 + usize::from(input.byte()) % 8 * 8;
    let original = input.rest().repeat(copies);
    let mut tokens = Tokens::default();
    lzss::encode(&original, &params, &mut Default::default(), &mut tokens);

    let padded = original.len().next_multiple_of(params.width.bytes());
    let mut out = vec![0; padded + SLACK];
    let with_slack = |field: &[u8]| [field, &[0; SLACK]].concat();
    let (literals, lengths, distances) =
        (with_slack(&tokens.literals), with_slack(&tokens.lengths), with_slack(&tokens.distances));
    let (mut flag, mut literal, mut matched) = (0, 0, 0);
    for (block, counts) in tokens.blocks.iter().enumerate() {
        let (count, matches) = (counts.tokens as usize, counts.matches as usize);
        let words = count.div_ceil(64);
        let parts = TokenParts {
            tokens: count,
            matches,
            flags: &tokens.flags[flag..flag + words],
            literals: &literals[literal..],
            lengths: &lengths[matched..],
            distances: &distances[matched * params.distance_bytes()..],
        };
        let start = block * params.block_bytes();
        let end = padded.min(start + params.block_bytes());
        decode_block(&parts, &params, &mut out, start, end).expect("the encoder's tokens decode");
        flag += words;
        matched += matches;
        literal += (count - matches) * params.width.bytes();
    }
    assert!(out[..original.len()] == original, "LZSS returns other bytes");
}

fn take_params(input: &mut Input) -> Params {
    let width = input.choose(&SymbolWidth::ALL);
    Params::new(width, 1 + input.byte() % 9)
}
