//! Damaged tokens are detected where core detects them.

use super::*;

/// Runs core's decoder on the device's input. Returns the bytes, or `None` if it reports an error.
fn decode_with_core(bytes: &[u8], chunk: &ChunkSections, params: &Params) -> Option<Vec<u8>> {
    let width = params.width.bytes();
    let padded = (chunk.bytes as usize).next_multiple_of(width);
    let mut out = vec![0; padded + SLACK];
    let part = |(at, length): (u64, u32)| [&bytes[at as usize..at as usize + length as usize], &[0; SLACK]].concat();
    let (flags, lengths, distances, literals) =
        (part(chunk.flags), part(chunk.lengths), part(chunk.distances), part(chunk.literals));
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut flag, mut matched, mut literal) = (0, 0, 0);
    let mut blocks = Vec::new();
    for i in 0..padded.div_ceil(params.block_bytes()) {
        let at = chunk.blocks as usize + i * 8;
        let counts = BlockCounts { tokens: word(at), matches: word(at + 4) };
        let symbols = (padded - i * params.block_bytes()).min(params.block_bytes()) / width;
        if counts.matches > counts.tokens || counts.tokens as usize > symbols {
            return None;
        }
        blocks.push(counts);
        flag += (counts.tokens as usize).div_ceil(64) * 8;
        matched += counts.matches as usize;
        literal += (counts.tokens - counts.matches) as usize * width;
    }
    let totals = [flag, matched, matched * params.distance_bytes(), literal];
    if totals != [chunk.flags.1, chunk.lengths.1, chunk.distances.1, chunk.literals.1].map(|length| length as usize) {
        return None;
    }
    let flags: Vec<u64> =
        flags[..flag].chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    (flag, matched, literal) = (0, 0, 0);
    for (i, counts) in blocks.iter().enumerate() {
        let (tokens, matches) = (counts.tokens as usize, counts.matches as usize);
        let words = tokens.div_ceil(64);
        let parts = TokenParts {
            tokens,
            matches,
            flags: &flags[flag..flag + words],
            literals: &literals[literal..],
            lengths: &lengths[matched..],
            distances: &distances[matched * params.distance_bytes()..],
        };
        let start = i * params.block_bytes();
        decode_block(&parts, params, &mut out, start, padded.min(start + params.block_bytes())).ok()?;
        flag += words;
        matched += matches;
        literal += (tokens - matches) * width;
    }
    out.truncate(chunk.bytes as usize);
    Some(out)
}

#[test]
fn damage_is_found_where_core_finds_it() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let mut random = Random(2);
    let count = pick(60, 16);
    for (width, level) in [
        (SymbolWidth::One, 3),
        (SymbolWidth::Two, 3),
        (SymbolWidth::Four, 1),
        (SymbolWidth::Eight, 4),
        (SymbolWidth::Two, 7),
    ] {
        let kinds = KINDS.iter().cycle().take(count).enumerate();
        let case = Case::new(width, level, kinds.map(|(i, &kind)| bytes(kind, 1 + i * (48_000 / count), 31)).collect());
        let (encoded, plans, places) = check_encoder(device, &case, Encoder::new, "to be damaged");
        let bytes = stream.clone_dtoh(encoded.bytes()).unwrap();
        let (mut wrong, mut changed) = (0, 0);
        for round in 0..6 {
            let mut damaged = bytes.clone();
            let mut sections = sections_of_chunks(&case, &plans, &places);
            for (i, chunk) in sections.iter_mut().enumerate() {
                // One chunk in eight is not damaged. The others have flipped bits after the parameters, in any section
                // with equal probability, or a wrong length of a section.
                match random.below(8) {
                    0 => {}
                    1 => {
                        let part =
                            [&mut chunk.flags.1, &mut chunk.lengths.1, &mut chunk.distances.1, &mut chunk.literals.1];
                        let length = &mut *part.into_iter().nth(random.below(4) as usize).unwrap();
                        *length = length.saturating_sub(1 + random.below(9) as u32);
                    }
                    _ => {
                        let blocks = (chunk.blocks, plans[i].section_bytes[0] - 8);
                        let parts = [blocks, chunk.flags, chunk.lengths, chunk.distances, chunk.literals];
                        for _ in 0..1 + round % 3 {
                            let (at, length) = parts[random.below(5) as usize];
                            if length > 0 {
                                let low_bits = if random.below(2) == 0 { 8 } else { 2 };
                                damaged[(at + random.below(length.into())) as usize] ^= 1 << random.below(low_bits);
                            }
                        }
                    }
                }
                if round == 5 {
                    chunk.min_match = 1 + random.below(16) as u8;
                }
            }
            let input = stream.clone_htod(&damaged).unwrap();
            let (output, status) = decode_on(device, &case, &input, &sections);
            let (found, made) = check_damaged(&case, &damaged, &sections, (&output, &status), round);
            (wrong, changed) = (wrong + found, changed + made);
        }
        assert!(
            wrong > count * 5 / 6 && changed > count / 12,
            "{wrong} chunks found wrong, {changed} decoded to other bytes"
        );
    }
}

/// Compares a decoder's results for damaged chunks with those of core. Returns the number of errors, and the number of
/// chunks that decode to other bytes.
fn check_damaged(
    case: &Case,
    damaged: &[u8],
    sections: &[ChunkSections],
    (output, status): (&[u8], &[u32]),
    round: usize,
) -> (usize, usize) {
    let (mut wrong, mut changed) = (0, 0);
    for (i, chunk) in sections.iter().enumerate() {
        let params = Params { min_match: chunk.min_match, ..case.params };
        let expected = decode_with_core(damaged, chunk, &params);
        let what = format!("{:?} {}, round {round}, chunk {i}", params.width, params.level);
        assert_eq!(status[i] == 0, expected.is_some(), "{what}: {:?}", status_text(status[i]));
        wrong += usize::from(expected.is_none());
        let at = chunk.output as usize;
        if let Some(expected) = expected {
            assert!(output[at..at + expected.len()] == expected, "{what}: other bytes than core's");
            changed += usize::from(expected != case.chunks[i]);
        }
        let end = at + chunk.bytes as usize;
        assert!(output[end..end.next_multiple_of(16)].iter().all(|&byte| byte == 0xEE), "{what}: written past it");
    }
    (wrong, changed)
}
