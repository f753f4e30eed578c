//! Writes the ClientHello fixtures that rustls makes into the folder given as argument.
//! Called by `tests/hellos/remake.py`.

#[path = "../tests/common/rustls_client.rs"]
mod rustls_client;

use rustls_client::Kind;
use std::path::PathBuf;

/// The token of the protocol page: key `sk-edge-test`, audience `demo`.
const TOKEN: &str = "ezl1-16c90ee8f37ea61f6b49d2000001020304050607faee5d056928a260";

fn main() {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.expect("usage: rustls_hellos FOLDER");
    for kind in Kind::ALL {
        for (end, names) in [
            ("plain", &["h2", "http/1.1"][..]),
            ("token", &["h2", "http/1.1", TOKEN]),
        ] {
            let list: Vec<_> = names.iter().map(|name| name.as_bytes()).collect();
            let bytes = rustls_client::hello(kind, &list);
            let digits = hex::encode(&bytes);
            let mut text = format!(
                "# made by: rustls 0.23, {}\n# alpn: {}\n",
                kind.name(),
                names.join(" ")
            );
            for line in digits.as_bytes().chunks(96) {
                text.push_str(std::str::from_utf8(line).unwrap());
                text.push('\n');
            }
            let name = format!("rustls-{}-{end}.hex", kind.name());
            std::fs::write(folder.join(&name), text).unwrap();
            println!("{name}: {} bytes", bytes.len());
        }
    }
}
