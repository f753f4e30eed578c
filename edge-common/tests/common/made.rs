//! ClientHellos put together by hand, after RFC 8446 section 4.1.2, and a list of the
//! length fields in one. Shares no line with the scanner.

/// A ClientHello in parts.
#[derive(Clone)]
pub(crate) struct Hello {
    pub(crate) session_id: Vec<u8>,
    pub(crate) ciphers: Vec<u16>,
    pub(crate) compression: Vec<u8>,
    /// `None`: no extensions block at all (RFC 5246 section 7.4.1.2).
    pub(crate) extensions: Option<Vec<(u16, Vec<u8>)>>,
}

impl Hello {
    /// One that rustls would serve, with these ALPN names last.
    pub(crate) fn offering(names: &[&[u8]]) -> Self {
        let mut hello = Self::bare();
        hello.add(16, alpn(names));
        hello
    }

    /// One that rustls would serve, without ALPN.
    pub(crate) fn bare() -> Self {
        Self {
            session_id: vec![5; 32],
            ciphers: vec![0x1301, 0x1302, 0xc02b],
            compression: vec![0],
            extensions: Some(vec![
                (0, b"\x00\x0f\x00\x00\x0cedge.example".to_vec()), // server_name
                (10, vec![0, 2, 0, 29]),                           // supported_groups
                (13, vec![0, 4, 8, 4, 4, 3]),                      // signature_algorithms
                (43, vec![4, 3, 4, 3, 3]),                         // supported_versions
            ]),
        }
    }

    /// Adds an extension at the end.
    pub(crate) fn add(&mut self, kind: u16, body: Vec<u8>) -> &mut Self {
        self.extensions.get_or_insert_default().push((kind, body));
        self
    }

    /// The handshake message, with its header.
    pub(crate) fn message(&self) -> Vec<u8> {
        let ciphers: Vec<u8> = self.ciphers.iter().flat_map(|c| c.to_be_bytes()).collect();
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend(with_u8(&self.session_id));
        body.extend(with_u16(&ciphers));
        body.extend(with_u8(&self.compression));
        if let Some(extensions) = &self.extensions {
            let mut block = Vec::new();
            for (kind, bytes) in extensions {
                block.extend(kind.to_be_bytes());
                block.extend(with_u16(bytes));
            }
            body.extend(with_u16(&block));
        }
        let length = (body.len() as u32).to_be_bytes();
        [&[1, length[1], length[2], length[3]], body.as_slice()].concat()
    }

    /// In one TLS record.
    pub(crate) fn record(&self) -> Vec<u8> {
        record(&self.message())
    }
}

/// A handshake record around a fragment.
pub(crate) fn record(fragment: &[u8]) -> Vec<u8> {
    [&[22, 3, 1], with_u16(fragment).as_slice()].concat()
}

/// The body of an ALPN extension (RFC 7301 section 3.1).
pub(crate) fn alpn(names: &[&[u8]]) -> Vec<u8> {
    let list: Vec<u8> = names.iter().flat_map(|name| with_u8(name)).collect();
    with_u16(&list)
}

/// Bytes behind their length in one byte.
pub(crate) fn with_u8(bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).unwrap();
    [&[length], bytes].concat()
}

/// Bytes behind their length in two bytes.
pub(crate) fn with_u16(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    [&length.to_be_bytes(), bytes].concat()
}

/// A length field in a hello: where it is and how many bytes it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LengthField {
    pub(crate) what: &'static str,
    pub(crate) at: usize,
    pub(crate) bytes: usize,
}

impl LengthField {
    pub(crate) fn value(self, hello: &[u8]) -> u32 {
        let field = &hello[self.at..self.at + self.bytes];
        field
            .iter()
            .fold(0, |value, byte| value << 8 | u32::from(*byte))
    }

    pub(crate) fn max(self) -> u32 {
        (1 << (8 * self.bytes)) - 1
    }

    pub(crate) fn set(self, hello: &mut [u8], value: u32) {
        let bytes = value.to_be_bytes();
        hello[self.at..self.at + self.bytes].copy_from_slice(&bytes[4 - self.bytes..]);
    }
}

/// Every length that a reader must follow to find the ALPN names of a good hello.
pub(crate) fn length_fields(hello: &[u8]) -> Vec<LengthField> {
    let mut fields = Vec::new();
    let mut field = |what, at, bytes| {
        let field = LengthField { what, at, bytes };
        fields.push(field);
        field.value(hello) as usize
    };
    let end = 5 + field("record", 3, 2);
    field("handshake message", 6, 3);
    let mut at = 9 + 2 + 32;
    at += 1 + field("session id", at, 1);
    at += 2 + field("cipher suites", at, 2);
    at += 1 + field("compression methods", at, 1);
    if at == end {
        return fields;
    }
    field("extensions", at, 2);
    at += 2;
    while at < end {
        let kind = u16::from_be_bytes([hello[at], hello[at + 1]]);
        let next = at + 4 + field("extension", at + 2, 2);
        if kind == 16 {
            field("ALPN names", at + 4, 2);
            at += 6;
            while at < next {
                at += 1 + field("ALPN name", at, 1);
            }
        }
        at = next;
    }
    assert_eq!(at, end);
    fields
}
