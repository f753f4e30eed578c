//! `edge token`.

use super::keys::read_api_key;
use super::moment;
use super::output::{Failure, Outcome, print_line};
use crate::keys::{derive, store::line::check_new_audience};
use crate::secret::Secret;
use std::path::PathBuf;

/// Make one pre-auth token: an ALPN protocol name for a client to offer last.
///
/// Each token is for one connection, within the edge's time window (30 s by default).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  edge token --api-key-file alice.key --audience demo
  openssl s_client -connect edge:443 -alpn \"http/1.1,$(edge token --api-key-file alice.key --audience demo)\"")]
pub(super) struct Token {
    /// File that holds the API key and nothing else.
    #[arg(long, value_name = "FILE")]
    api_key_file: PathBuf,
    /// The edge's audience.
    #[arg(long)]
    audience: String,
    /// When the token is said to be made: Unix seconds, now, or RFC 3339.
    #[arg(long, value_name = "TIME", default_value = "now", value_parser = moment::parse)]
    issued_at: u64,
}

impl Token {
    pub(super) fn run(self) -> Outcome {
        check_new_audience(&self.audience)
            .map_err(|what| Failure::because(format!("--audience: {what}")))?;
        let key = read_api_key(&self.api_key_file)?;
        let issued_at_s = u32::try_from(self.issued_at).map_err(|_| {
            Failure::because("--issued-at: tokens carry 32 bits of Unix time, until the year 2106")
        })?;
        let nonce = Secret::random(8)?;
        let nonce = nonce.expose().try_into().map_or(0, u64::from_le_bytes);
        let mac_key = derive::mac_key(&key, &self.audience);
        let id = derive::key_id(&key);
        let token = edge_common::token::Token::issue(id, mac_key.words(), issued_at_s, nonce);
        print_line(String::from_utf8_lossy(&token.to_name()))
    }
}
