//! How large a picture is, read from the beginning of its base64, and what it counts.
//!
//! Not here: the picture itself, of which nothing is kept or decoded.

mod probe;

pub use probe::{Media, Probe};

/// A picture's size in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Across.
    pub width: u32,
    /// Down.
    pub height: u32,
}

/// Longest edge that the Messages API takes as it is, pixels.
const MESSAGES_EDGE: f64 = 1568.0;
/// Pixels a token.
const MESSAGES_PIXELS: f64 = 750.0;
/// The most tokens that a picture counts in the Messages API; larger ones are scaled down.
pub const MESSAGES_MOST: u64 = 1600;

/// Tokens of a picture in a Messages request, by the formula that Anthropic publishes (its
/// vision guide): `width * height / 750`, after scaling down to 1568 pixels on the long edge
/// and to about 1,600 tokens. Begun tokens count, as in the guide's table.
#[must_use]
pub fn messages_tokens(size: Size) -> u64 {
    let (width, height) = (f64::from(size.width), f64::from(size.height));
    let scale = (MESSAGES_EDGE / width.max(height)).min(1.0);
    let tokens = (width * scale * height * scale / MESSAGES_PIXELS).ceil();
    (tokens as u64).min(MESSAGES_MOST)
}

/// How a model of the Chat Completions API counts pictures, as OpenAI publishes it (its guide
/// to images and vision).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChatImages {
    /// A base, and so many for each tile of 512 pixels.
    Tiles {
        /// What a picture of low detail counts.
        base: u64,
        /// For each tile.
        tile: u64,
    },
    /// Patches of 32 pixels, at most 1,536 of them, times a factor.
    Patches {
        /// In thousandths.
        per_mille: u64,
    },
}

/// Largest square that a picture of high detail is made to fit.
const CHAT_SQUARE: f64 = 2048.0;
/// What its shorter side is scaled down to then.
const CHAT_SHORT_SIDE: f64 = 768.0;
const TILE: f64 = 512.0;
const PATCH: f64 = 32.0;
const MOST_PATCHES: f64 = 1536.0;

impl ChatImages {
    /// By the model's name; what is not known counts as gpt-4o does.
    #[must_use]
    pub fn of(model: &str) -> Self {
        const TABLE: [(&str, ChatImages); 14] = [
            ("gpt-4o-mini", tiles(2833, 5667)),
            ("gpt-4.1-mini", patches(1620)),
            ("gpt-4.1-nano", patches(2460)),
            ("gpt-5-mini", patches(1620)),
            ("gpt-5-nano", patches(2460)),
            ("o4-mini", patches(1720)),
            ("gpt-5", tiles(70, 140)),
            ("gpt-4o", tiles(85, 170)),
            ("gpt-4.1", tiles(85, 170)),
            ("gpt-4.5", tiles(85, 170)),
            ("computer-use-preview", tiles(65, 129)),
            ("o1", tiles(75, 150)),
            ("o3", tiles(75, 150)),
            ("", tiles(85, 170)),
        ];
        let known = TABLE.iter().find(|(name, _)| model.starts_with(name));
        known.map_or(tiles(85, 170), |(_, images)| *images)
    }

    /// Tokens of a picture; of high detail unless `low`.
    #[must_use]
    pub fn tokens(self, size: Size, low: bool) -> u64 {
        match self {
            Self::Tiles { base, .. } if low => base,
            Self::Tiles { base, tile } => base + tile * tiles_of(size),
            Self::Patches { per_mille } => (patches_of(size) * per_mille).div_ceil(1000),
        }
    }

    /// The most that one picture can count.
    #[must_use]
    pub fn most(self) -> u64 {
        // 2048 x 768 is the largest after scaling: four by two tiles.
        match self {
            Self::Tiles { base, tile } => base + 8 * tile,
            Self::Patches { per_mille } => MOST_PATCHES as u64 * per_mille / 1000,
        }
    }
}

const fn tiles(base: u64, tile: u64) -> ChatImages {
    ChatImages::Tiles { base, tile }
}

const fn patches(per_mille: u64) -> ChatImages {
    ChatImages::Patches { per_mille }
}

fn tiles_of(size: Size) -> u64 {
    let (width, height) = (f64::from(size.width), f64::from(size.height));
    let fit = (CHAT_SQUARE / width.max(height)).min(1.0);
    let (width, height) = (width * fit, height * fit);
    let fit = (CHAT_SHORT_SIDE / width.min(height)).min(1.0);
    // Rounded to whole pixels, as the scaled picture is.
    let tiles = |side: f64| (side * fit).round().max(1.0) / TILE;
    (tiles(width).ceil() * tiles(height).ceil()) as u64
}

fn patches_of(size: Size) -> u64 {
    let (width, height) = (f64::from(size.width), f64::from(size.height));
    let count = |width: f64, height: f64| (width / PATCH).ceil() * (height / PATCH).ceil();
    let patches = count(width, height);
    if patches <= MOST_PATCHES {
        return patches as u64;
    }
    let shrink = (PATCH * PATCH * MOST_PATCHES / (width * height)).sqrt();
    let whole = |side: f64| {
        let patches = side * shrink / PATCH;
        patches.floor() / patches
    };
    let shrink = shrink * whole(width).min(whole(height));
    // Rounded: the shrunken side is a whole number of patches but for the arithmetic's error.
    let side = |side: f64| (side * shrink / PATCH * 1e6).round() / 1e6 * PATCH;
    count(side(width), side(height)).clamp(1.0, MOST_PATCHES) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    /// The table of Anthropic's vision guide.
    #[test]
    fn messages_pictures_count_as_published() {
        for (width, height, tokens) in [(200, 200, 54), (1000, 1000, 1334), (1092, 1092, 1590)] {
            assert_eq!(messages_tokens(size(width, height)), tokens);
        }
        // Scaled down first.
        assert_eq!(messages_tokens(size(3136, 400)), 1568 * 200 / 750 + 1);
        assert_eq!(messages_tokens(size(8000, 8000)), MESSAGES_MOST);
        assert_eq!(messages_tokens(size(u32::MAX, u32::MAX)), MESSAGES_MOST);
        assert_eq!(messages_tokens(size(1, 1)), 1);
    }

    /// The examples of OpenAI's guide.
    #[test]
    fn chat_pictures_count_as_published() {
        let gpt_4o = ChatImages::of("gpt-4o-2024-11-20");
        assert_eq!(gpt_4o.tokens(size(1024, 1024), false), 765);
        assert_eq!(gpt_4o.tokens(size(2048, 4096), false), 1105);
        assert_eq!(gpt_4o.tokens(size(4096, 8192), true), 85);
        let mini = ChatImages::of("gpt-4.1-mini");
        assert_eq!(mini, patches(1620));
        assert_eq!(patches_of(size(1024, 1024)), 1024);
        assert_eq!(patches_of(size(1800, 2400)), 1452);
        assert_eq!(ChatImages::of("o1-pro"), tiles(75, 150));
    }

    #[test]
    fn no_picture_counts_more_than_the_most() {
        let sides = [
            1,
            31,
            32,
            33,
            511,
            512,
            767,
            769,
            1568,
            2049,
            65_535,
            u32::MAX,
        ];
        for images in [tiles(85, 170), patches(1620)] {
            for width in sides {
                for height in sides {
                    for low in [false, true] {
                        let tokens = images.tokens(size(width, height), low);
                        assert!(
                            (1..=images.most()).contains(&tokens),
                            "{width}x{height}: {tokens}"
                        );
                    }
                }
            }
        }
    }
}
