//! The strings and numbers of a request: what each is used for.

use super::Walk;
use super::asked::Number;
use crate::prompt::image::Probe;
use crate::prompt::json::{Duplicate, Visit as _};
use crate::prompt::place::{Place, Use};
use crate::prompt::tally::Sort;

impl Walk {
    pub(super) fn begin_use(&mut self, used: Use) {
        match used {
            Use::Text(part) | Use::Name(part) => {
                if matches!(used, Use::Name(_)) {
                    self.seen.names += 1;
                }
                self.begin_text(part, Sort::Plain);
            }
            Use::Data(part) => {
                self.probe = Probe::default();
                self.data_bytes = 0;
                // Two in one source: nobody knows which one holds.
                self.tally.settle(true);
                match self.source() {
                    Some(true) => {}
                    is_base64 => {
                        // Whether it is a text may show when it is over.
                        self.spans.lose();
                        let is_text = is_base64 == Some(false);
                        let sort = if is_text { Sort::Plain } else { Sort::Doubtful };
                        self.begin_text(part, sort);
                    }
                }
            }
            Use::PictureUrl => {
                self.probe = Probe::default();
                self.short.clear();
                self.data_bytes = 0;
            }
            Use::Encrypted => self.data_bytes = 0,
            Use::Model => self.model_bytes.clear(),
            Use::Number => self.number = Number::of(self.key.bytes()),
            Use::BlockType | Use::SourceType | Use::Detail => self.short.clear(),
            Use::Elsewhere | Use::Nothing => {}
        }
    }

    pub(super) fn push_use(&mut self, used: Use, piece: &[u8]) {
        match used {
            Use::Text(_) | Use::Name(_) => self.tally.push(piece),
            Use::Data(_) => {
                self.data_bytes += piece.len() as u64;
                self.probe.push(piece);
                if self.probe.media().is_some() && self.source().is_none() {
                    self.tally.forget();
                }
                self.tally.push(piece);
            }
            Use::PictureUrl => self.picture_url(piece),
            Use::Encrypted => self.data_bytes += piece.len() as u64,
            Use::Model => self.model_bytes.push(piece),
            Use::Number => self.push_number(piece),
            Use::BlockType | Use::SourceType | Use::Detail => self.short.push(piece),
            Use::Elsewhere | Use::Nothing => {}
        }
    }

    pub(super) fn end_use(&mut self, used: Use) -> Result<(), Duplicate> {
        match used {
            Use::Text(part) | Use::Name(part) => {
                self.tally.end();
                self.note_span(part, None);
            }
            Use::Data(_) => self.end_data(),
            Use::PictureUrl => {
                if self.model.is_none() {
                    // What it counts depends on the model.
                    self.spans.lose();
                }
                self.picture.media = self.probe.media();
                self.picture.is_there = true;
                // Written without an object around it.
                if self.places.last() != Some(&Place::Picture) {
                    self.end_picture();
                }
            }
            Use::Detail => self.picture.low = self.short.bytes() == b"low",
            Use::Model => self.end_model(),
            Use::Number => self.end_number(),
            Use::BlockType => {
                if let Some(block) = self.blocks.last_mut() {
                    block.is_document = self.short.bytes() == b"document";
                    block.is_compaction = self.short.bytes() == b"compaction";
                }
            }
            Use::SourceType => {
                let is_base64 = self.short.bytes() == b"base64";
                if let Some(block) = self.blocks.last_mut()
                    // Which of two holds would decide what counts.
                    && block.source.replace(is_base64).is_some()
                {
                    return Err(Duplicate("type"));
                }
            }
            Use::Encrypted => {
                if let Some(block) = self.blocks.last_mut() {
                    block.encrypted += self.data_bytes;
                }
            }
            Use::Elsewhere => {
                if let Some(block) = self.blocks.last_mut() {
                    block.elsewhere += 1;
                }
            }
            Use::Nothing => {}
        }
        Ok(())
    }

    pub(super) fn push_number(&mut self, piece: &[u8]) {
        if let Some(number) = &mut self.number {
            number.push(piece);
        }
    }

    fn end_model(&mut self) {
        let model = self.model_bytes.bytes().to_vec();
        let rule = self.rules.models.number_of(&model);
        let nothing_yet = !self.tally.is_touched() && self.seen.pictures == [0; 3];
        let waits = self.waits && self.rules.is_exact(rule);
        if self.tally.is_bound() && nothing_yet && !waits {
            let method = self.rules.method(rule, &model);
            self.tally.begin_again(method);
        }
        (self.model, self.rule) = (Some(model), Some(rule));
    }
}
