//! Processes that live as long as the demo: started in a place, their output in a file,
//! stopped when dropped.

use super::network::Place;
use super::system;
use anyhow::Context as _;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a process may take to stop before it is killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// A long-running child.
#[derive(Debug)]
pub(super) struct Daemon {
    name: &'static str,
    child: Child,
    log: PathBuf,
    stopped: bool,
}

impl Daemon {
    /// Starts `program arguments…` in `place`; what it prints goes to `log`.
    ///
    /// # Errors
    /// When the log cannot be made or the program cannot be started.
    pub(super) fn start(
        name: &'static str,
        place: &Place,
        program: &Path,
        arguments: &[&str],
        log: PathBuf,
    ) -> anyhow::Result<Self> {
        let out = File::create(&log).with_context(|| log.display().to_string())?;
        let mut command = place.command(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            // Ctrl-C is for us: we stop our children ourselves, in order.
            .process_group(0);
        let child = system::die_with_parent(&mut command)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self {
            name,
            child,
            log,
            stopped: false,
        })
    }

    /// What it has printed so far, last lines first cut.
    pub(super) fn last_lines(&self, count: usize) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }

    /// Fails when the process has ended, with what it said.
    ///
    /// # Errors
    /// As said.
    pub(super) fn check_alive(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            self.stopped = true;
            let said = self.last_lines(20);
            anyhow::bail!("{} ended by itself ({status}):\n{said}", self.name);
        }
        Ok(())
    }

    /// Asks it to stop and waits.
    ///
    /// # Errors
    /// When it had to be killed or did not end with 0.
    pub(super) fn stop_well(&mut self) -> anyhow::Result<()> {
        match self.stop() {
            Some(status) if !status.success() => {
                let said = self.last_lines(20);
                anyhow::bail!("{} ended with {status}:\n{said}", self.name)
            }
            _ => Ok(()),
        }
    }

    /// Asks it to stop, waits, and kills it when it does not.
    fn stop(&mut self) -> Option<ExitStatus> {
        if self.stopped {
            return None;
        }
        self.stopped = true;
        let _ = system::terminate(&self.child);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        eprintln!(
            "{} did not stop within {PATIENCE:?} and is killed",
            self.name
        );
        let _ = self.child.kill();
        self.child.wait().ok()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Runs a command to its end and gives what it printed on stdout, trimmed.
///
/// # Errors
/// When it cannot be started or fails; then what it printed on stderr is part of the error.
pub(super) fn output_of(command: &mut Command) -> anyhow::Result<String> {
    let shown = || format!("{:?}", command.get_program());
    let name = shown();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::bail!("{name} failed ({}): {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
