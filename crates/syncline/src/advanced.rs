//! Advanced options: what the effort chooses if the caller does not.

use std::fmt;
use std::str::FromStr;

use syncline_core::error::{Error, Result};
use syncline_core::huffman::IndexKind;
use syncline_core::lzss::{LEVELS, SymbolWidth};
use syncline_core::pipeline::Coder;

/// The keys of the text form with their values, for messages.
const KEYS: &str = "coder=auto|numbers|lzss|lzss+huffman, index=symbol|none, level=1-9, symbol=auto|1|2|4|8";

/// Single choices of the encoder, for those who have measured that another one than that of the effort serves them
/// better. `docs/ADVANCED.md` in the repository describes each.
///
/// The text form, which every interface of Syncline takes, has the pairs that differ from the default:
///
/// ```
/// use syncline::{Advanced, Coder};
/// let advanced: Advanced = "coder=lzss+huffman,level=9".parse()?;
/// assert_eq!(advanced, Advanced::default().with_coder(Coder::LzssHuffman).with_level(9));
/// assert_eq!(advanced.to_string(), "coder=lzss+huffman,level=9");
/// # Ok::<(), syncline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Advanced {
    /// Coder of lossless streams. By default, the one of the effort.
    pub coder: Option<Coder>,
    /// Index of the Huffman streams of lossless streams, which determines in how small parts they can be decoded.
    pub index: IndexKind,
    /// LZSS level, from 1 (fastest) to 9 (smallest). By default, the one of the effort.
    pub level: Option<u8>,
    /// Width of LZSS symbols. By default, it is that of the elements.
    pub symbol: Option<SymbolWidth>,
}

impl Default for Advanced {
    /// Returns the choices of the effort, and the symbol index.
    fn default() -> Self {
        Self { coder: None, index: IndexKind::Symbol, level: None, symbol: None }
    }
}

impl Advanced {
    /// Sets the coder of lossless streams.
    #[must_use]
    pub fn with_coder(self, coder: Coder) -> Self {
        Self { coder: Some(coder), ..self }
    }

    /// Sets the index of the Huffman streams of lossless streams. With [`IndexKind::None`], these are smaller, but only
    /// the CPU makes and reads them, and a chunk as a whole.
    #[must_use]
    pub fn with_index(self, index: IndexKind) -> Self {
        Self { index, ..self }
    }

    /// Sets the LZSS level, from 1 (fastest) to 9 (smallest).
    #[must_use]
    pub fn with_level(self, level: u8) -> Self {
        Self { level: Some(level), ..self }
    }

    /// Sets the width of LZSS symbols. `None` stands for that of the elements.
    #[must_use]
    pub fn with_symbol(self, symbol: Option<SymbolWidth>) -> Self {
        Self { symbol, ..self }
    }

    /// Returns the keys that differ from the default, with their values.
    pub fn pairs(&self) -> impl Iterator<Item = (&'static str, String)> {
        let coder = self.coder.map(|coder| ("coder", coder.to_string()));
        let index = (self.index != IndexKind::Symbol).then(|| ("index", self.index.to_string()));
        let level = self.level.map(|level| ("level", level.to_string()));
        let symbol = self.symbol.map(|width| ("symbol", width.bytes().to_string()));
        [coder, index, level, symbol].into_iter().flatten()
    }

    /// Sets what a key stands for; `None` if there is no such key, or it has no such value.
    fn set(self, key: &str, value: &str) -> Option<Self> {
        Some(match (key, value) {
            ("coder", _) => self.with_coder(value.parse().ok()?),
            ("index", "symbol") => self.with_index(IndexKind::Symbol),
            ("index", "none") => self.with_index(IndexKind::None),
            ("level", _) => self.with_level(value.parse().ok().filter(|level| LEVELS.contains(level))?),
            ("symbol", "auto") => self.with_symbol(None),
            ("symbol", _) => self.with_symbol(Some(SymbolWidth::from_bytes(value.parse().ok()?)?)),
            _ => return None,
        })
    }
}

impl fmt::Display for Advanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self.pairs().map(|(key, value)| format!("{key}={value}")).collect();
        f.write_str(&pairs.join(","))
    }
}

impl FromStr for Advanced {
    type Err = Error;

    /// Parses pairs such as `coder=lzss,level=9`; of a key that is repeated, the last value counts.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an unknown key or value; the message names those that exist.
    fn from_str(text: &str) -> Result<Self> {
        let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        pairs.into_iter().try_fold(Self::default(), |advanced, pair| {
            let set = pair.split_once('=').and_then(|(key, value)| advanced.set(key.trim(), value.trim()));
            set.ok_or_else(|| Error::invalid(format!("unknown advanced option {pair}: use {KEYS}")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_of_every_choice_parses_to_the_same_choice() {
        let of = Advanced::default;
        let coders = Coder::ALL.map(|coder| of().with_coder(coder));
        let indexes = [IndexKind::Symbol, IndexKind::None].map(|index| of().with_index(index));
        let levels = LEVELS.map(|level| of().with_level(level));
        let symbols = SymbolWidth::ALL.map(|width| of().with_symbol(Some(width)));
        let all = [of().with_coder(Coder::Lzss).with_level(9).with_index(IndexKind::None)];
        for advanced in coders.into_iter().chain(indexes).chain(levels).chain(symbols).chain(all) {
            assert_eq!(advanced.to_string().parse::<Advanced>().unwrap(), advanced, "{advanced}");
        }
        assert_eq!(of().to_string(), "");
        let spaced = " level = 2 , symbol=4,symbol=8,".parse::<Advanced>().unwrap();
        assert_eq!(spaced, of().with_level(2).with_symbol(SymbolWidth::from_bytes(8)));
    }

    #[test]
    fn unknown_keys_and_values_are_errors_that_list_those_that_exist() {
        for text in ["level", "level=0", "level=10", "coder=zip", "index=gap", "symbol=3", "tile=small", "size=4", "=1"]
        {
            let error = text.parse::<Advanced>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains(KEYS), "{error}");
        }
    }
}
