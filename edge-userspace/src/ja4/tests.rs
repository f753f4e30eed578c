use super::*;
use std::path::Path;

/// The specification's example: its lists, in its order, with GREASE where Chrome puts it.
const CIPHERS: [u16; 16] = [
    0x0a0a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014,
    0x009c, 0x009d, 0x002f, 0x0035,
];
const EXTENSIONS: [u16; 18] = [
    0x3a3a, 0x001b, 0x0000, 0x0033, 0x0010, 0x4469, 0x0017, 0x002d, 0x000d, 0x0005, 0x0023, 0x0012,
    0x002b, 0xff01, 0x000b, 0x000a, 0x0015, 0xfafa,
];
const SIGNATURES: [u16; 8] = [
    0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601,
];

/// A hello to be made.
#[derive(Clone)]
struct Made {
    version: u16,
    ciphers: Vec<u16>,
    extensions: Vec<u16>,
    versions: Vec<u16>,
    signatures: Vec<u16>,
    names: Vec<Vec<u8>>,
}

fn example() -> Made {
    Made {
        version: 0x0303,
        ciphers: CIPHERS.to_vec(),
        extensions: EXTENSIONS.to_vec(),
        versions: vec![0x6a6a, 0x0304, 0x0303],
        signatures: SIGNATURES.to_vec(),
        names: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    }
}

fn bytes(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn list8(content: &[u8]) -> Vec<u8> {
    [&[u8::try_from(content.len()).unwrap()], content].concat()
}

fn list16(content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap();
    [&length.to_be_bytes(), content].concat()
}

impl Made {
    fn handshake(&self) -> Vec<u8> {
        let mut extensions = Vec::new();
        for kind in &self.extensions {
            let data = match *kind {
                SIGNATURE_ALGORITHMS => list16(&bytes(&self.signatures)),
                SUPPORTED_VERSIONS => list8(&bytes(&self.versions)),
                ALPN => list16(
                    &self
                        .names
                        .iter()
                        .flat_map(|name| list8(name))
                        .collect::<Vec<_>>(),
                ),
                _ => b"anything".to_vec(),
            };
            extensions.extend(kind.to_be_bytes());
            extensions.extend(list16(&data));
        }
        let mut body = self.version.to_be_bytes().to_vec();
        body.extend([7; RANDOM]);
        body.extend(list8(&[9; 32]));
        body.extend(list16(&bytes(&self.ciphers)));
        body.extend(list8(&[0]));
        body.extend(list16(&extensions));
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[HANDSHAKE_CLIENT_HELLO], &length[1..], &body].concat()
    }

    fn ja4(&self) -> String {
        Ja4::of(&self.handshake()).expect("a hello").to_string()
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

#[test]
fn the_specifications_example() {
    assert_eq!(example().ja4(), "t13d1516h2_8daaf6152771_e5627efa2ab1");
    let unsigned = example().with(|hello| hello.signatures.clear());
    assert_eq!(unsigned.ja4(), "t13d1516h2_8daaf6152771_6d807ffa2a79");
}

#[test]
fn order_and_grease_change_nothing_but_the_order_of_signatures_does() {
    let other = example().with(|hello| {
        hello.ciphers.reverse();
        hello.extensions.rotate_left(7);
        hello.versions.reverse();
        hello.signatures.insert(3, 0xdada);
    });
    assert_eq!(other.ja4(), example().ja4());
    let resigned = example().with(|hello| hello.signatures.swap(0, 1));
    assert_ne!(resigned.ja4(), example().ja4());
    // Like GREASE and none: the bytes differ, or they do not end in `a`.
    for near in [0x0a1a, 0x1a0a, 0x0b0b, 0x0aaa] {
        let more = example().with(|hello| hello.ciphers.push(near));
        assert!(more.ja4().starts_with("t13d1616h2_"), "{near:04x}");
    }
}

#[test]
fn the_first_name_as_the_specification_lists_it() {
    for (name, ends) in [
        (&b"h2"[..], "h2"),
        (b"http/1.1", "h1"),
        (b"x", "xx"),
        (b"", "00"),
        (b"\xab", "ab"),
        (b" ", "20"),
        (b"\xab\xcd", "ad"),
        (b" a", "21"),
        (b"0\xab", "3b"),
        (b"a ", "60"),
        (b"01\xab\xcd", "3d"),
        (b"0\xab\xcd1", "01"),
    ] {
        let hello = example().with(|hello| hello.names[0] = name.to_vec());
        assert_eq!(hello.ja4()[8..10], *ends, "{name:?}");
    }
    let none = example().with(|hello| hello.names.clear());
    assert!(none.ja4().starts_with("t13d151600_"), "{}", none.ja4());
}

#[test]
fn the_highest_version_that_is_named() {
    for (version, versions, shown) in [
        (0x0303, Some(vec![0x0304, 0x0303]), "13"),
        (0x0304, Some(vec![0x0303]), "12"),
        (0x0303, None, "12"),
        (0x0302, None, "11"),
        (0x0301, None, "10"),
        (0x0300, None, "s3"),
        (0x0002, None, "s2"),
        (0x0404, None, "00"),
        (0x0303, Some(vec![0x1a1a]), "12"),
    ] {
        let hello = example().with(|hello| {
            hello.version = version;
            match versions {
                Some(versions) => hello.versions = versions,
                None => hello.extensions.retain(|kind| *kind != SUPPORTED_VERSIONS),
            }
        });
        assert_eq!(hello.ja4()[1..3], *shown, "{version:04x}");
    }
}

#[test]
fn what_is_not_there_is_zero_and_counts_end_at_99() {
    let bare = example().with(|hello| {
        hello.extensions = vec![SERVER_NAME];
        hello.ciphers = vec![0x0a0a];
    });
    assert_eq!(bare.ja4(), "t12d000100_000000000000_000000000000");
    let nameless = example().with(|hello| hello.extensions.retain(|kind| *kind != SERVER_NAME));
    assert_eq!(nameless.ja4(), "t13i1515h2_8daaf6152771_e5627efa2ab1");
    let many = example().with(|hello| {
        hello.ciphers = (0..150).collect();
        hello.extensions.extend(100..250);
    });
    assert!(many.ja4().starts_with("t13d9999h2_"), "{}", many.ja4());
    let mut handshake = example().with(|hello| hello.extensions.clear()).handshake();
    // Without even a list of extensions.
    handshake.truncate(handshake.len() - 2);
    handshake[3] -= 2;
    let ja4 = Ja4::of(&handshake).unwrap().to_string();
    assert_eq!(ja4, "t12i150000_8daaf6152771_000000000000");
}

#[test]
fn the_token_is_left_out() {
    let token = b"ezl1-16c90ee8f37ea61f6b49d2000001020304050607faee5d056928a260".to_vec();
    let without = example().ja4();
    for place in 0..=2 {
        let hello = example().with(|hello| hello.names.insert(place, token.clone()));
        assert_eq!(hello.ja4(), without, "the token as name {place}");
    }
    let alone = example().with(|hello| hello.names = vec![token]);
    let none = example().with(|hello| hello.extensions.retain(|kind| *kind != ALPN));
    assert_eq!(alone.ja4(), none.ja4(), "as if there were no ALPN");
    assert!(none.ja4().starts_with("t13d151500_"), "{}", none.ja4());
}

#[test]
fn no_part_of_a_hello_has_a_fingerprint_and_none_panics() {
    let handshake = example().handshake();
    for length in 0..handshake.len() {
        assert_eq!(Ja4::of(&handshake[..length]), None, "{length} bytes");
    }
    for at in 0..handshake.len() {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut changed = handshake.clone();
            changed[at] = byte;
            if let Some(ja4) = Ja4::of(&changed) {
                let text = ja4.as_str();
                assert_eq!(text.len(), LENGTH, "byte {at} is {byte}");
                assert!(text.is_ascii() && text.split('_').count() == 3, "{text}");
            }
        }
    }
}

/// The hellos of real clients, against what another implementation says of them: the lines
/// of `tests/ja4/captured.tsv` come from `tests/ja4/oracle`.
#[test]
fn captured_hellos_have_the_fingerprint_that_another_implementation_gives() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let expected = std::fs::read_to_string(folder.join("tests/ja4/captured.tsv")).unwrap();
    let mut expected: Vec<_> = (expected.lines())
        .map(|line| line.split_once('\t').expect("name and fingerprint"))
        .collect();
    assert!(expected.len() >= 20, "lines are missing");
    let hellos = folder.join("../edge-common/tests/hellos");
    for entry in hellos.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "hex") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let digits: String = text.lines().filter(|line| !line.starts_with('#')).collect();
        let bytes = hex::decode(digits).unwrap();
        let length = usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
        let ja4 = Ja4::of(&bytes[5..5 + length]).map(|ja4| ja4.to_string());
        let place = expected.iter().position(|(other, _)| *other == name);
        let (_, wanted) = expected.swap_remove(place.unwrap_or_else(|| {
            panic!("{name} has no line in captured.tsv; tests/ja4/oracle/README.md says how")
        }));
        assert_eq!(ja4.as_deref(), Some(wanted), "{name}");
    }
    assert!(expected.is_empty(), "no such hello: {expected:?}");
}
