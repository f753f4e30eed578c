//! The beginning of a base64 text, decoded as far as it takes to know what it holds.

use super::Size;

/// A picture's size may come this late: behind colour profiles and previews.
const MAX_BYTES: u32 = 1 << 20;

/// What a base64 text holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// A PNG, GIF, WebP or JPEG picture.
    Picture(Size),
    /// A PDF document.
    Pdf,
}

/// Looks at a base64 text that comes in pieces, until it knows or gives up.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    /// Bits that are not a whole byte yet, and how many.
    bits: u32,
    bit_count: u32,
    /// Bytes seen.
    seen: u32,
    /// Bytes to pass over.
    skip: u32,
    /// What the next step looks at.
    bytes: [u8; 30],
    length: usize,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    /// Twelve bytes tell what it is.
    #[default]
    Magic,
    Png,
    WebP,
    JpegMarker,
    JpegLength(u8),
    JpegFrame,
    Done(Option<Media>),
}

impl Probe {
    /// What it holds, once that is known.
    #[must_use]
    pub fn media(&self) -> Option<Media> {
        match self.stage {
            Stage::Done(media) => media,
            _ => None,
        }
    }

    /// Whether more of the text changes nothing.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done(_))
    }

    /// Looks at more of the text. What is no base64 is passed over, as decoders do with line
    /// ends.
    pub fn push(&mut self, piece: &[u8]) {
        for &byte in piece {
            if self.is_done() {
                return;
            }
            let value = VALUE[usize::from(byte)];
            if value > 63 {
                continue;
            }
            self.bits = self.bits << 6 | u32::from(value);
            self.bit_count += 6;
            if self.bit_count >= 8 {
                self.bit_count -= 8;
                self.byte((self.bits >> self.bit_count) as u8);
            }
        }
    }

    fn byte(&mut self, byte: u8) {
        self.seen += 1;
        if self.seen > MAX_BYTES {
            self.stage = Stage::Done(None);
            return;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        self.bytes[self.length] = byte;
        self.length += 1;
        let needed = match self.stage {
            Stage::Magic => 12,
            Stage::Png => 24,
            Stage::WebP => 30,
            Stage::JpegMarker | Stage::JpegLength(_) => 2,
            Stage::JpegFrame => 5,
            Stage::Done(_) => return,
        };
        if self.length == needed {
            self.step();
        }
    }

    fn step(&mut self) {
        let bytes = &self.bytes;
        let big = |at: usize| u32::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        let little = |at: usize| u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        match self.stage {
            Stage::Magic => self.magic(),
            Stage::Png => {
                let side = |at: usize| {
                    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
                };
                self.stage = picture(side(16), side(20));
            }
            Stage::WebP => {
                let three = |at: usize| little(at) | u32::from(bytes[at + 2]) << 16;
                self.stage = match &bytes[12..16] {
                    b"VP8X" => picture(three(24) + 1, three(27) + 1),
                    b"VP8L" if bytes[20] == 0x2f => {
                        let sides = three(21) | u32::from(bytes[24]) << 24;
                        picture((sides & 0x3fff) + 1, (sides >> 14 & 0x3fff) + 1)
                    }
                    b"VP8 " if bytes[23..26] == [0x9d, 0x01, 0x2a] => {
                        picture(little(26) & 0x3fff, little(28) & 0x3fff)
                    }
                    _ => Stage::Done(None),
                };
            }
            Stage::JpegMarker => {
                let [first, second] = [bytes[0], bytes[1]];
                self.length = 0;
                match second {
                    _ if first != 0xff => self.stage = Stage::Done(None),
                    // Any number of these may stand before a marker.
                    0xff => self.length = 1,
                    // Markers without a segment.
                    0x01 | 0xd0..=0xd8 => {}
                    // The end, or the picture's data, before its size.
                    0x00 | 0xd9 | 0xda => self.stage = Stage::Done(None),
                    marker => self.stage = Stage::JpegLength(marker),
                }
            }
            Stage::JpegLength(marker) => {
                let length = big(0);
                self.length = 0;
                let is_frame =
                    matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc);
                self.stage = match length.checked_sub(2) {
                    None => Stage::Done(None),
                    Some(_) if is_frame => Stage::JpegFrame,
                    Some(rest) => {
                        self.skip = rest;
                        Stage::JpegMarker
                    }
                };
            }
            // Precision, height, width.
            Stage::JpegFrame => self.stage = picture(big(3), big(1)),
            Stage::Done(_) => {}
        }
    }

    fn magic(&mut self) {
        let bytes = &self.bytes[..12];
        self.stage = if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            Stage::Png
        } else if bytes.starts_with(b"RIFF") && bytes.ends_with(b"WEBP") {
            Stage::WebP
        } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
            let side = |at: usize| u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
            picture(side(6), side(8))
        } else if bytes.starts_with(b"%PDF") {
            Stage::Done(Some(Media::Pdf))
        } else if bytes.starts_with(&[0xff, 0xd8, 0xff]) {
            // What has been taken is read again, marker by marker.
            let taken = self.bytes;
            (self.length, self.stage) = (0, Stage::JpegMarker);
            for byte in &taken[2..12] {
                self.seen -= 1;
                self.byte(*byte);
            }
            return;
        } else {
            Stage::Done(None)
        };
    }
}

/// A side of nothing is no size.
fn picture(width: u32, height: u32) -> Stage {
    let size = Size { width, height };
    Stage::Done((width > 0 && height > 0).then_some(Media::Picture(size)))
}

/// The value of a base64 digit, of either alphabet (RFC 4648); 255: it is none.
const VALUE: [u8; 256] = {
    let mut table = [255; 256];
    let digits = *b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut value = 0;
    while value < 64 {
        table[digits[value] as usize] = value as u8;
        value += 1;
    }
    table[b'-' as usize] = 62;
    table[b'_' as usize] = 63;
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    fn probe(bytes: &[u8], chunk: usize) -> Option<Media> {
        let mut probe = Probe::default();
        for piece in STANDARD.encode(bytes).as_bytes().chunks(chunk) {
            probe.push(piece);
        }
        probe.media()
    }

    fn holds(bytes: &[u8], expected: Option<Media>) {
        for chunk in [1, 3, 1000] {
            assert_eq!(probe(bytes, chunk), expected);
        }
        // A head that is cut says nothing, or all that is needed.
        for length in 0..bytes.len() {
            let cut = probe(&bytes[..length], 1000);
            assert!(cut.is_none() || cut == expected, "{length}");
        }
    }

    fn sized(width: u32, height: u32) -> Option<Media> {
        Some(Media::Picture(Size { width, height }))
    }

    #[test]
    fn sizes_are_where_the_formats_have_them() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x03\x20\0\0\x02\x58\x08\x06\0\0\0";
        holds(png, sized(800, 600));
        let gif = b"GIF89a\x20\x03\x58\x02\xf7\0\0 and more";
        holds(gif, sized(800, 600));
        let lossy = b"RIFF\x24\0\0\0WEBPVP8 \x18\0\0\0\x30\x01\0\x9d\x01\x2a\x20\x03\x58\x02";
        holds(lossy, sized(800, 600));
        // 800 - 1 and 600 - 1 in fourteen bits each: 0x31f | 0x257 << 14.
        let lossless = b"RIFF\x24\0\0\0WEBPVP8L\x18\0\0\0\x2f\x1f\xc3\x95\0 and more";
        holds(lossless, sized(800, 600));
        let extended = b"RIFF\x24\0\0\0WEBPVP8X\x0a\0\0\0\x10\0\0\0\x1f\x03\0\x57\x02\0";
        holds(extended, sized(800, 600));
        holds(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", Some(Media::Pdf));
        holds(b"just some text, no picture", None);
        let nothing = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\0\0\0\x02\x58\x08\x06\0\0\0";
        holds(nothing, None);
    }

    #[test]
    fn a_jpegs_size_comes_behind_what_else_it_carries() {
        let segment = |marker: u8, body: &[u8]| {
            let length = u16::try_from(body.len() + 2).unwrap().to_be_bytes();
            [&[0xff, marker][..], &length, body].concat()
        };
        let frame = |marker| segment(marker, &[8, 0x02, 0x58, 0x03, 0x20, 3, 1, 0x22, 0]);
        let start = vec![0xff, 0xd8];
        for marker in [0xc0, 0xc1, 0xc2] {
            let jpeg = [
                start.clone(),
                segment(0xe0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0"),
                segment(0xe1, &vec![7; 60_000]),
                vec![0xff, 0xff],
                segment(0xdb, &[0; 65]),
                segment(0xc4, &[0; 28]),
                frame(marker),
            ];
            assert_eq!(probe(&jpeg.concat(), 1000), sized(800, 600));
        }
        holds(&[start.clone(), frame(0xc2)].concat(), sized(800, 600));
        let data_first = [start.clone(), segment(0xda, &[0; 10]), frame(0xc0)].concat();
        holds(&data_first, None);
        // Given up before the size.
        let mut late = start;
        for _ in 0..20 {
            late.extend(segment(0xe2, &vec![0; 65_000]));
        }
        late.extend(frame(0xc0));
        assert_eq!(probe(&late, 1000), None);
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in prop::collection::vec(any::<u8>(), 0..200), start in 0..5_usize) {
            let starts: [&[u8]; 5] = [b"", b"/9j/", b"iVBORw0KGgo", b"UklGRiQAAABXRUJQ", b"R0lGODlh"];
            let mut probe = Probe::default();
            probe.push(starts[start]);
            probe.push(&text);
            let bytes = [b"\xff\xd8\xff".as_slice(), &text].concat();
            let _ = tests::probe(&bytes, 7);
        }
    }
}
