//! A directory, and commands that are typed in it.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

pub(crate) struct Place(pub(crate) tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_edge"));
        command
            .args(arguments.split_whitespace())
            .current_dir(self.path())
            .env_remove("EDGE_STORE")
            .env_remove("EDGE_CONFIG")
            .env_remove("EDGE_ADMIN");
        command
    }

    pub(crate) fn edge(&self, arguments: &str) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Standard output of a command that must do well.
    pub(crate) fn good(&self, arguments: &str) -> String {
        let output = self.edge(arguments);
        assert!(
            output.status.success(),
            "edge {arguments}: {}",
            errors(&output)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Standard error of a command that must fail with 1 and print nothing else.
    pub(crate) fn bad(&self, arguments: &str) -> String {
        let output = self.edge(arguments);
        assert_eq!(output.status.code(), Some(1), "edge {arguments}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "");
        errors(&output)
    }

    pub(crate) fn json(&self, arguments: &str) -> Value {
        serde_json::from_str(&self.good(arguments)).unwrap()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    pub(crate) fn mode(&self, name: &str) -> u32 {
        let metadata = std::fs::metadata(self.path().join(name)).unwrap();
        metadata.permissions().mode() & 0o777
    }
}

pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
