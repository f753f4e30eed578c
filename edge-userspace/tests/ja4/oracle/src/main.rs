//! Prints `name<TAB>JA4` for each captured hello named on the command line, by an
//! implementation that is not ours.

use std::path::Path;

fn main() {
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).expect("a file of hex digits");
        let digits: String = text.lines().filter(|line| !line.starts_with('#')).collect();
        let bytes = hex::decode(digits).expect("hex digits");
        let ja4 = huginn_net_tls::parse_tls_client_hello_ja4(&bytes).expect("a ClientHello");
        let name = Path::new(&path).file_stem().expect("a file");
        println!("{}\t{ja4}", name.display());
    }
}
