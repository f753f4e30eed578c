//! `edge fingerprint`.

mod report;

use super::output::{Failure, Outcome};
use crate::context::canonical::Canonical;
use crate::context::{Chain, ContextId, Owner, Secret, Tenant};
use crate::prompt::Shape;
use crate::prompt::json::Reader;
use report::Report;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Show a request's fingerprint and the chain of its prefixes, and what of it plays no part.
///
/// The fingerprint is what a client may send in the header anthropic-fingerprint. The chain is
/// what an edge finds a conversation's next turn by; here it is made with a known secret, so it
/// can be compared from file to file, but not with that of a running edge, which has its own.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  edge fingerprint request.json
  edge fingerprint --json < request.json
  edge fingerprint --chat completion.json          of the Chat Completions API
  curl -H \"anthropic-fingerprint: $(edge fingerprint --json request.json | jq -r .fingerprint)\" …

Exit codes: 0 good, 1 the file cannot be read or is no request, 2 wrong usage.")]
pub(super) struct Fingerprint {
    /// A request's body; `-`, or none, is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// The request is one of Chat Completions, not of Messages.
    #[arg(long)]
    chat: bool,
    /// What the header x-anthropic-context-id says.
    #[arg(long, value_name = "NAME")]
    context_id: Option<String>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Largest body that is read: no API takes one like it.
const MAX_BYTES: u64 = 1 << 30;

impl Fingerprint {
    pub(super) fn run(self) -> Outcome {
        let name = match self.file == Path::new("-") {
            true => "standard input".to_owned(),
            false => self.file.display().to_string(),
        };
        let body = read(&self.file).map_err(|error| {
            let told = match error.kind() {
                io::ErrorKind::NotFound => "no such file".to_owned(),
                io::ErrorKind::IsADirectory => "is a directory; name a file".to_owned(),
                io::ErrorKind::PermissionDenied => "this user may not read it".to_owned(),
                _ => error.to_string(),
            };
            Failure::Because(format!("{name}: {told}"))
        })?;
        let shape = match self.chat {
            true => Shape::Chat,
            false => Shape::Messages,
        };
        let secret = Secret::demonstration();
        let mut canonical = Canonical::new(shape, &secret).explained();
        canonical.add_wire();
        let mut reader = Reader::new();
        (reader.push(&body, &mut canonical))
            .and_then(|()| reader.finish(&mut canonical))
            .map_err(|error| {
                let (line, column) = place(&body, error.at);
                let what = error.what;
                Failure::Because(format!(
                    "{name}:{line}:{column}: {what} (byte {})",
                    error.at
                ))
            })?;
        if !canonical.is_request() {
            return Err(Failure::Because(format!(
                "{name}: is no request: its JSON is no object"
            )));
        }
        let owner = Owner {
            tenant: Tenant(0),
            context: match &self.context_id {
                Some(name) => secret.context_id(name.as_bytes()),
                None => ContextId::NONE,
            },
        };
        let wire = canonical.wire_form();
        let notes = canonical.notes().unwrap_or_default();
        let chain = Chain::of(&canonical, &secret, owner, 0);
        let report = Report { wire, chain, notes };
        match self.json {
            true => report.print_json(),
            false => report.print(),
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    let bytes = match path == Path::new("-") {
        true => io::stdin()
            .lock()
            .take(MAX_BYTES + 1)
            .read_to_end(&mut body)?,
        false => File::open(path)?
            .take(MAX_BYTES + 1)
            .read_to_end(&mut body)?,
    };
    match bytes as u64 > MAX_BYTES {
        true => Err(io::Error::other(format!(
            "is larger than {MAX_BYTES} bytes, so it is no request"
        ))),
        false => Ok(body),
    }
}

/// Line and column of a byte, as editors count them: from 1, the column in characters.
fn place(text: &[u8], at: u64) -> (usize, usize) {
    let before = &text[..text.len().min(at as usize)];
    let line = memchr::memchr_iter(b'\n', before).count() + 1;
    let begins = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
    let is_start = |byte: &&u8| **byte & 0xc0 != 0x80;
    (line, before[begins..].iter().filter(is_start).count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_as_editors_count_them() {
        let text = "{\n \"é\": x\n}".as_bytes();
        assert_eq!(place(text, 0), (1, 1));
        assert_eq!(place(text, 9), (2, 7));
        assert_eq!(place(text, 100), (3, 2));
    }
}
