//! docs/protocol.md's test vectors hold for this implementation. They were computed by
//! another one.

use edge_common::token::Token;
use edge_userspace::keys::derive::{key_hash, key_id, mac_key};
use edge_userspace::secret::ApiKey;

/// The cells of the row that begins with `title`, without their backquotes.
fn row(page: &str, title: &str) -> Vec<String> {
    let begin = format!("| {title} | `");
    let line = page.lines().find(|line| line.starts_with(&begin));
    let line = line.unwrap_or_else(|| panic!("no row {title:?} of vectors in docs/protocol.md"));
    let cells = line.trim_matches('|').split('|').skip(1);
    cells
        .map(|cell| cell.trim().trim_matches('`').to_owned())
        .collect()
}

#[test]
fn the_documented_vectors_hold() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/protocol.md");
    let page = std::fs::read_to_string(path).unwrap();
    let keys = row(&page, "API key");
    assert_eq!(keys.len(), 3);
    for (i, key) in keys.iter().enumerate() {
        let cell = |title: &str| row(&page, title).swap_remove(i);
        let key = ApiKey::new(key.clone().into_bytes());
        let mac = mac_key(&key, &cell("audience"));
        assert_eq!(key_id(&key).to_string(), cell("key id"));
        assert_eq!(hex::encode(key_hash(&key).expose()), cell("key hash"));
        assert_eq!(hex::encode(mac.expose()), cell("MAC key"));

        let nonce = hex::decode(cell("nonce")).unwrap();
        let nonce = u64::from_le_bytes(nonce.try_into().unwrap());
        let issued_at_s = cell("issued at").parse().unwrap();
        let token = Token::issue(key_id(&key), mac.words(), issued_at_s, nonce);
        let name = String::from_utf8(token.to_name().to_vec()).unwrap();
        assert_eq!(name, cell("token"));
        assert_eq!(name[45..], cell("tag"));
    }
}
