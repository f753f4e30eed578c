//! Programs of the system that the edge's build, demo and tests start: what for, and where
//! they come from.

use std::path::PathBuf;
use std::process::Command;

/// A program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    /// What people call it.
    pub(crate) name: &'static str,
    /// The command, and arguments that make it say its version and nothing else.
    command: &'static [&'static str],
    /// What does not work without it.
    pub(crate) purpose: &'static str,
    /// Where it comes from.
    pub(crate) source: Source,
}

/// Where a tool comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A Debian package.
    Debian(&'static str),
    /// A crate with a binary.
    Crate(&'static str),
}

use Source::{Crate, Debian};

/// Needed by the build, the demo and the tests.
pub(crate) const TOOLS: [Tool; 7] = [
    Tool {
        name: "C compiler",
        command: &["cc", "--version"],
        purpose: "the TLS library's assembly and C are built with it",
        source: Debian("gcc"),
    },
    Tool {
        name: "C++ compiler",
        command: &["c++", "--version"],
        purpose: "the BPF linker is built against LLVM with it",
        source: Debian("g++"),
    },
    Tool {
        name: "ip",
        command: &["ip", "-V"],
        purpose: "the demo and the kernel tests make network namespaces with it",
        source: Debian("iproute2"),
    },
    Tool {
        name: "openssl",
        command: &["openssl", "version"],
        purpose: "one of the demo's clients",
        source: Debian("openssl"),
    },
    Tool {
        name: "python3 with ssl",
        command: &[
            "python3",
            "-c",
            "import ssl, sys; print('Python', sys.version.split()[0], 'with', ssl.OPENSSL_VERSION)",
        ],
        purpose: "one of the demo's clients",
        source: Debian("python3"),
    },
    Tool {
        name: "curl",
        command: &["curl", "--version"],
        purpose: "one of the demo's clients",
        source: Debian("curl"),
    },
    Tool {
        name: "kill",
        command: &["kill", "--version"],
        purpose: "the demo's tests send signals with it",
        source: Debian("procps"),
    },
];

/// Needed by `cargo xtask ci` alone.
pub(crate) const CI_TOOLS: [Tool; 7] = [
    Tool {
        name: "cargo-deny",
        command: &["cargo-deny", "--version"],
        purpose: "`cargo xtask ci` checks licences, bans and sources with it",
        source: Crate("cargo-deny"),
    },
    Tool {
        name: "clippy for BPF",
        command: &["/usr/bin/cargo-clippy", "--version"],
        purpose: "`cargo xtask ci` lints the XDP program with it",
        source: Debian("rust-web-clippy"),
    },
    Tool {
        name: "qemu",
        command: &["qemu-system-x86_64", "--version"],
        purpose: "`cargo xtask kernels` boots other kernels with it",
        source: Debian("qemu-system-x86"),
    },
    Tool {
        name: "busybox",
        command: &["busybox"],
        purpose: "the first process of those kernels",
        source: Debian("busybox-static"),
    },
    Tool {
        name: "ethtool",
        command: &["ethtool", "--version"],
        purpose: "the tests in those kernels set up VLANs with it",
        source: Debian("ethtool"),
    },
    Tool {
        name: "Node.js",
        command: &["node", "--version"],
        purpose: "a test runs the example client in docs/examples/node",
        source: Debian("nodejs"),
    },
    Tool {
        name: "Go",
        command: &["go", "version"],
        purpose: "a test builds and runs the example client in docs/examples/go",
        source: Debian("golang-go"),
    },
];

/// Needed by single commands, or too large for what one test gains by it.
pub(crate) const OPTIONAL_TOOLS: [Tool; 5] = [
    Tool {
        name: "npm",
        command: &["npm", "--version"],
        purpose: "`cargo xtask setup --references` installs a tokenizer to compare with by it",
        source: Debian("npm"),
    },
    Tool {
        name: "podman",
        command: &["podman", "--version"],
        purpose: "`cargo xtask container` builds and runs the image with it",
        source: Debian("podman"),
    },
    Tool {
        name: "debootstrap",
        command: &["debootstrap", "--version"],
        purpose: "`cargo xtask container` makes a base with it where no image can be pulled",
        source: Debian("debootstrap"),
    },
    Tool {
        name: "qemu",
        command: &["qemu-system-x86_64", "--version"],
        purpose: "`cargo xtask kernels` boots other kernels with it",
        source: Debian("qemu-system-x86"),
    },
    Tool {
        name: "JDK",
        command: &["javac", "--version"],
        purpose: "a test runs the example client in docs/examples/java; skipped without",
        source: Debian("default-jdk-headless"),
    },
];

/// What the edge is measured beside, and what measures it: `cargo xtask bench edge`.
pub(crate) const PEER_TOOLS: [Tool; 3] = [
    Tool {
        name: "nginx",
        command: &["nginx", "-v"],
        purpose: "`cargo xtask bench edge` measures the edge beside it",
        source: Debian("nginx"),
    },
    Tool {
        name: "HAProxy",
        command: &["haproxy", "-v"],
        purpose: "`cargo xtask bench edge` measures the edge beside it",
        source: Debian("haproxy"),
    },
    Tool {
        name: "h2load",
        command: &["h2load", "--version"],
        purpose: "`cargo xtask bench edge` sends requests by it",
        source: Debian("nghttp2-client"),
    },
];

impl Tool {
    /// What it says of itself, short.
    ///
    /// # Errors
    /// Why it could not be asked.
    pub(crate) fn version(&self) -> Result<String, String> {
        let (program, args) = self.command.split_first().ok_or("no command")?;
        let program = find(program).ok_or_else(|| format!("no `{program}` on the PATH"))?;
        let output = Command::new(&program)
            .args(args)
            .output()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        // nginx says it where others say what went wrong.
        let said = match output.status.success() && !output.stdout.is_empty() {
            true => output.stdout,
            false => output.stderr,
        };
        let said = String::from_utf8_lossy(&said);
        let line = said.lines().next().unwrap_or_default().trim();
        if output.status.success() {
            // Versions of everything linked may follow; nobody asked.
            Ok(line.chars().take(60).collect())
        } else {
            Err(format!("{}: {line}", program.display()))
        }
    }

    /// Where its program is.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        find(self.command.first()?)
    }

    /// One command that brings it.
    pub(crate) fn fix(&self) -> String {
        match self.source {
            Debian(package) => format!("apt-get install -y --no-install-recommends {package}"),
            Crate(name) => format!("cargo install {name} --locked"),
        }
    }
}

/// A program on the `PATH`, in cargo's bin directory, or in the system's own, which a plain
/// user's `PATH` may lack.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cargo_home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    std::env::split_paths(&path)
        .chain(cargo_home.map(|home| home.join("bin")))
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_wherever_it_is_said() {
        let commands: [&[&str]; 2] = [
            &["sh", "-c", "echo sh 1; echo of this >&2"],
            &["sh", "-c", "echo sh 1 >&2"],
        ];
        for command in commands {
            let tool = Tool {
                name: "sh",
                command,
                purpose: "",
                source: Debian("dash"),
            };
            assert_eq!(tool.version(), Ok("sh 1".to_owned()));
        }
    }
}
