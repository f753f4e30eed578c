//! Runs a script that uses an SDK.

use crate::place::Place;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A hang guard, not a promise.
const PATIENCE: Duration = Duration::from_secs(300);

/// One of the scripts beside this file.
pub(crate) struct Script {
    language: Language,
    file: &'static str,
    arguments: &'static [&'static str],
}

#[derive(Clone, Copy)]
enum Language {
    Python,
    Node,
}

/// A script whose SDK is there.
pub(crate) struct Runner {
    script: Script,
    packages: PathBuf,
}

impl Script {
    pub(crate) const fn python(file: &'static str, arguments: &'static [&'static str]) -> Self {
        Self {
            language: Language::Python,
            file,
            arguments,
        }
    }

    pub(crate) const fn node(file: &'static str) -> Self {
        Self {
            language: Language::Node,
            file,
            arguments: &[],
        }
    }

    /// With its SDK; or why it cannot run.
    pub(crate) fn runner(self) -> Result<Runner, String> {
        let packages = match std::env::var_os("EDGE_CLIENTS") {
            Some(folder) => PathBuf::from(folder),
            None => Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("clients"),
        };
        let needed = match self.language {
            Language::Python => packages.join("venv/bin/python"),
            Language::Node => packages.join("npm/node_modules/@anthropic-ai/sdk"),
        };
        if !needed.exists() {
            let needed = needed.display();
            return Err(format!("needs {needed} (cargo xtask setup --clients)"));
        }
        let works = |program: &Path, argument: &str| {
            let said = Command::new(program).arg(argument).output();
            said.is_ok_and(|said| said.status.success())
        };
        // An environment of an older list lacks what came later.
        if self.file == "frames.py" && !works(&needed, "-mh2.connection") {
            return Err("needs h2 for Python (cargo xtask setup --clients)".to_owned());
        }
        if matches!(self.language, Language::Node) && !works(Path::new("node"), "--version") {
            return Err("needs node (Debian: nodejs)".to_owned());
        }
        Ok(Runner {
            script: self,
            packages,
        })
    }
}

impl Runner {
    /// Runs it; panics with what it said when one of its checks failed.
    pub(crate) fn run(&self, place: &Place) {
        let Script {
            language,
            file,
            arguments,
        } = &self.script;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk");
        let mut command = match language {
            Language::Python => {
                let mut python = Command::new(self.packages.join("venv/bin/python"));
                python.arg("-B").arg(folder.join("python").join(file));
                python
            }
            Language::Node => {
                let mut node = Command::new("node");
                node.arg(folder.join("node").join(file));
                node
            }
        };
        place.tell(&mut command);
        command
            .args(*arguments)
            .env("EDGE_TEST_PACKAGES", self.packages.join("npm"));
        let said = place.path(&format!("{file}.out"));
        let output = std::fs::File::create(&said).unwrap();
        command
            .stdin(Stdio::null())
            .stderr(output.try_clone().unwrap())
            .stdout(output);
        let mut child = command.spawn().unwrap();
        let since = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if since.elapsed() > PATIENCE {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let said = std::fs::read_to_string(&said).unwrap();
        println!("{file} {arguments:?}\n{said}");
        let status = status.unwrap_or_else(|| panic!("{file} did not end"));
        // The last line is the count of checks: a script that did nothing is no success.
        let closing = said.lines().last().unwrap_or_default();
        let count = closing
            .split(' ')
            .next()
            .and_then(|n| n.parse::<u32>().ok());
        let good = status.success() && count.is_some_and(|count| count > 0);
        assert!(good, "{file}: {status}; the edge:\n{}", place.log());
    }
}
