use super::*;
use proptest::prelude::*;

/// Writes down what it is told, as compact JSON.
#[derive(Default)]
struct Written {
    out: String,
    open: Vec<u8>,
    comma: Vec<bool>,
    is_key: bool,
}

impl Written {
    fn before_value(&mut self) {
        if let Some(comma) = self.comma.last_mut() {
            if *comma && !self.out.ends_with(':') {
                self.out.push(',');
            }
            *comma = true;
        }
    }
}

impl Visit for Written {
    fn begin_object(&mut self) {
        self.before_value();
        self.out.push('{');
        self.comma.push(false);
    }
    fn end_object(&mut self) {
        self.out.push('}');
        self.comma.pop();
    }
    fn begin_array(&mut self) {
        self.before_value();
        self.out.push('[');
        self.comma.push(false);
    }
    fn end_array(&mut self) {
        self.out.push(']');
        self.comma.pop();
    }
    fn begin_string(&mut self, is_key: bool) {
        self.before_value();
        self.is_key = is_key;
        self.open.clear();
    }
    fn string(&mut self, piece: &[u8]) {
        assert!(!piece.is_empty(), "no empty pieces");
        self.open.extend_from_slice(piece);
    }
    fn end_string(&mut self) -> Result<(), Duplicate> {
        let text = std::str::from_utf8(&self.open).expect("strings are UTF-8");
        if self.is_key && text == "owned twice" {
            return Err(Duplicate("owned twice"));
        }
        self.out += &serde_json::to_string(text).unwrap();
        if self.is_key {
            self.out.push(':');
        }
        Ok(())
    }
    fn begin_number(&mut self) {
        self.before_value();
        self.open = b"number".to_vec();
    }
    fn number(&mut self, piece: &[u8]) {
        assert_eq!(self.open, b"number");
        self.out += std::str::from_utf8(piece).unwrap();
    }
    fn end_number(&mut self) {
        assert_eq!(self.open, b"number");
        self.open.clear();
    }
    fn literal(&mut self, literal: Literal) {
        self.before_value();
        self.out += literal.text();
    }
}

fn read(chunks: &[&[u8]]) -> Result<String, Error> {
    let (mut reader, mut written) = (Reader::new(), Written::default());
    for chunk in chunks {
        reader.push(chunk, &mut written)?;
    }
    reader.finish(&mut written)?;
    Ok(written.out)
}

fn whole(text: &[u8]) -> Result<String, Error> {
    read(&[text])
}

/// Every split at every byte, and byte by byte.
fn is_the_same_in_pieces(text: &[u8]) {
    let expected = whole(text);
    for at in 0..=text.len() {
        let (a, b) = text.split_at(at);
        assert_eq!(read(&[a, b]), expected, "{:?} at {at}", text.escape_ascii());
    }
    let bytes: Vec<_> = text.chunks(1).collect();
    assert_eq!(read(&bytes), expected, "{:?}", text.escape_ascii());
}

const GOOD: [(&str, &str); 22] = [
    ("{}", "{}"),
    (" [ ] ", "[]"),
    ("0", "0"),
    ("-0", "-0"),
    (" 12 ", "12"),
    ("[-1.5e+10,2E-3,0.25,1e5]", "[-1.5e+10,2E-3,0.25,1e5]"),
    ("[true,false,null]", "[true,false,null]"),
    (r#""""#, r#""""#),
    (r#""abc""#, r#""abc""#),
    (
        r#""a\"b\\c\/d\be\ff\ng\rh\ti""#,
        r#""a\"b\\c/d\be\ff\ng\rh\ti""#,
    ),
    (r#""\u0041\u00e9\u20ac\uD83E\uDD80""#, r#""Aé€🦀""#),
    (r#""\ud800""#, "\"\u{fffd}\""),
    (r#""\udc00x""#, "\"\u{fffd}x\""),
    (r#""\ud800\ud801\udc00""#, "\"\u{fffd}\u{10400}\""),
    (
        r#""\ud800\n\ud800\\\ud800\u0041""#,
        "\"\u{fffd}\\n\u{fffd}\\\\\u{fffd}A\"",
    ),
    (r#""é€🦀""#, r#""é€🦀""#),
    (r#"{"a":1}"#, r#"{"a":1}"#),
    (
        r#"{ "a" : [ { "b" : "c" } , 2 ] , "d" : { } }"#,
        r#"{"a":[{"b":"c"},2],"d":{}}"#,
    ),
    ("\t\r\n[\n1\r,\t2]\n", "[1,2]"),
    (r#"{"\u0061":{"":null}}"#, r#"{"a":{"":null}}"#),
    (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#),
    ("1e999", "1e999"),
];

const BAD: [(&[u8], u64, Wrong); 40] = [
    (b"", 0, Wrong::Ends),
    (b" ", 1, Wrong::Ends),
    (b"{", 1, Wrong::Ends),
    (b"[1", 2, Wrong::Ends),
    (b"[1,", 3, Wrong::Ends),
    (b"\"a", 2, Wrong::Ends),
    (b"\"\\", 2, Wrong::Ends),
    (b"\"\\ud800", 7, Wrong::Ends),
    (b"tru", 3, Wrong::Ends),
    (b"-", 1, Wrong::Ends),
    (b"1.", 2, Wrong::Ends),
    (b"1e", 2, Wrong::Ends),
    (b"1e+", 3, Wrong::Ends),
    (b"{\"a\"", 4, Wrong::Ends),
    (b"{\"a\":", 5, Wrong::Ends),
    (b"{} {}", 3, Wrong::GoesOn),
    (b"1 2", 2, Wrong::GoesOn),
    (b"01", 1, Wrong::GoesOn),
    (b"]", 0, Wrong::Expected("a value")),
    (b"[,1]", 1, Wrong::Expected("a value or ]")),
    (b"[1,]", 3, Wrong::Expected("a value")),
    (b"[1}", 2, Wrong::Expected("a comma or ]")),
    (b"{]", 1, Wrong::Expected("a key or }")),
    (b"{\"a\":1,}", 7, Wrong::Expected("a key")),
    (b"{\"a\" 1}", 5, Wrong::Expected("a colon")),
    (b"{\"a\":1]", 6, Wrong::Expected("a comma or }")),
    (b"{a:1}", 1, Wrong::Expected("a key or }")),
    (b"[-a]", 2, Wrong::Expected("a digit")),
    (b"[1.]", 3, Wrong::Expected("a digit")),
    (b"[1.e1]", 3, Wrong::Expected("a digit")),
    (b"[+1]", 1, Wrong::Expected("a value or ]")),
    (b"[truE]", 4, Wrong::Expected("true, false or null")),
    (b"\"a\nb\"", 2, Wrong::Control),
    (b"\"a\0\"", 2, Wrong::Control),
    (b"\"\\x\"", 2, Wrong::Escape),
    (b"\"\\u12g4\"", 5, Wrong::Escape),
    (b"\"a\xff\"", 2, Wrong::Utf8),
    (b"\"\xe2\x82\"", 1, Wrong::Utf8),
    (b"\xef\xbb\xbf1", 0, Wrong::Expected("a value")),
    (b"{\"owned twice\":1}", 13, Wrong::Duplicate("owned twice")),
];

#[test]
fn good_texts_are_read_whole_and_in_pieces() {
    for (text, expected) in GOOD {
        assert_eq!(whole(text.as_bytes()).as_deref(), Ok(expected), "{text}");
        is_the_same_in_pieces(text.as_bytes());
    }
}

#[test]
fn bad_texts_are_told_with_their_place() {
    for (text, at, what) in BAD {
        assert_eq!(
            whole(text),
            Err(Error { at, what }),
            "{:?}",
            text.escape_ascii()
        );
        is_the_same_in_pieces(text);
    }
    let error = whole(b"[1,]").unwrap_err();
    assert_eq!(error.to_string(), "expected a value at byte 3");
}

#[test]
fn the_first_error_stays() {
    let (mut reader, mut written) = (Reader::new(), Written::default());
    let error = reader.push(b"[x", &mut written).unwrap_err();
    assert_eq!(reader.push(b"]", &mut written), Err(error));
    assert_eq!(reader.finish(&mut written), Err(error));
}

#[test]
fn depth_is_bounded_as_serde_json_bounds_it() {
    let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
    for (depth, good) in [(127, true), (128, false)] {
        let text = nested(depth);
        assert_eq!(whole(&text).is_ok(), good, "{depth}");
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(&text).is_ok(),
            good
        );
    }
    let error = whole(&nested(128)).unwrap_err();
    assert_eq!((error.at, error.what), (127, Wrong::Depth));
}

#[test]
fn keys_and_numbers_have_a_longest() {
    let key = |bytes: usize| format!("{{\"{}\":1}}", "k".repeat(bytes));
    assert!(whole(key(MAX_KEY_BYTES).as_bytes()).is_ok());
    let error = whole(key(MAX_KEY_BYTES + 1).as_bytes()).unwrap_err();
    assert_eq!(error.what, Wrong::KeyLength);
    let escaped = format!("{{\"{}\":1}}", "\\n".repeat(MAX_KEY_BYTES + 1));
    assert_eq!(
        whole(escaped.as_bytes()).unwrap_err().what,
        Wrong::KeyLength
    );
    assert!(whole("1".repeat(MAX_NUMBER_BYTES).as_bytes()).is_ok());
    let error = whole("1".repeat(MAX_NUMBER_BYTES + 1).as_bytes()).unwrap_err();
    assert_eq!(error.what, Wrong::NumberLength);
}

#[test]
fn long_strings_with_and_without_escapes_come_out_whole() {
    for unit in [
        "plain text, ",
        "line\\n",
        "\\u00e9\\n",
        "日本\\t",
        "a \\\"quoted\\\" word ",
    ] {
        for times in [1, 100, 5000] {
            let text = format!("[\"{}\"]", unit.repeat(times));
            let expected: Vec<String> = serde_json::from_str(&text).unwrap();
            let expected = serde_json::to_string(&expected).unwrap();
            for chunk in [1, 7, 4096, text.len()] {
                let chunks: Vec<_> = text.as_bytes().chunks(chunk).collect();
                assert_eq!(
                    read(&chunks).as_deref(),
                    Ok(expected.as_str()),
                    "{unit} {times} {chunk}"
                );
            }
        }
    }
}

/// What serde_json takes, but for the named exceptions.
fn agrees_with_serde_json(text: &[u8]) -> Result<(), TestCaseError> {
    let ours = whole(text);
    match serde_json::from_slice::<serde_json::Value>(text) {
        // Its map keeps one of two equal keys and its own order.
        Ok(value) => {
            let again: serde_json::Value = serde_json::from_str(&ours.unwrap()).unwrap();
            prop_assert_eq!(again, value);
        }
        Err(error) => {
            let excepted = error.to_string().contains("surrogate")
                || error.to_string().contains("hex escape")
                || error.to_string().contains("number out of range");
            prop_assert!(
                ours.is_err() || excepted,
                "{error}: {:?}",
                text.escape_ascii()
            );
        }
    }
    Ok(())
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<f64>().prop_filter_map("finite", |value| serde_json::to_string(&value).ok()),
        any::<i64>().prop_map(|value| value.to_string()),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        "\"(\\\\u[0-9a-fA-F]{4}|\\\\[bfnrt/\"\\\\]|[a-z]){0,8}\"",
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6)
                .prop_map(|values| format!("[ {} ]", values.join(" ,"))),
            prop::collection::vec((any::<String>(), inner), 0..6).prop_map(|pairs| {
                let pairs: Vec<_> = (pairs.iter())
                    .map(|(key, value)| format!("{}: {value}", serde_json::to_string(key).unwrap()))
                    .collect();
                format!("{{{}}}", pairs.join(",\n"))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn takes_what_serde_json_takes(text in json()) {
        agrees_with_serde_json(text.as_bytes())?;
    }

    #[test]
    fn refuses_what_serde_json_refuses(
        text in json(),
        at in any::<prop::sample::Index>(),
        change in prop_oneof![
            Just(None),
            any::<u8>().prop_map(Some),
            prop::sample::select(b"\"\\{}[],:.-+eEtfn0u \n\x1f\x7f\xc3\xa9".to_vec()).prop_map(Some),
        ],
        insert in any::<bool>(),
    ) {
        let mut text = text.into_bytes();
        let at = at.index(text.len());
        match change {
            None => drop(text.remove(at)),
            Some(byte) if insert => text.insert(at, byte),
            Some(byte) => text[at] = byte,
        }
        agrees_with_serde_json(&text)?;
    }

    #[test]
    fn refuses_noise_as_serde_json_does(
        text in prop::collection::vec(prop::sample::select(b"\"\\{}[],:.-+eE0129truefalsnu dD8c\n\x01\xc3\xa9\xf0\x9f\xa6\x80\xff".to_vec()), 0..24)
    ) {
        agrees_with_serde_json(&text)?;
    }

    #[test]
    fn any_chunks_are_the_whole(text in json(), bad in any::<Option<(prop::sample::Index, u8)>>(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
        let mut text = text.into_bytes();
        if let Some((at, byte)) = bad {
            let at = at.index(text.len());
            text[at] = byte;
        }
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let chunks: Vec<_> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
        prop_assert_eq!(read(&chunks), whole(&text));
    }
}
