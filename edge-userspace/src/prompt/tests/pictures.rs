//! Pictures and documents, by their size.

use super::*;

/// A PNG's head in base64, of that size.
fn png(width: u32, height: u32) -> String {
    use base64::Engine as _;
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    png.extend(width.to_be_bytes());
    png.extend(height.to_be_bytes());
    png.extend([8, 6, 0, 0, 0]);
    png.extend([7; 2000]);
    base64::engine::general_purpose::STANDARD.encode(png)
}

#[test]
fn pictures_count_by_their_size_and_not_as_text() {
    let picture = |source: Value| {
        json!({ "model": "gpt-4o", "messages": [{ "role": "user", "content": [
            { "type": "text", "text": "What is this?" },
            { "type": "image", "source": source },
        ]}]})
    };
    let text = tokens("o200k_base", &["What is this?"]);
    let base64 = json!({ "type": "base64", "media_type": "image/png", "data": png(1000, 1000) });
    let sized = count(MESSAGES, &picture(base64));
    assert_eq!((sized.parts.pictures, sized.kind), (1334, Kind::Exact));
    assert_eq!(sized.tokens, text + 1334 + 6);
    // In any order, and without a type.
    let data = png(1000, 1000);
    for (source, tokens, kind) in [
        (
            format!(r#""type":"base64","data":"{data}""#),
            1334,
            Kind::Exact,
        ),
        (
            format!(r#""data":"{data}","type":"base64""#),
            1334,
            Kind::Exact,
        ),
        (format!(r#""data":"{data}""#), 1334, Kind::Exact),
        (
            r#""data":"one two three","type":"text""#.to_owned(),
            3,
            Kind::Exact,
        ),
        (
            r#""type":"text","data":"one two three""#.to_owned(),
            3,
            Kind::Exact,
        ),
        (r#""data":"one two three""#.to_owned(), 3, Kind::Exact),
        // A text that begins as a picture does.
        (
            format!(r#""data":"{data}","type":"text""#),
            data.len() as u64,
            Kind::Estimate,
        ),
    ] {
        let text = format!(
            r#"{{"model":"gpt-4o","messages":[{{"content":[{{"source":{{{source}}}}}]}}]}}"#
        );
        let count = read(MESSAGES, Limits::default(), &[text.as_bytes()])
            .unwrap()
            .count;
        assert_eq!(
            (count.tokens - 6, count.kind),
            (tokens, kind),
            "{source:.40}"
        );
    }
    for elsewhere in [
        json!({ "type": "url", "url": "https://example.com/a.png" }),
        json!({ "type": "file", "file_id": "file_1" }),
    ] {
        let fetched = count(MESSAGES, &picture(elsewhere));
        assert_eq!(
            (fetched.parts.pictures, fetched.kind),
            (1600, Kind::Estimate)
        );
        assert_eq!(fetched.low, text + 1 + 6);
    }
    let broken = json!({ "type": "base64", "media_type": "image/png", "data": "AAAA" });
    assert_eq!(count(MESSAGES, &picture(broken)).kind, Kind::Estimate);
}

#[test]
fn pictures_of_chat_count_by_tiles() {
    let request = |model: &str, url: &str, detail: &str| {
        json!({ "model": model, "messages": [{ "role": "user", "content": [
            { "type": "image_url", "image_url": { "url": url, "detail": detail } },
        ]}]})
    };
    let url = format!("data:image/png;base64,{}", png(2048, 4096));
    for (model, detail, tokens) in [
        ("gpt-4o", "high", 1105),
        ("gpt-4o", "auto", 1105),
        ("gpt-4o", "low", 85),
        ("gpt-4o-mini", "low", 2833),
        ("o1", "high", 75 + 6 * 150),
    ] {
        let count = count(CHAT, &request(model, &url, detail));
        assert_eq!(count.parts.pictures, tokens, "{model} {detail}");
    }
    let fetched = count(
        CHAT,
        &request("gpt-4o", "https://example.com/a.png", "high"),
    );
    assert_eq!(
        (fetched.parts.pictures, fetched.kind),
        (765, Kind::Estimate)
    );
    let fetched = count(CHAT, &request("gpt-4o", "https://example.com/a.png", "low"));
    assert_eq!((fetched.parts.pictures, fetched.kind), (85, Kind::Exact));
}
