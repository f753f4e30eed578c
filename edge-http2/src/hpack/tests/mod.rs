//! Whole header blocks.

mod examples;
mod faults;
mod properties;

use super::{Decoder, Error, Field, Name, Value};

/// The fields of a block as text; a name or a value that is bad as `BAD`.
fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, Vec<u8>)>, Error> {
    Ok(fields(decoder, block)?.iter().map(as_text).collect())
}

fn fields(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<Field>, Error> {
    let mut fields = Vec::new();
    decoder.decode(block, &mut |field| fields.push(field))?;
    Ok(fields)
}

fn as_text(field: &Field) -> (String, Vec<u8>) {
    let name = match &field.name {
        Name::Method => ":method",
        Name::Scheme => ":scheme",
        Name::Authority => ":authority",
        Name::Path => ":path",
        Name::Protocol => ":protocol",
        Name::Status => ":status",
        Name::Plain(name) => name.as_str(),
        Name::Bad => "BAD",
    };
    let value = match &field.value {
        Value::Plain(value) => value.as_bytes().to_vec(),
        Value::Pseudo(value) => value.to_vec(),
        Value::Bad => b"BAD".to_vec(),
    };
    if !matches!(
        (&field.name, &field.value),
        (Name::Bad, _) | (_, Value::Bad)
    ) {
        assert_eq!(field.size, name.len() + value.len() + 32);
    }
    assert_eq!(matches!(field.value, Value::Plain(_)), {
        matches!(field.name, Name::Plain(_)) && field.value != Value::Bad
    });
    (name.to_owned(), value)
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let bytes = digits.chunks(2).map(|it| str::from_utf8(it).unwrap());
    bytes
        .map(|it| u8::from_str_radix(it, 16).unwrap())
        .collect()
}
