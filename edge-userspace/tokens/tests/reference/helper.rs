//! A reference tokenizer in a process of its own: texts on its standard input, counts on its
//! standard output.

use super::Reference;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// A hang guard.
const PATIENCE: Duration = Duration::from_secs(900);
/// What a reference says where it fails itself.
const REFUSED: u64 = u64::MAX;
/// Texts are sent in batches of about this many bytes.
const BATCH_BYTES: usize = 4 << 20;

/// The process; it ends with this.
pub(crate) struct Helper {
    name: &'static str,
    child: Child,
    texts: Option<ChildStdin>,
    counts: Receiver<u64>,
}

impl Helper {
    /// The Python package tiktoken with one of its encodings, or with the ranks and the
    /// pattern of Claude-2; or why it cannot run.
    pub(crate) fn tiktoken(encoding: &str) -> Result<Self, String> {
        let folder = super::folder();
        let python = needed(folder.join("venv/bin/python"), "tiktoken (PyPI)")?;
        let ranks = match encoding {
            "claude-2" => needed(anthropic(&folder), "@anthropic-ai/tokenizer (npm)")?,
            _ => needed(folder.join("ranks"), "the rank files of tiktoken")?,
        };
        let mut command = Command::new(python);
        command.arg(script("tiktoken_counts.py")).arg(encoding);
        Self::start("tiktoken", command.arg(ranks))
    }

    /// The npm package @anthropic-ai/tokenizer; or why it cannot run.
    pub(crate) fn anthropic() -> Result<Self, String> {
        let folder = super::folder();
        needed(anthropic(&folder), "@anthropic-ai/tokenizer (npm)")?;
        let mut command = Command::new("node");
        command
            .arg(script("anthropic_counts.mjs"))
            .arg(folder.join("npm"));
        Self::start("@anthropic-ai/tokenizer", &mut command)
    }

    fn start(name: &'static str, command: &mut Command) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("needs {name}: {:?}: {error}", command.get_program()))?;
        let texts = child.stdin.take();
        let mut said = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        let heard = said.read_line(&mut line);
        if !heard.is_ok_and(|_| line == "ready\n") {
            let status = child.wait().map_err(|error| error.to_string())?;
            return Err(format!("needs {name}, which ended at once: {status}"));
        }
        // Read elsewhere, so that waiting for a count can have an end.
        let (tell, counts) = mpsc::sync_channel(1024);
        std::thread::spawn(move || {
            let mut count = [0; 8];
            while said.read_exact(&mut count).is_ok() {
                if tell.send(u64::from_le_bytes(count)).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            name,
            child,
            texts,
            counts,
        })
    }

    fn batch(&mut self, texts: &[&[u8]]) -> Vec<Option<u64>> {
        let number = |length: usize| u32::try_from(length).expect("a batch").to_le_bytes();
        let mut message = number(texts.len()).to_vec();
        for text in texts {
            message.extend(number(text.len()));
            message.extend(*text);
        }
        // The helper reads a batch whole before it answers: neither waits for the other.
        let sent = self.texts.as_mut().map(|pipe| pipe.write_all(&message));
        assert!(matches!(sent, Some(Ok(()))), "{} ended", self.name);
        texts.iter().map(|_| self.count()).collect()
    }

    fn count(&self) -> Option<u64> {
        let count = (self.counts.recv_timeout(PATIENCE))
            .unwrap_or_else(|error| panic!("{} gives no count: {error}", self.name));
        Some(count).filter(|count| *count != REFUSED)
    }
}

impl Reference for Helper {
    fn name(&self) -> &'static str {
        self.name
    }

    fn counts(&mut self, texts: &[&[u8]]) -> Vec<Option<u64>> {
        let mut counts = Vec::with_capacity(texts.len());
        let mut rest = texts;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take_while(|text| {
                bytes += text.len();
                bytes <= BATCH_BYTES
            });
            let (batch, later) = rest.split_at(fits.count().max(1));
            counts.extend(self.batch(batch));
            rest = later;
        }
        counts
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.texts.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn anthropic(folder: &Path) -> PathBuf {
    folder.join("npm/node_modules/@anthropic-ai/tokenizer")
}

fn needed(path: PathBuf, what: &str) -> Result<PathBuf, String> {
    if path.exists() {
        return Ok(path);
    }
    let path = path.display();
    Err(format!(
        "needs {what} at {path} (cargo xtask setup --references)"
    ))
}

fn script(name: &str) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    // From the package itself, and from others that use this by its path.
    let own = package.join("tests/reference").join(name);
    if own.exists() {
        return own;
    }
    package
        .join("../edge-userspace/tokens/tests/reference")
        .join(name)
}
