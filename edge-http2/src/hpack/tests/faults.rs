//! Blocks that a peer must not send, those that are odd and allowed, and what they may cost.

use super::*;
use crate::hpack::Encoder;
use http::{HeaderName, HeaderValue, StatusCode};

/// A literal with indexing (`0x40`) or without (`0`), its strings as they are.
fn literal(how: u8, name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut block = vec![how];
    for string in [name, value] {
        crate::hpack::integer::write(0, 7, string.len(), &mut block);
        block.extend_from_slice(string);
    }
    block
}

#[test]
fn entries_that_are_not_there() {
    for block in [
        "80",
        "be",
        "ff 80 80 80 08",
        "7f 00 00",
        "0f 2f 00",
        "0f 80 80 80 08 00",
    ] {
        assert_eq!(
            decode(&mut Decoder::new(4096), &hex(block)),
            Err(Error::Index),
            "{block}"
        );
    }
    assert!(
        decode(&mut Decoder::new(4096), &hex("bd")).is_ok(),
        "the static table's last"
    );
}

#[test]
fn blocks_that_are_cut_off() {
    let whole = hex("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf");
    let fields_end = [0, 1, 2, 3];
    for cut in 0..whole.len() - 1 {
        let mut decoder = Decoder::new(4096);
        decode(
            &mut decoder,
            &hex("410f 7777 772e 6578 616d 706c 652e 636f 6d"),
        )
        .unwrap();
        decode(&mut decoder, &hex("400161 0162")).unwrap();
        let outcome = decode(&mut decoder, &whole[..cut]);
        match cut {
            _ if fields_end.contains(&cut) || cut == 4 => assert!(outcome.is_ok(), "{cut}"),
            _ => assert_eq!(outcome, Err(Error::Truncated), "{cut}"),
        }
    }
    let much = hex("00 7f ff ff ff ff 07 61");
    assert_eq!(
        decode(&mut Decoder::new(4096), &much),
        Err(Error::Truncated)
    );
}

#[test]
fn the_size_changes_at_the_beginning_alone_and_within_the_bound() {
    let ok = |block: &str| {
        assert!(
            decode(&mut Decoder::new(4096), &hex(block)).is_ok(),
            "{block}"
        );
    };
    let refused = |block: &str| {
        let outcome = decode(&mut Decoder::new(4096), &hex(block));
        assert_eq!(outcome, Err(Error::SizeUpdate), "{block}");
    };
    ok("20 82");
    ok("20 3fe11f 82"); // 0, then 4,096
    ok("3fe11f");
    refused("3fe21f"); // 4,097
    refused("82 20");
    refused("20 82 20");
    refused("400161 0162 20");
    refused("3f ff ff ff 7f");
}

#[test]
fn a_smaller_size_evicts_and_a_larger_one_brings_nothing_back() {
    let mut decoder = Decoder::new(4096);
    decode(
        &mut decoder,
        &[literal(0x40, b"a", b"1"), literal(0x40, b"b", b"2")].concat(),
    )
    .unwrap();
    assert_eq!(decoder.table_bytes(), 68);
    assert!(decode(&mut decoder, &hex("3f2c be")).unwrap() == [("b".to_owned(), b"2".to_vec())]); // 75
    assert_eq!(decoder.table_bytes(), 68);
    decode(&mut decoder, &hex("3f24")).unwrap(); // 67
    assert_eq!(decoder.table_bytes(), 34);
    assert_eq!(decode(&mut decoder, &hex("3fe11f bf")), Err(Error::Index));
}

#[test]
fn an_entry_larger_than_the_table_empties_it_and_is_no_fault() {
    let mut decoder = Decoder::new(100);
    decode(&mut decoder, &literal(0x40, b"a", b"1")).unwrap();
    let large = literal(0x40, b"a", &[b'x'; 68]);
    assert_eq!(decode(&mut decoder, &large).unwrap()[0].1, vec![b'x'; 68]);
    assert_eq!(decoder.table_bytes(), 0);
    let fitting = literal(0x40, b"a", &[b'x'; 67]);
    decode(&mut decoder, &fitting).unwrap();
    assert_eq!(decoder.table_bytes(), 100);
}

/// Section 4.4: the name is that of an entry which the new one pushes out.
#[test]
fn a_name_of_an_entry_that_goes() {
    let mut decoder = Decoder::new(80);
    decode(&mut decoder, &literal(0x40, b"name", &[b'x'; 40])).unwrap();
    let fields = decode(&mut decoder, &hex("7e 01 79")).unwrap();
    assert_eq!(fields, [("name".to_owned(), b"y".to_vec())]);
    assert_eq!(decoder.table_bytes(), 37);
    assert_eq!(decode(&mut decoder, &hex("be")).unwrap(), fields);
}

#[test]
fn names_that_are_bad_keep_their_place_in_the_table() {
    for name in [
        "",
        "Name",
        "na me",
        "name:",
        ":",
        ":unknown",
        ":Path",
        "n\u{e4}me",
        "na\0me",
        "x y",
    ] {
        let mut decoder = Decoder::new(4096);
        let block = [
            literal(0x40, name.as_bytes(), b"v"),
            literal(0x40, b"good", b"v"),
        ]
        .concat();
        let bad = ("BAD".to_owned(), b"BAD".to_vec());
        let good = ("good".to_owned(), b"v".to_vec());
        assert_eq!(
            decode(&mut decoder, &block).unwrap(),
            [bad.clone(), good.clone()],
            "{name:?}"
        );
        assert_eq!(decoder.table_bytes(), name.len() + 33 + 37);
        // Both, then a value of its own with the bad name.
        let again = fields(&mut decoder, &hex("bf be 0f30 02 7676")).unwrap();
        assert_eq!(
            again.iter().map(as_text).collect::<Vec<_>>(),
            [bad.clone(), good, bad]
        );
        assert_eq!(again[2].size, name.len() + 34, "{name:?}");
    }
}

#[test]
fn values_that_are_bad() {
    let value = |bytes: &[u8]| {
        let block = [literal(0x40, b"name", bytes), literal(0, b":path", bytes)].concat();
        let mut decoder = Decoder::new(4096);
        let fields = fields(&mut decoder, &block).unwrap();
        assert!(
            fields
                .iter()
                .all(|it| it.size == fields[0].size + it.name_length() - 4)
        );
        assert_eq!(fields[0].value == Value::Bad, fields[1].value == Value::Bad);
        assert_eq!(
            as_text(&fields[0]),
            decode(&mut decoder, &hex("be")).unwrap()[0]
        );
        fields[0].value.clone()
    };
    for bad in 0..=255_u8 {
        let is_bad = (bad < b' ' && bad != b'\t') || bad == 0x7f;
        assert_eq!(value(&[b'a', bad, b'a']) == Value::Bad, is_bad, "{bad:#x}");
    }
    for bad in [" a", "a ", "\ta", "a\t", " ", "\t"] {
        assert_eq!(value(bad.as_bytes()), Value::Bad, "{bad:?}");
    }
    assert_eq!(value(b""), Value::Plain(HeaderValue::from_static("")));
}

impl Field {
    fn name_length(&self) -> usize {
        match &self.name {
            Name::Plain(name) => name.as_str().len(),
            Name::Path => 5,
            _ => unreachable!("not of these tests"),
        }
    }
}

#[test]
fn names_that_need_no_parsing_are_as_others() {
    for name in [
        "x-api-key",
        "anthropic-version",
        "x-request-id",
        "content-type",
        "x-unheard-of",
    ] {
        let fields = fields(&mut Decoder::new(4096), &literal(0, name.as_bytes(), b"v")).unwrap();
        assert_eq!(fields[0].name, Name::Plain(HeaderName::from_static(name)));
    }
    let upper = literal(0, b"X-Api-Key", b"v");
    assert_eq!(
        fields(&mut Decoder::new(4096), &upper).unwrap()[0].name,
        Name::Bad
    );
}

/// What a table holds is what it counts for: not the blocks that its entries came in.
#[test]
fn an_entry_holds_no_block() {
    let mut decoder = Decoder::new(4096);
    let block = [
        literal(0, b"large", &[b'x'; 30_000]),
        literal(0x40, b"a", b"small"),
    ]
    .concat();
    let fields = fields(&mut decoder, &block).unwrap();
    let place = |field: &Field| match &field.value {
        Value::Plain(value) => value.as_bytes().as_ptr_range(),
        _ => unreachable!(),
    };
    let (large, small) = (place(&fields[0]), place(&fields[1]));
    assert!(small.end <= large.start || large.end <= small.start);
}

#[test]
fn a_changed_size_begins_the_next_block() {
    let mut encoder = Encoder::new();
    let mut block = |sizes: &[u32]| {
        let mut out = Vec::new();
        sizes.iter().for_each(|it| encoder.set_max_table_bytes(*it));
        encoder.status(StatusCode::OK, &mut out);
        out
    };
    assert_eq!(block(&[]), hex("88"));
    assert_eq!(
        block(&[4096, 65_536, u32::MAX]),
        hex("88"),
        "no more than 4,096 are used"
    );
    assert_eq!(block(&[100]), hex("3f45 88"));
    assert_eq!(block(&[]), hex("88"));
    assert_eq!(
        block(&[0, 4096]),
        hex("20 3fe11f 88"),
        "the smallest and the last"
    );
    assert_eq!(block(&[50, 30, 40]), hex("3e 3f09 88"));
    assert_eq!(block(&[0]), hex("20 88"));
}

#[test]
fn a_size_that_shrinks_evicts_the_encoders_too() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
    let name = HeaderName::from_static("name");
    let value = HeaderValue::from_static("value");
    for size in [4096, 0, 4096, 300, 4096] {
        encoder.set_max_table_bytes(size);
        for _ in 0..3 {
            let mut block = Vec::new();
            encoder.status(StatusCode::IM_A_TEAPOT, &mut block);
            encoder.field(&name, &value, true, &mut block);
            let fields = decode(&mut decoder, &block).unwrap();
            assert_eq!(fields[0], (":status".to_owned(), b"418".to_vec()));
            assert_eq!(fields[1], ("name".to_owned(), b"value".to_vec()));
        }
    }
}
