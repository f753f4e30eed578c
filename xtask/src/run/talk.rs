//! A client that runs: what it prints is read as it comes, and it can be told to go on.

use super::interrupt::Interrupt;
use super::system;
use anyhow::Context as _;
use edge_demo::Milestone;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A hang guard: longer than the clients' own.
const HANG_GUARD: Duration = Duration::from_secs(40);

/// A client process. Killed when dropped.
#[derive(Debug)]
pub(super) struct Running {
    name: &'static str,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    printed: String,
    errors: Option<JoinHandle<String>>,
}

impl Running {
    /// Starts the command. `input` is written to its stdin, which then stays open: s_client
    /// would otherwise leave before the answer.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(
        name: &'static str,
        command: &mut Command,
        input: Option<String>,
    ) -> anyhow::Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = system::die_with_parent(command)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let mut stdin = child.stdin.take();
        if let (Some(stdin), Some(input)) = (&mut stdin, input) {
            // It may have ended already, refused; its own words say so better.
            let _ = stdin.write_all(input.as_bytes());
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "all that a client prints is kept anyway, and it must not wait for us"
        )]
        let (sender, lines) = channel();
        let out = child.stdout.take().context("stdout")?;
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut line = Vec::new();
            while out.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(&line).into_owned();
                if sender.send(text).is_err() {
                    break;
                }
                line.clear();
            }
        });
        let mut err = child.stderr.take().context("stderr")?;
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = err.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Ok(Self {
            name,
            child,
            stdin,
            lines,
            printed: String::new(),
            errors: Some(errors),
        })
    }

    /// Waits until it has printed a milestone for which `wanted` gives something; `None` when
    /// it ends before.
    ///
    /// # Errors
    /// When interrupted, or when nothing comes.
    pub(super) fn milestone<T>(
        &mut self,
        interrupt: &Interrupt,
        wanted: impl Fn(&Milestone) -> Option<T>,
    ) -> anyhow::Result<Option<T>> {
        let what = format!("{}'s next word", self.name);
        interrupt.wait_for(&what, HANG_GUARD, || {
            Ok(match self.lines.try_recv() {
                Ok(line) => {
                    self.printed += &line;
                    let milestone = serde_json::from_str(&line).ok();
                    milestone.as_ref().and_then(&wanted).map(Some)
                }
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(None),
            })
        })
    }

    /// Tells it to go on.
    pub(super) fn tell(&mut self) {
        if let Some(stdin) = &mut self.stdin {
            // If it is gone, its report says why.
            let _ = stdin.write_all(b"\n");
        }
    }

    /// Waits for its end; gives all it printed on stdout and stderr.
    ///
    /// # Errors
    /// When interrupted, or when it does not end.
    pub(super) fn finish(mut self, interrupt: &Interrupt) -> anyhow::Result<(String, String)> {
        let what = format!("{}'s end", self.name);
        interrupt.wait_for(&what, HANG_GUARD, || Ok(self.child.try_wait()?))?;
        while let Ok(line) = self.lines.recv() {
            self.printed += &line;
        }
        let errors = self.errors.take().and_then(|thread| thread.join().ok());
        Ok((
            std::mem::take(&mut self.printed),
            errors.unwrap_or_default(),
        ))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
