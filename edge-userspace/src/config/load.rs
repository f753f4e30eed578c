//! Reads a configuration and checks what its values mean together.

use super::check::{collide, host_name, is_header_text, is_public};
use super::live::Said;
use super::problem::{Error, Problems};
use super::read::{Span, Values};
use super::{Admin, Api, Attach, Config, Kernel, Keys, Legacy, Listen, Log, Tls, files};
use edge_common::policy::{Answer, Window};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Reads and checks `file`.
///
/// # Errors
/// Everything that is wrong, each with line, field and cure.
pub fn load(file: &Path) -> Result<Config, Error> {
    load_said(file).map(|(config, _)| config)
}

/// The same, and what the file says field by field.
///
/// # Errors
/// As for [`load`].
pub fn load_said(file: &Path) -> Result<(Config, Said), Error> {
    let text = read(file)?;
    let mut problems = Problems::new(file, &text);
    let values = Values::read(&text, &mut problems);
    let said = values.said();
    let config = Loader {
        values,
        problems: &mut problems,
    }
    .config();
    problems.finish()?;
    Ok((config, said))
}

/// Only `admin.address`, for those who may not read what the configuration names.
///
/// # Errors
/// When the file cannot be read, or its text is wrong.
pub fn admin_address(file: &Path) -> Result<SocketAddr, Error> {
    let text = read(file)?;
    let mut problems = Problems::new(file, &text);
    let values = Values::read(&text, &mut problems);
    let address = values.addresses("admin.address").and_then(<[_]>::first);
    let address = address.map(|(address, _)| *address);
    problems.finish()?;
    // Without a problem there is one, by default.
    Ok(address.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 9901))))
}

fn read(file: &Path) -> Result<String, Error> {
    std::fs::read_to_string(file).map_err(|source| Error::Unreadable {
        file: file.to_owned(),
        source,
    })
}

/// What all clients without a token may open a second for each serving thread, unless something
/// else is said: a fifth of its time, at 0.2 ms for a full handshake.
const LEGACY_PER_THREAD: u32 = 1000;

/// Builds the configuration. Where a value is wrong or missing, which is a problem already,
/// an empty one stands in, so that the rest is checked too.
pub(super) struct Loader<'p, 'a> {
    pub(super) values: Values,
    pub(super) problems: &'p mut Problems<'a>,
}

impl Loader<'_, '_> {
    fn config(mut self) -> Config {
        let listen = self.listen();
        Config {
            legacy: self.legacy(listen.threads),
            listen,
            tls: self.tls(),
            keys: self.keys(),
            kernel: self.kernel(),
            clients: self.clients(),
            upstreams: self.upstreams(),
            choice: self.choice(),
            api: self.api(),
            regions: self.regions(),
            prompt: self.prompt(),
            quotas: self.quotas(),
            context: self.context(),
            admin: self.admin(),
            log: self.log(),
        }
    }

    fn listen(&mut self) -> Listen {
        let addresses = self.values.addresses("listen.addresses").unwrap_or(&[]);
        let addresses: Vec<(SocketAddr, Span)> = addresses.to_vec();
        for (i, (address, at)) in addresses.iter().enumerate() {
            if address.port() != 0 && addresses[..i].iter().any(|(before, _)| before == address) {
                self.problems.add(
                    Some(at.clone()),
                    "listen.addresses",
                    format!("{address} stands there twice"),
                    "take one out",
                );
            }
        }
        let threads = (self.values.integer("listen.threads"))
            .and_then(|threads| NonZeroUsize::new(threads as usize))
            .or_else(|| std::thread::available_parallelism().ok())
            .unwrap_or(NonZeroUsize::MIN);
        let addresses: Vec<_> = addresses.into_iter().map(|(address, _)| address).collect();
        let proxy_protocol = self.proxy_protocol(&addresses);
        Listen {
            addresses,
            threads,
            backlog: self.integer("listen.backlog") as u32,
            handshake_timeout: self.duration("listen.handshake_timeout"),
            max_hello_bytes: self.integer("listen.max_hello_bytes") as usize,
            max_unread_hellos: self.integer("listen.max_unread_hellos") as usize,
            max_connections: self.integer("listen.max_connections") as usize,
            max_streams: self.integer("listen.max_streams") as u32,
            unread_timeout: Some(self.duration("listen.unread_timeout"))
                .filter(|time| !time.is_zero()),
            drain_timeout: self.duration("listen.drain_timeout"),
            proxy_protocol,
        }
    }

    fn legacy(&self, threads: NonZeroUsize) -> Legacy {
        let total = self.values.integer("legacy.connections_per_second_total");
        let default = u64::from(LEGACY_PER_THREAD) * threads.get() as u64;
        Legacy {
            deny: self.boolean("legacy.deny"),
            connections_per_second: self.integer("legacy.connections_per_second") as u32,
            burst: self.integer("legacy.burst") as u32,
            connections_per_second_total: total.unwrap_or(default) as u32,
            waiting: self.integer("legacy.waiting") as usize,
            prefix_capacity: self.integer("legacy.prefix_capacity") as u32,
        }
    }

    fn tls(&mut self) -> Tls {
        let tls = Tls {
            certificate: self.path("tls.certificate").unwrap_or_default(),
            private_key: self.path("tls.private_key").unwrap_or_default(),
            ticket_rotation: self.duration("tls.ticket_rotation"),
        };
        if self
            .values
            .path("tls.certificate", self.problems.file)
            .is_some()
            && self
                .values
                .path("tls.private_key", self.problems.file)
                .is_some()
        {
            let provider = rustls::crypto::aws_lc_rs::default_provider();
            match files::Identity::read(&tls.certificate, &tls.private_key, &provider) {
                Ok(_) => {}
                Err(error @ files::IdentityError::Certificate(..)) => self.wrong(
                    "tls.certificate",
                    error.to_string(),
                    "name a PEM file with the certificate chain, leaf first",
                ),
                Err(error @ files::IdentityError::KeyDenied(..)) => self.wrong(
                    "tls.private_key",
                    error.to_string(),
                    crate::keys::store::whose(&tls.private_key),
                ),
                Err(error @ files::IdentityError::Key(..)) => self.wrong(
                    "tls.private_key",
                    error.to_string(),
                    "name the PEM file with the private key of tls.certificate",
                ),
            }
        }
        tls
    }

    fn keys(&mut self) -> Keys {
        let store = self.path("keys.store").unwrap_or_default();
        if store != PathBuf::new()
            && let Err((what, cure)) = files::key_store(&store)
        {
            self.wrong("keys.store", what, cure);
        }
        let audience = self.text("keys.audience").unwrap_or_default();
        if audience.len() > 255
            || (audience.chars()).any(|c| c.is_control() || c.is_whitespace() || c == ',')
        {
            self.wrong(
                "keys.audience",
                "is no audience",
                "write one audience: at most 255 bytes without commas, white space and control characters",
            );
        }
        Keys {
            store,
            audience,
            capacity: self.integer("keys.capacity") as u32,
            window: Window {
                back_s: self.seconds("keys.window_back"),
                ahead_s: self.seconds("keys.window_ahead"),
            },
            connections_per_second: self.integer("keys.connections_per_second") as u32,
            connections_per_second_hard: self.integer("keys.connections_per_second_hard") as u32,
            replay_capacity: self.integer("keys.replay_capacity") as u32,
        }
    }

    fn kernel(&mut self) -> Kernel {
        let attach = match self.text("kernel.attach").as_deref() {
            Some("driver") => Attach::Driver,
            Some("generic") => Attach::Generic,
            Some("off") => Attach::Off,
            _ => Attach::Auto,
        };
        let answer = match self.text("kernel.answer").as_deref() {
            Some("rst") => Answer::Rst,
            Some("drop") => Answer::Drop,
            _ => Answer::Alert,
        };
        let interfaces = self.values.texts("kernel.interfaces").unwrap_or(&[]);
        let interfaces = interfaces.to_vec();
        for (name, at) in &interfaces {
            if attach != Attach::Off && !files::interface_exists(name) {
                self.problems.add(
                    Some(at.clone()),
                    "kernel.interfaces",
                    format!("there is no network interface {name:?}"),
                    format!("write one of those there are: {}", files::interfaces()),
                );
            }
        }
        Kernel {
            attach,
            interfaces: interfaces.into_iter().map(|(name, _)| name).collect(),
            answer,
            heartbeat_max_age: self.duration("kernel.heartbeat_max_age"),
            events_per_second: self.integer("kernel.events_per_second") as u32,
            flows: self.integer("kernel.flows") as u32,
            answers_per_second: self.integer("kernel.answers_per_second") as u32,
            connection_check: self.boolean("kernel.connection_check"),
        }
    }

    fn api(&mut self) -> Api {
        let versions = self.values.texts("api.versions").unwrap_or(&[]).to_vec();
        if versions.is_empty() && self.values.texts("api.versions").is_some() {
            self.wrong(
                "api.versions",
                "is empty, so that every request would be refused",
                "write [\"2023-06-01\"]",
            );
        }
        for (version, at) in &versions {
            if !is_header_text(version) {
                self.problems.add(
                    Some(at.clone()),
                    "api.versions",
                    format!("{version:?} cannot stand in a header"),
                    "write a version such as \"2023-06-01\"",
                );
            }
        }
        let node = self.text("api.node").unwrap_or_else(host_name);
        if !is_header_text(&node) {
            self.wrong(
                "api.node",
                format!("{node:?} cannot stand in a header"),
                "write visible ASCII without blanks",
            );
        }
        Api {
            versions: versions.into_iter().map(|(version, _)| version).collect(),
            max_body_bytes: self.integer("api.max_body_bytes"),
            ping_after: self.duration("api.ping_after"),
            node,
            url: self.own_url(),
            zone: self.text("api.zone"),
            models: self.listed_models(),
            layer_secret: self.secret_source("api.layer_secret"),
        }
    }

    fn admin(&mut self) -> Admin {
        let address = self
            .values
            .addresses("admin.address")
            .and_then(|all| all.first());
        let address = address.map_or(SocketAddr::from(([127, 0, 0, 1], 0)), |(one, _)| *one);
        if !self.boolean("admin.allow_public") && is_public(address.ip()) {
            self.wrong(
                "admin.address",
                format!("strangers may reach {address}, and nothing there asks who they are"),
                "write a loopback or private address, or allow_public = true",
            );
        }
        let listen = self.values.addresses("listen.addresses").unwrap_or(&[]);
        let taken = listen.iter().find(|(other, _)| collide(*other, address));
        if let Some((other, _)) = taken {
            let what = format!("{address} is taken by listen.addresses ({other})");
            self.wrong("admin.address", what, "choose another port");
        }
        Admin { address }
    }

    fn log(&mut self) -> Log {
        let filter = self.text("log.filter").unwrap_or_default();
        if let Err(error) = tracing_subscriber::EnvFilter::builder().parse(&filter) {
            self.wrong(
                "log.filter",
                format!("{filter:?} is no filter: {error}"),
                "write a level (error, warn, info, debug, trace) or target=level, joined by commas",
            );
        }
        Log {
            filter,
            json: self.boolean("log.json"),
        }
    }

    pub(super) fn wrong(&mut self, field: &str, what: impl Into<String>, cure: impl Into<String>) {
        self.problems
            .add(self.values.span(field), field, what, cure);
    }

    pub(super) fn integer(&self, name: &str) -> u64 {
        self.values.integer(name).unwrap_or_default()
    }

    pub(super) fn duration(&self, name: &str) -> Duration {
        self.values.duration(name).unwrap_or_default()
    }

    pub(super) fn boolean(&self, name: &str) -> bool {
        self.values.boolean(name).unwrap_or_default()
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.values.text(name).map(str::to_owned)
    }

    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        self.values.path(name, self.problems.file)
    }

    /// Tokens carry whole seconds.
    fn seconds(&mut self, name: &str) -> u32 {
        let duration = self.duration(name);
        if duration.subsec_millis() != 0 {
            self.wrong(
                name,
                "is not a whole number of seconds",
                "round it to seconds",
            );
        }
        duration.as_secs() as u32
    }
}
