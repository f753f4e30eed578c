//! Other proxies and gateways, before the same upstream: their configurations out of `bench/peers`
//! with a place's addresses and files put in, and what starts them.
//!
//! Each is one process that ends with the thread that started it. What is measured is not here.

mod list;
mod site;

pub use list::{GATEWAYS, PROXIES};
pub use site::{Site, certify, free_address, roots};

use crate::daemon::Daemon;
use crate::process;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What clients speak to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// TLS 1.3 and HTTP/2.
    Tls,
    /// HTTP/1.1 as it is: those that leave TLS to a proxy before them.
    Plain,
}

/// Where a program comes from, and the package's name there.
#[derive(Clone, Copy, Debug)]
enum Source {
    Debian,
    Python(&'static str),
    Npm(&'static str),
}

/// One of the others.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Of its folder in `bench/peers`, and in figures.
    pub name: &'static str,
    /// What clients speak to it.
    pub speaks: Speaks,
    source: Source,
    /// Its template in that folder, if it reads a file.
    template: Option<&'static str>,
    /// The program and its arguments, in parts, in which the template's names stand for the same,
    /// and `@configuration@` for the rendered file.
    command: &'static [&'static [&'static str]],
    /// What it finds in its environment.
    environment: &'static [(&'static str, &'static str)],
    /// What clients must send it beside a key, in which the template's names stand for the same.
    pub headers: &'static [(&'static str, &'static str)],
    /// How long it may take until it serves.
    pub patience: Duration,
}

impl Peer {
    /// The version that is installed; or why it cannot be had.
    ///
    /// # Errors
    /// That it is not installed, and what installs it.
    pub fn version(&self) -> Result<String, String> {
        let home = folder().join(self.name);
        let version = match self.source {
            Source::Debian => said(Command::new(self.program()).arg("-v")),
            Source::Python(package) => {
                let asks = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))";
                let mut python = Command::new(home.join("venv/bin/python"));
                said(python.args(["-c", asks, package]))
            }
            Source::Npm(package) => {
                let path = home.join("npm/node_modules").join(package);
                fs::read(path.join("package.json"))
                    .map_err(|error| error.to_string())
                    .and_then(|text| {
                        let package: serde_json::Value =
                            serde_json::from_slice(&text).map_err(|error| error.to_string())?;
                        let version = package["version"].as_str();
                        Ok(version.ok_or("a package without a version")?.to_owned())
                    })
            }
        };
        version.map_err(|why| format!("{why}; `cargo xtask setup --peers` installs it"))
    }

    /// Its program.
    #[must_use]
    pub fn program(&self) -> String {
        self.command[0][0].replace("@peers@", &folder().to_string_lossy())
    }

    /// Writes its configuration into the site's directory; the command that then starts it on that
    /// CPU.
    ///
    /// # Panics
    /// When the template cannot be read or the file not be written.
    #[must_use]
    pub fn command(&self, site: &Site, cpu: usize) -> Command {
        let configuration = site.directory.join(self.template.unwrap_or_default());
        if let Some(name) = self.template {
            let text = site.render(&template(self.name, name));
            fs::write(&configuration, text).expect("room on the disk");
        }
        let spare = free_address().port().to_string();
        let render = |argument: &str| {
            let argument = argument.replace("@peers@", &folder().to_string_lossy());
            let argument = argument.replace("@configuration@", &configuration.to_string_lossy());
            let argument = argument.replace("@spare_port@", &spare);
            site.render(&argument)
        };
        let mut command = process::pinned(cpu, self.program());
        let arguments = self.command.iter().copied().flatten().skip(1);
        command.args(arguments.map(|argument| render(argument)));
        command.current_dir(&site.directory);
        command.envs(self.environment.iter().copied());
        command
    }

    /// Starts it on that CPU and waits until it accepts connections.
    ///
    /// # Errors
    /// That it ended, or did not serve in time, with what it said.
    ///
    /// # Panics
    /// When there is no room for what it says.
    pub fn start(&self, site: &Site, cpu: usize) -> Result<Server, String> {
        let log = site.directory.join("log");
        let mut command = self.command(site, cpu);
        Server::start(&mut command, site.listen, &log, self.patience)
    }
}

/// The first line that a program says, which must succeed.
fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output();
    let program = command.get_program().display();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    if !output.status.success() {
        return Err(format!("{program}: {}", said.trim()));
    }
    let line = said.lines().find(|line| !line.trim().is_empty());
    Ok(line.unwrap_or_default().trim().to_owned())
}

/// The template of that name.
///
/// # Panics
/// When it cannot be read.
#[must_use]
pub fn template(peer: &str, name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    let path = path.join(peer).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Where `cargo xtask setup --peers` puts what it installs: `EDGE_PEERS`, or in the build
/// directory.
///
/// # Panics
/// When our own path cannot be told.
#[must_use]
pub fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("EDGE_PEERS") {
        return folder.into();
    }
    // target/release/deps/NAME
    let program = std::env::current_exe().expect("our own path");
    let target = program.ancestors().nth(3).expect("a build directory");
    target.join("peers")
}

/// A running server. Dropping it ends it.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    log: PathBuf,
}

impl Server {
    /// Starts it and waits until `address` accepts connections. It says into `log` what it says.
    ///
    /// # Errors
    /// That it ended, or did not serve in time, with what it said.
    ///
    /// # Panics
    /// When there is no room for what it says.
    pub fn start(
        command: &mut Command,
        address: SocketAddr,
        log: &Path,
        patience: Duration,
    ) -> Result<Self, String> {
        let file = fs::File::create(log).expect("room on the disk");
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a file"))
            .stderr(file);
        let child = command.spawn().map_err(|error| format!("{error}"))?;
        let mut server = Self {
            child,
            address,
            log: log.to_owned(),
        };
        server.until(patience, || TcpStream::connect(address).is_ok())?;
        Ok(server)
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// That it ended, or was not ready in time, with what it said.
    pub fn until(
        &mut self,
        patience: Duration,
        mut is_ready: impl FnMut() -> bool,
    ) -> Result<(), String> {
        let began = Instant::now();
        while !is_ready() {
            let ended = self.child.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || began.elapsed() > patience {
                let said = fs::read_to_string(&self.log).unwrap_or_default();
                return Err(format!("it does not serve: {said}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// The number of its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let id = self.child.id();
        let children = process::tree(id).into_iter().filter(|child| *child != id);
        // Workers of its own end with it, or by this.
        let children: Vec<_> = children.collect();
        let _ = self.child.kill();
        let _ = self.child.wait();
        for child in children {
            let _ = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(child as i32),
                nix::sys::signal::Signal::SIGKILL,
            );
        }
    }
}

/// The edge or another. Dropping it ends it.
pub enum Running {
    /// The edge.
    Edge(Daemon),
    /// Another.
    Other(Server),
}

impl Running {
    /// The number of its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        match self {
            Self::Edge(daemon) => daemon.id(),
            Self::Other(server) => server.id(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_left_in_what_a_peer_is_started_with() {
        let directory = tempfile::tempdir().unwrap();
        let free = free_address();
        let site = Site::new(directory.path().to_owned(), free, free, "sk-edge-test");
        for peer in PROXIES.iter().chain(&GATEWAYS) {
            let command = peer.command(&site, 0);
            let arguments = command
                .get_args()
                .map(|argument| argument.to_string_lossy());
            let mut texts: Vec<String> = arguments.map(Into::into).collect();
            if let Some(name) = peer.template {
                let text = fs::read_to_string(directory.path().join(name)).unwrap();
                assert!(text.contains("sk-edge-test"), "{}", peer.name);
                texts.push(text);
            }
            let headers = peer.headers.iter();
            texts.extend(headers.map(|(_, value)| site.render(value)));
            for text in texts {
                let is_name = |text: &str| {
                    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
                    !text.is_empty() && text.bytes().all(is_letter)
                };
                // What stands between two marks, the second of which may be the next one's first.
                let mut between: Vec<_> = text.split('@').skip(1).collect();
                between.pop();
                let left = between.into_iter().find(|text| is_name(text));
                assert_eq!(left, None, "{}: {text}", peer.name);
            }
        }
    }

    /// Those that are installed serve the key's holder, with a certificate of the site's, and tell
    /// the rest 401.
    #[test]
    fn installed_proxies_start_and_ask_for_the_key() {
        for peer in PROXIES {
            if let Err(why) = peer.version() {
                eprintln!("skipped {}: optional: {why}", peer.name);
                continue;
            }
            let directory = tempfile::tempdir().unwrap();
            let site = Site::new(
                directory.path().to_owned(),
                free_address(),
                free_address(),
                "sk-edge-test",
            );
            let server = peer.start(&site, 0).unwrap();
            for (key, status) in [
                ("sk-edge-test", ["502", "503"]),
                ("sk-edge-other", ["401", "401"]),
            ] {
                let output = Command::new("curl")
                    .args([
                        "--silent",
                        "--output",
                        "/dev/null",
                        "--write-out",
                        "%{http_version} %{http_code}",
                    ])
                    .arg("--cacert")
                    .arg(directory.path().join("ca.pem"))
                    .args([
                        "--resolve",
                        &format!("edge.test:{}:127.0.0.1", server.address.port()),
                    ])
                    .args(["--header", &format!("x-api-key: {key}")])
                    .arg(format!(
                        "https://edge.test:{}/v1/messages",
                        server.address.port()
                    ))
                    .output()
                    .unwrap();
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(
                    status.iter().any(|status| said == format!("2 {status}")),
                    "{}: {said}",
                    peer.name
                );
            }
        }
    }
}
