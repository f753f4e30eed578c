//! What holds of all blocks: they are read as a plain model of the tables reads them, what is
//! written is read back, and no bytes make the decoder panic or let its table grow.

use super::*;
use crate::hpack::{Encoder, huffman, integer, static_table};
use http::{HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;

/// Few names and values, so that they repeat; some that are long.
fn field() -> impl Strategy<Value = (String, Vec<u8>)> {
    let name = prop_oneof![
        4 => proptest::sample::select(&["content-type", "x-api-key", "x-a", "x-b", "date", ":path"][..])
            .prop_map(str::to_owned),
        1 => "[a-z][a-z0-9-]{0,70}",
    ];
    let value = prop_oneof![
        4 => proptest::sample::select(&["", "a", "text/event-stream", "2023-06-01"][..])
            .prop_map(|it| it.as_bytes().to_vec()),
        2 => "[!-~]{1,90}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(0x80..=0xff_u8, 0..40),
        1 => (b'a'..=b'z', 0..5_000_usize).prop_map(|(byte, times)| vec![byte; times]),
    ];
    (name, value)
}

/// How the model writes a field, as far as there is a choice.
#[derive(Debug, Clone, Copy)]
struct How {
    first: u8,
    is_by_index: bool,
    is_huffman: (bool, bool),
}

fn how() -> impl Strategy<Value = How> {
    let first = proptest::sample::select(&[0x40, 0x40, 0x40, 0x10, 0x00][..]);
    (first, any::<bool>(), any::<(bool, bool)>()).prop_map(|(first, is_by_index, is_huffman)| How {
        first,
        is_by_index,
        is_huffman,
    })
}

/// A block: changes of the table's size, and fields.
type Block = (Vec<usize>, Vec<((String, Vec<u8>), How)>);

fn block() -> impl Strategy<Value = Block> {
    let sizes = proptest::collection::vec(0..=4096_usize, 0..3);
    let none = Just(Vec::new());
    let fields = proptest::collection::vec((field(), how()), 0..20);
    (prop_oneof![3 => none, 1 => sizes], fields)
}

/// The tables in their plainest form, and an encoder that uses all that the format has.
struct Model {
    entries: Vec<(String, Vec<u8>)>,
    limit: usize,
}

impl Model {
    fn size(&self) -> usize {
        self.entries
            .iter()
            .map(|(name, value)| name.len() + value.len() + 32)
            .sum()
    }

    fn evict(&mut self) {
        while self.size() > self.limit {
            self.entries.pop();
        }
    }

    fn write(&mut self, (sizes, fields): &Block) -> Vec<u8> {
        let mut out = Vec::new();
        for size in sizes {
            integer::write(0x20, 5, *size, &mut out);
            self.limit = *size;
            self.evict();
        }
        for (field, how) in fields {
            self.field(field, *how, &mut out);
        }
        out
    }

    fn field(&mut self, field: &(String, Vec<u8>), how: How, out: &mut Vec<u8>) {
        let whole = self.entries.iter().position(|it| it == field);
        if let (true, Some(place)) = (how.is_by_index, whole) {
            return integer::write(0x80, 7, 62 + place, out);
        }
        let place = self.entries.iter().position(|it| it.0 == field.0);
        let index = match (how.is_by_index, place) {
            (true, Some(place)) => 62 + place,
            (true, None) => {
                HeaderName::try_from(&field.0).map_or(0, |it| static_table::index_of(&it))
            }
            (false, _) => 0,
        };
        integer::write(how.first, if how.first == 0x40 { 6 } else { 4 }, index, out);
        if index == 0 {
            string(field.0.as_bytes(), how.is_huffman.0, out);
        }
        string(&field.1, how.is_huffman.1, out);
        if how.first == 0x40 {
            self.entries.insert(0, field.clone());
            self.evict();
        }
    }
}

fn string(bytes: &[u8], is_huffman: bool, out: &mut Vec<u8>) {
    if is_huffman {
        let encoded = huffman::tests::encode(bytes);
        integer::write(0x80, 7, encoded.len(), out);
        out.extend(encoded);
    } else {
        integer::write(0, 7, bytes.len(), out);
        out.extend_from_slice(bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn blocks_are_read_as_the_model_wrote_them(blocks in proptest::collection::vec(block(), 1..8)) {
        let mut model = Model { entries: Vec::new(), limit: 4096 };
        let mut decoder = Decoder::new(4096);
        for block in &blocks {
            let bytes = model.write(block);
            let read = fields(&mut decoder, &bytes).unwrap();
            prop_assert_eq!(read.len(), block.1.len());
            for (field, (sent, how)) in read.iter().zip(&block.1) {
                prop_assert_eq!(&as_text(field), sent);
                prop_assert!(!field.is_never_indexed || how.first == 0x10);
            }
            prop_assert_eq!(decoder.table_bytes(), model.size());
        }
    }

    #[test]
    fn what_is_written_is_read_back(
        blocks in proptest::collection::vec(
            (
                proptest::collection::vec(0..6_000_u32, 0..3),
                100..1000_u16,
                proptest::collection::vec((field(), any::<bool>(), any::<u64>()), 0..20),
            ),
            1..12,
        )
    ) {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        for (sizes, status, fields) in &blocks {
            let mut block = Vec::new();
            let mut expected = vec![(":status".to_owned(), status.to_string().into_bytes())];
            sizes.iter().for_each(|it| encoder.set_max_table_bytes(*it));
            encoder.status(StatusCode::from_u16(*status).unwrap(), &mut block);
            for ((name, value), is_kept, number) in fields {
                let Ok(name) = HeaderName::try_from(name) else { continue };
                let kept = HeaderValue::from_bytes(value).unwrap();
                encoder.field(&name, &kept, *is_kept, &mut block);
                expected.push((name.to_string(), value.clone()));
                encoder.number(&name, *number, &mut block);
                expected.push((name.to_string(), number.to_string().into_bytes()));
            }
            prop_assert_eq!(decode(&mut decoder, &block).unwrap(), expected);
        }
    }

    /// Any bytes, and blocks with some of their bytes changed: an error or fields, and the table
    /// stays within its bound.
    #[test]
    fn no_bytes_do_harm(
        blocks in proptest::collection::vec(block(), 1..4),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        noise in proptest::collection::vec(any::<u8>(), 0..200),
        max_table_bytes in 0..5_000_usize,
    ) {
        let mut model = Model { entries: Vec::new(), limit: 4096 };
        let mut decoder = Decoder::new(max_table_bytes);
        for block in &blocks {
            let mut bytes = model.write(block);
            for (place, change) in &changes {
                if !bytes.is_empty() {
                    let place = place.index(bytes.len());
                    bytes[place] ^= change;
                }
            }
            // (`as_text` checks that the parts of a field belong together.)
            let _ = decode(&mut decoder, &bytes);
            prop_assert!(decoder.table_bytes() <= max_table_bytes);
        }
        let _ = decode(&mut decoder, &noise);
        prop_assert!(decoder.table_bytes() <= max_table_bytes);
    }

    #[test]
    fn huffmans_code_is_read_back(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(huffman::tests::read(&huffman::tests::encode(&bytes)), Ok(bytes));
    }

    /// A string of noise is refused, or it is what its code says: written again it is the same.
    #[test]
    fn noise_has_one_meaning_at_most(noise in proptest::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(read) = huffman::tests::read(&noise) {
            prop_assert_eq!(huffman::tests::encode(&read), noise);
        }
    }
}
