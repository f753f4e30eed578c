//! gigatoken in a Python process on the same core, timed by its own clock.

use crate::reference;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// How it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `encode`: an array of ids, of which a caller takes the length.
    Encode = 0,
    /// The same work, of which no ids are handed to Python.
    NoIds = 1,
    /// `encode_batch_list`: ids as Python's own numbers.
    List = 2,
}

/// A process that has loaded a vocabulary; it ends with this.
pub(crate) struct Gigatoken {
    child: Child,
    commands: ChildStdin,
    answers: ChildStdout,
    /// What loading took.
    pub(crate) load_ns: u64,
}

impl Gigatoken {
    /// Starts it with a rank file, on the core of this process.
    ///
    /// # Errors
    /// Why it cannot run here.
    pub(crate) fn start(ranks: &Path, pattern: &str) -> Result<Self, String> {
        let python = reference::folder().join("venv/bin/python");
        let script = Path::new(env!("CARGO_MANIFEST_DIR"));
        let script = script.join("benches/tokens/gigatoken_times.py");
        let mut child = Command::new(&python)
            .arg(script)
            .args([ranks.as_os_str(), pattern.as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| {
                format!(
                    "{}: {error} (cargo xtask setup --references)",
                    python.display()
                )
            })?;
        let mut gigatoken = Self {
            commands: child.stdin.take().expect("piped"),
            answers: child.stdout.take().expect("piped"),
            child,
            load_ns: 0,
        };
        gigatoken.load_ns = gigatoken.answer()?;
        Ok(gigatoken)
    }

    /// Hands it a text; its number there.
    pub(crate) fn load(&mut self, text: &[u8]) -> Result<u32, String> {
        let length = u32::try_from(text.len()).map_err(|error| error.to_string())?;
        self.send(b'L', &[length])?;
        let sent = self.commands.write_all(text);
        sent.map_err(|error| format!("gigatoken: {error}"))?;
        self.answer().map(|number| number as u32)
    }

    pub(crate) fn count(&mut self, text: u32) -> Result<u64, String> {
        self.send(b'C', &[text])?;
        self.answer()
    }

    /// Nanoseconds of one pass, over so many.
    pub(crate) fn time(&mut self, text: u32, way: Way, passes: u32) -> Result<f64, String> {
        self.send(b'T', &[text, way as u32, passes])?;
        Ok(self.answer()? as f64 / f64::from(passes))
    }

    fn send(&mut self, command: u8, numbers: &[u32]) -> Result<(), String> {
        let mut message = vec![command];
        message.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        let sent = self.commands.write_all(&message);
        sent.map_err(|error| format!("gigatoken: {error}"))
    }

    fn answer(&mut self) -> Result<u64, String> {
        let mut answer = [0; 8];
        let read = self.answers.read_exact(&mut answer);
        read.map_err(|error| format!("gigatoken ended: {error}"))?;
        Ok(u64::from_le_bytes(answer))
    }
}

impl Drop for Gigatoken {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The rank file of a vocabulary, as [`Gigatoken::start`] wants it, and its pattern there.
pub(crate) fn rank_file(vocabulary: &str) -> Result<(PathBuf, &'static str), String> {
    let file = reference::folder()
        .join("ranks")
        .join(format!("{vocabulary}.tiktoken"));
    match vocabulary {
        _ if file.exists() => Ok((file, if vocabulary == "claude-2" { "gpt2" } else { "" })),
        _ => Err(format!(
            "no {} (cargo xtask setup --references)",
            file.display()
        )),
    }
}
