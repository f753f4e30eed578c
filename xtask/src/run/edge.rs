//! The real `edge` commands, as an operator or a client would call them: keys, tokens,
//! revocation, and the configuration that the demo's daemon runs with.

use super::process::output_of;
use super::row::Token;
use anyhow::Context as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The demo's audience.
pub(super) const AUDIENCE: &str = "demo";

/// An API key that `edge keys new` has made.
#[derive(Clone, Debug)]
pub(super) struct Key {
    /// Its public name.
    pub(super) id: String,
    /// File of mode 0600 that holds the key itself.
    pub(super) file: PathBuf,
}

/// The edge's command line and the demo's directory.
#[derive(Debug)]
pub(super) struct Edge {
    program: PathBuf,
    directory: PathBuf,
}

impl Edge {
    /// Works in `directory`.
    pub(super) fn new(program: PathBuf, directory: PathBuf) -> Self {
        Self { program, directory }
    }

    /// The `edge` binary.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// A file of the demo.
    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        command
    }

    /// `edge keys new`: a new key in `store`, in a file named after `name`.
    ///
    /// # Errors
    /// When the command fails.
    pub(super) fn new_key(&self, store: &Path, name: &str) -> anyhow::Result<Key> {
        let file = self.path(&format!("{name}.key"));
        let mut command = self.command(&["keys", "new", "--json", "--audience", AUDIENCE]);
        command.arg("--store").arg(store).args(["--name", name]);
        let shown = output_of(command.arg("--api-key-out").arg(&file))?;
        let shown: serde_json::Value =
            serde_json::from_str(&shown).context("`edge keys new --json`")?;
        let id = shown["key_id"].as_str().map(str::to_owned);
        Ok(Key {
            id: id.context("`edge keys new --json` names no key_id")?,
            file,
        })
    }

    /// `edge keys revoke`.
    ///
    /// # Errors
    /// When the command fails.
    pub(super) fn revoke(&self, store: &Path, key: &Key) -> anyhow::Result<()> {
        let mut command = self.command(&["keys", "revoke"]);
        command.arg("--store").arg(store).arg(&key.id);
        output_of(&mut command).map(drop)
    }

    /// `edge token`: the ALPN names that a client of this kind offers.
    ///
    /// # Errors
    /// When the command fails.
    pub(super) fn tokens(
        &self,
        kind: Token,
        key: &Key,
        stranger: &Key,
    ) -> anyhow::Result<Vec<String>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        Ok(match kind {
            Token::None => vec![],
            Token::Valid | Token::Used => vec![self.token(key, now)?],
            Token::Two => vec![self.token(key, now)?, self.token(key, now)?],
            Token::UnknownKey => vec![self.token(stranger, now)?],
            Token::Expired => vec![self.token(key, now - 3600)?],
            Token::FromFuture => vec![self.token(key, now + 3600)?],
            Token::FlippedTag => vec![flip_last_bit(&self.token(key, now)?)],
            Token::Malformed => {
                let mut name = self.token(key, now)?;
                name.truncate(name.len() - 1);
                vec![name]
            }
        })
    }

    fn token(&self, key: &Key, issued_at_s: u64) -> anyhow::Result<String> {
        let mut command = self.command(&["token", "--audience", AUDIENCE]);
        command.args(["--issued-at", &issued_at_s.to_string()]);
        output_of(command.arg("--api-key-file").arg(&key.file))
    }

    /// The line to type for a fresh token of this key.
    pub(super) fn token_command(&self, key: &Key) -> String {
        format!(
            "{} token --audience {AUDIENCE} --api-key-file {}",
            self.program.display(),
            key.file.display()
        )
    }

    /// Writes the daemon's configuration.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn configure(&self, settings: &Settings<'_>) -> anyhow::Result<PathBuf> {
        let listen: Vec<String> = settings.listen.iter().map(|a| format!("\"{a}\"")).collect();
        let text = format!(
            r#"# Written by `cargo xtask run`.
[listen]
addresses = [{listen}]

[tls]
certificate = "server.pem"
private_key = "server.key"

[keys]
store = "{store}"
audience = "{AUDIENCE}"

[kernel]
attach = "{attach}"

[upstream]
url = "http://{model}"

[admin]
address = "{admin}"

[[prompt.models]]
name = "claude-demo"
tokenizer = "o200k_base"
per_request = 0
per_message = 0
"#,
            listen = listen.join(", "),
            store = settings.store.display(),
            attach = settings.attach,
            model = settings.model,
            admin = settings.admin,
        );
        let path = self.path("edge.toml");
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        Ok(path)
    }
}

/// What differs from run to run.
#[derive(Debug)]
pub(super) struct Settings<'a> {
    /// Where clients connect.
    pub(super) listen: &'a [SocketAddr],
    /// The key store.
    pub(super) store: &'a Path,
    /// How XDP is to be attached.
    pub(super) attach: &'static str,
    /// The upstream.
    pub(super) model: SocketAddr,
    /// The admin address.
    pub(super) admin: SocketAddr,
}

/// Flips the lowest bit of the last hex digit, which is part of the tag.
fn flip_last_bit(token: &str) -> String {
    let (rest, last) = token.split_at(token.len() - 1);
    let digit = u32::from_str_radix(last, 16).unwrap_or(0) ^ 1;
    format!("{rest}{digit:x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_tag_differs_in_one_bit_and_stays_hex() {
        assert_eq!(flip_last_bit("ezl1-00a9"), "ezl1-00a8");
        assert_eq!(flip_last_bit("ezl1-00af"), "ezl1-00ae");
        assert_eq!(flip_last_bit("ezl1-00a8"), "ezl1-00a9");
    }
}
