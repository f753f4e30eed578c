//! Other proxies and gateways, before the same upstream: their configurations out of `bench/peers`
//! with a place's addresses and files put in, and what starts them.
//!
//! Each is one process that ends with the thread that started it. What is measured is not here.

mod site;

pub use site::{Site, free_address};

use crate::process;
use std::fs;
use std::net::SocketAddr;
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

/// One of the others.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Of its folder in `bench/peers`, and in figures.
    pub name: &'static str,
    /// What clients speak to it.
    pub speaks: Speaks,
    /// Its template in that folder, if it reads a file.
    template: Option<&'static str>,
    /// The program and its arguments, in which the template's names stand for the same, and
    /// `@configuration@` for the rendered file.
    command: &'static [&'static str],
    /// What it finds in its environment.
    environment: &'static [(&'static str, &'static str)],
    /// What clients must send it beside a key, in which the template's names stand for the same.
    pub headers: &'static [(&'static str, &'static str)],
    /// How long it may take until it serves.
    pub patience: Duration,
}

const PATIENCE: Duration = Duration::from_secs(20);

/// Those that end TLS as the edge does.
pub const PROXIES: [Peer; 3] = [
    Peer {
        name: "nginx",
        speaks: Speaks::Tls,
        template: Some("nginx.conf"),
        command: &["nginx", "-p", "@directory@", "-c", "@configuration@"],
        environment: &[],
        headers: &[],
        patience: PATIENCE,
    },
    Peer {
        name: "haproxy",
        speaks: Speaks::Tls,
        template: Some("haproxy.cfg"),
        command: &["haproxy", "-db", "-f", "@configuration@"],
        environment: &[],
        headers: &[],
        patience: PATIENCE,
    },
    Peer {
        name: "envoy",
        speaks: Speaks::Tls,
        template: Some("envoy.yaml"),
        command: &[
            "@peers@/envoy/venv/bin/envoy",
            "--concurrency",
            "1",
            "--disable-hot-restart",
            "--log-level",
            "error",
            "--config-path",
            "@configuration@",
        ],
        environment: &[],
        headers: &[],
        patience: PATIENCE,
    },
];

/// Gateways for LLM APIs, which leave TLS and HTTP/2 to others and speak OpenAI's shape: the first
/// page of each one's documentation says how it is started. The routers have one worker to choose
/// and are told not to retry, to break circuits or to ask after its health, as no proxy does here.
pub const GATEWAYS: [Peer; 5] = [
    Peer {
        name: "litellm",
        speaks: Speaks::Plain,
        template: Some("config.yaml"),
        command: &[
            "@peers@/litellm/venv/bin/litellm",
            "--config",
            "@configuration@",
            "--host",
            "@listen_address@",
            "--port",
            "@listen_port@",
            "--num_workers",
            "1",
            "--telemetry",
            "False",
        ],
        // Prices come with the package; the log as its page for production has it.
        environment: &[
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
            ("LITELLM_LOG", "ERROR"),
            ("LITELLM_MODE", "PRODUCTION"),
        ],
        headers: &[],
        patience: SLOW,
    },
    Peer {
        name: "smg",
        speaks: Speaks::Plain,
        template: None,
        command: &[
            "@peers@/smg/venv/bin/smg",
            "launch",
            "--host",
            "@listen_address@",
            "--port",
            "@listen_port@",
            "--prometheus-host",
            "127.0.0.1",
            "--prometheus-port",
            "@spare_port@",
            "--worker-urls",
            "http://@upstream@",
            "--policy",
            "cache_aware",
            "--api-key",
            "@key@",
            "--log-level",
            "error",
            "--disable-retries",
            "--disable-circuit-breaker",
            "--disable-health-check",
        ],
        environment: &[],
        headers: &[],
        patience: SLOW,
    },
    Peer {
        name: "vllm-router",
        speaks: Speaks::Plain,
        template: None,
        command: &[
            "@peers@/vllm-router/venv/bin/vllm-router",
            "--host",
            "@listen_address@",
            "--port",
            "@listen_port@",
            "--prometheus-host",
            "127.0.0.1",
            "--prometheus-port",
            "@spare_port@",
            "--worker-urls",
            "http://@upstream@",
            "--policy",
            "cache_aware",
            "--log-level",
            "error",
            "--disable-retries",
            "--disable-circuit-breaker",
        ],
        environment: &[],
        headers: &[],
        patience: SLOW,
    },
    Peer {
        name: "sglang-router",
        speaks: Speaks::Plain,
        template: None,
        command: &[
            "@peers@/sglang-router/venv/bin/sglang-router",
            "launch",
            "--host",
            "@listen_address@",
            "--port",
            "@listen_port@",
            "--prometheus-host",
            "127.0.0.1",
            "--prometheus-port",
            "@spare_port@",
            "--worker-urls",
            "http://@upstream@",
            "--policy",
            "cache_aware",
            "--api-key",
            "@key@",
            "--log-level",
            "error",
            "--disable-retries",
            "--disable-circuit-breaker",
            "--disable-health-check",
        ],
        environment: &[],
        headers: &[],
        patience: SLOW,
    },
    Peer {
        name: "portkey",
        speaks: Speaks::Plain,
        template: None,
        // It asks for no key of its own: that is left to what stands before it.
        command: &[
            "node",
            "@peers@/portkey/npm/node_modules/@portkey-ai/gateway/build/start-server.js",
            "--port=@listen_port@",
            "--headless",
        ],
        environment: &[("NODE_ENV", "production")],
        headers: &[
            ("x-portkey-provider", "openai"),
            ("x-portkey-custom-host", "http://@upstream@/v1"),
        ],
        patience: SLOW,
    },
];

const SLOW: Duration = Duration::from_secs(90);

impl Peer {
    /// What it says of its version, first line; or why it cannot be had.
    ///
    /// # Errors
    /// That it is not installed, and what installs it.
    pub fn version(&self) -> Result<String, String> {
        let folder = folder();
        let list = folder.join(self.name);
        let listed = |file: &str| {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
            fs::read_to_string(path.join(self.name).join(file)).unwrap_or_default()
        };
        for argument in self.command {
            let path = argument.replace("@peers@", &folder.to_string_lossy());
            if argument.starts_with("@peers@") && !Path::new(&path).exists() {
                return Err(format!(
                    "no {path}; `cargo xtask setup --peers` installs it"
                ));
            }
        }
        if list.join("venv").exists() || list.join("npm").exists() {
            // Installed by these lists, in their versions.
            let text = listed("requirements.txt") + &listed("package.json");
            let line = text.lines().find(|line| {
                line.starts_with(self.name) || line.trim().starts_with("\"@portkey-ai")
            });
            if let Some(line) = line {
                return Ok(line.trim().replace('"', ""));
            }
            return Ok(text.lines().nth(1).unwrap_or_default().to_owned());
        }
        let program = self.command[0];
        let output = Command::new(program).arg("-v").output().map_err(|error| {
            format!("{program}: {error}; `cargo xtask setup --peers` installs it")
        })?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let line = said.lines().find(|line| !line.trim().is_empty());
        Ok(line.unwrap_or_default().trim().to_owned())
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
        let mut command = process::pinned(cpu, render(self.command[0]));
        command.args(self.command[1..].iter().map(|argument| render(argument)));
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
        let file = fs::File::create(&log).expect("room on the disk");
        let mut command = self.command(site, cpu);
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a file"))
            .stderr(file);
        Server::start(&mut command, site.listen, &log, self.patience)
    }
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
}

impl Server {
    /// Starts it and waits until `address` accepts connections.
    ///
    /// # Errors
    /// That it ended, or did not serve in time, with what it said into `log`.
    pub fn start(
        command: &mut Command,
        address: SocketAddr,
        log: &Path,
        patience: Duration,
    ) -> Result<Self, String> {
        let child = command.spawn().map_err(|error| format!("{error}"))?;
        let mut server = Self { child, address };
        let began = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            let ended = server.child.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || began.elapsed() > patience {
                let said = fs::read_to_string(log).unwrap_or_default();
                return Err(format!("it does not serve: {said}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_left_in_a_rendered_template() {
        let directory = tempfile::tempdir().unwrap();
        let free = free_address();
        let site = Site::new(directory.path().to_owned(), free, free, "sk-edge-test");
        for peer in PROXIES.iter().chain(&GATEWAYS) {
            let Some(name) = peer.template else {
                continue;
            };
            let text = site.render(&template(peer.name, name));
            assert!(text.contains("sk-edge-test"), "{}", peer.name);
            let mut names = text.split('@').skip(1).step_by(2);
            let left = names.find(|name| {
                name.bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            });
            assert_eq!(left, None, "{}", peer.name);
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
