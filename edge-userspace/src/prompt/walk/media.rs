//! Pictures, documents, encrypted texts: what is read of them on the way, and what they count.

use super::Walk;
use crate::prompt::image::{ChatImages, MESSAGES_MOST, Media, Size, messages_tokens};

/// What a PDF counts, of which only the size is known: Anthropic publishes 1,500 to 3,000
/// tokens a page; how many bytes a page has is our own assumption.
const PDF_PAGE_TOKENS: [u64; 3] = [1500, 2250, 3000];
const PDF_PAGE_BYTES: u64 = 75_000;

impl Walk {
    pub(super) fn end_block(&mut self) {
        let Some(block) = self.blocks.pop() else {
            return;
        };
        if !block.is_compaction {
            self.add_encrypted(block.encrypted);
        }
        if block.elsewhere > 0 {
            self.seen.estimated = true;
            let [low, about, high] = if block.is_document {
                PDF_PAGE_TOKENS
            } else {
                // Most pictures are scaled down to about the most.
                [1, MESSAGES_MOST, MESSAGES_MOST]
            };
            self.add_picture([low, about, high].map(|tokens| tokens * block.elsewhere));
        }
    }

    pub(super) fn end_picture(&mut self) {
        let picture = std::mem::take(&mut self.picture);
        if !picture.is_there {
            return;
        }
        let images = ChatImages::of(&String::from_utf8_lossy(
            self.model.as_deref().unwrap_or_default(),
        ));
        match picture.media {
            Some(Media::Picture(size)) => {
                let tokens = images.tokens(size, picture.low);
                self.add_picture([tokens; 3]);
            }
            _ if picture.low && matches!(images, ChatImages::Tiles { .. }) => {
                let ChatImages::Tiles { base, .. } = images else {
                    return;
                };
                self.add_picture([base; 3]);
            }
            _ => {
                // A square of 1024 pixels is the guide's own example.
                let about = images.tokens(
                    Size {
                        width: 1024,
                        height: 1024,
                    },
                    false,
                );
                self.seen.estimated = true;
                self.add_picture([1, about, images.most()]);
            }
        }
    }

    /// A text of which only the size is known: about four bytes a token, at most a token a
    /// byte.
    fn add_encrypted(&mut self, base64_bytes: u64) {
        let bytes = base64_bytes / 4 * 3;
        if bytes > 0 {
            self.seen.estimated = true;
            self.add_picture([1, bytes.div_ceil(4), bytes]);
        }
    }

    fn add_picture(&mut self, tokens: [u64; 3]) {
        for (sum, tokens) in self.seen.pictures.iter_mut().zip(tokens) {
            *sum = sum.saturating_add(tokens);
        }
    }

    /// Of a `data:` URL what is behind the comma is probed.
    pub(super) fn picture_url(&mut self, piece: &[u8]) {
        if self.data_bytes > 0 {
            self.probe.push(piece);
            return;
        }
        match memchr::memchr(b',', piece) {
            Some(comma) => {
                self.short.push(&piece[..comma]);
                if self.short.start().starts_with(b"data:") {
                    self.data_bytes = 1;
                    self.probe.push(&piece[comma + 1..]);
                }
            }
            None => self.short.push(piece),
        }
    }

    /// Whether the source that is being read is base64, as far as its type has come.
    pub(super) fn source(&self) -> Option<bool> {
        self.blocks.last().and_then(|block| block.source)
    }

    pub(super) fn end_data(&mut self) {
        self.tally.end();
        match self.source() {
            Some(true) => self.add_media(self.probe.media(), self.data_bytes),
            Some(false) => {}
            None => {
                let data = Some((self.probe.media(), self.data_bytes));
                if let Some(block) = self.blocks.last_mut() {
                    block.data = data;
                }
            }
        }
    }

    /// What came before its type is settled now.
    pub(super) fn end_source(&mut self) {
        let is_base64 = self.source();
        let data = self.blocks.last_mut().and_then(|block| block.data.take());
        let Some((media, bytes)) = data else {
            return;
        };
        if is_base64 == Some(true) || (is_base64.is_none() && media.is_some()) {
            self.tally.settle(false);
            self.add_media(media, bytes);
        } else if media.is_some() {
            // A text that begins as a picture does was not counted: no byte is more than a
            // token.
            self.seen.estimated = true;
            self.add_picture([1, bytes, bytes]);
        } else {
            self.tally.settle(true);
        }
    }

    fn add_media(&mut self, media: Option<Media>, base64_bytes: u64) {
        match media {
            Some(Media::Picture(size)) => self.add_picture([messages_tokens(size); 3]),
            Some(Media::Pdf) => {
                let pages = (base64_bytes / 4 * 3).div_ceil(PDF_PAGE_BYTES).max(1);
                self.seen.estimated = true;
                self.add_picture(PDF_PAGE_TOKENS.map(|tokens| tokens * pages));
            }
            None => {
                self.seen.estimated = true;
                self.add_picture([1, MESSAGES_MOST, MESSAGES_MOST]);
            }
        }
    }
}
