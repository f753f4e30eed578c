//! Loading, the first step: the program and its maps are in the kernel, and nothing is
//! attached. Userspace's tables can be mapped then, and the maps be filled.

use super::{
    Error, KernelHalf, Program, ProgramError, Sizes, State, Status, addresses, flows, interfaces,
    object, ports,
};
use crate::charges::{self, Charges, Limits};
use crate::config::{Attach, Config};
use crate::keys::KeyRecord;
use edge_common::policy::{KeyPolicy, Settings};
use rustix::io::Errno;
use std::sync::Arc;
use zeroize::Zeroize as _;

/// The kernel half in the kernel, with empty maps and attached nowhere.
pub struct Loaded {
    program: Program,
    interfaces: Vec<String>,
    charged: Option<charges::Tables>,
}

impl KernelHalf {
    /// Loads the program and makes its maps. `Ok(Err(status))`: not, by configuration or
    /// because it cannot be had here, and the status's notes say why.
    ///
    /// # Errors
    /// When the configuration demands a mode that cannot be had, or names a missing
    /// interface.
    pub fn load(config: &Config) -> Result<Result<Loaded, Status>, Error> {
        if config.kernel.attach == Attach::Off {
            return Ok(Err(Status::none("kernel.attach = \"off\"".into())));
        }
        let interfaces = interfaces::choose(config)?;
        match load(config) {
            Ok((program, charged)) => Ok(Ok(Loaded {
                program,
                interfaces,
                charged: Some(charged),
            })),
            Err(source) => refused(config, source).map(Err),
        }
    }
}

impl Loaded {
    /// The memory of the tables that userspace charges. It has one owner: a second call gives
    /// nothing.
    pub fn take_charged(&mut self) -> Option<charges::Tables> {
        self.charged.take()
    }

    /// Fills the maps with `keys`, of which no two have one id, marks the policy complete when `complete`, beats,
    /// attaches. `Ok(Err(status))`: attached nowhere because it cannot be had here.
    ///
    /// # Errors
    /// When the configuration demands a mode that cannot be had. Nothing is left attached.
    pub fn attach<'a>(
        self,
        config: &Config,
        keys: impl IntoIterator<Item = &'a Arc<KeyRecord>>,
        complete: bool,
        charges: Arc<Charges>,
    ) -> Result<Result<KernelHalf, Status>, Error> {
        match fill(self.program, config, keys, complete, charges) {
            Ok(state) => KernelHalf::start(config, state, &self.interfaces),
            Err(source) => refused(config, source).map(Err),
        }
    }
}

/// What the settings say of the limits.
pub(super) fn set_limits(settings: &mut Settings, limits: &Limits) {
    settings.window_back_s = limits.window_back_s;
    settings.window_ahead_s = limits.window_ahead_s;
    settings.deny_legacy = u32::from(limits.legacy_deny);
    settings.legacy_rate = limits.legacy_rate();
    settings.legacy_total = limits.legacy_total_rate();
}

fn load(config: &Config) -> Result<(Program, charges::Tables), ProgramError> {
    let charged = charges::Sizes::of(config);
    let sizes = Sizes {
        keys: charged.keys,
        flow_sets: flows::sets_for(config.kernel.flows),
        replay_sets: charged.replay_sets,
        prefix_sets: charged.prefix_sets,
    };
    let program = Program::load(object::OBJECT, &sizes)?;
    let tables = program.tables().ok_or(ProgramError::Missing("tables"))?;
    let charged = charges::Tables::of_maps(tables, charged)?;
    Ok((program, charged))
}

fn fill<'a>(
    program: Program,
    config: &Config,
    keys: impl IntoIterator<Item = &'a Arc<KeyRecord>>,
    complete: bool,
    charges: Arc<Charges>,
) -> Result<State, ProgramError> {
    let heartbeat_max_age_ns = config.kernel.heartbeat_max_age.as_nanos();
    let mut settings = Settings {
        heartbeat_max_age_ns: u64::try_from(heartbeat_max_age_ns).unwrap_or(u64::MAX),
        answer: config.kernel.answer as u32,
        policy_complete: 0,
        events_per_second: config.kernel.events_per_second,
        answers_per_second: config.kernel.answers_per_second,
        check_connection: u32::from(config.kernel.connection_check),
        secret: charges.secret(),
        ..Settings::default()
    };
    set_limits(&mut settings, &charges.limits());
    let mut state = State {
        program,
        settings,
        charges,
        keys: 0,
        overflowed: false,
        addresses_left_out: 0,
    };
    state.program.set_ports(&ports(config))?;
    let listening = &config.listen.addresses;
    let local = addresses::local(listening).unwrap_or_else(|error| {
        // The thread that follows them tries again.
        tracing::error!(%error, "the kernel does not know this host's addresses yet");
        Vec::new()
    });
    state.listen(listening, &local)?;
    let proxied = &config.listen.proxy_protocol.addresses;
    let proxied: Vec<_> = proxied.iter().map(|address| address.port()).collect();
    state.program.set_proxied_ports(&proxied)?;
    state.settings.has_proxied_ports = u32::from(!proxied.is_empty());
    let mut keys = keys.into_iter();
    let mut staged = Staged::default();
    while staged.take(&state, &mut keys) {
        let (put, outcome) = state.program.put_new_keys(&staged.ids, &staged.policies);
        state.keys += put;
        if let Err(error) = outcome {
            tracing::error!(%error, "the kernel's key policy is not complete");
            state.overflowed = true;
            break;
        }
    }
    state.mark(complete && !state.overflowed)?;
    Ok(state)
}

/// Keys on their way into the map.
struct Staged {
    ids: Vec<u64>,
    policies: Vec<KeyPolicy>,
}

impl Staged {
    const ROOM: usize = 4096;

    /// The policies of the next keys instead of those before; whether there were any. A key
    /// that is not for this audience has none.
    fn take<'a>(
        &mut self,
        state: &State,
        keys: &mut impl Iterator<Item = &'a Arc<KeyRecord>>,
    ) -> bool {
        self.wipe();
        let policies = keys.filter_map(|key| Some((key.id, state.policy(key)?)));
        for (id, policy) in policies.take(Self::ROOM) {
            self.ids.push(id.0);
            self.policies.push(policy);
        }
        !self.ids.is_empty()
    }

    fn wipe(&mut self) {
        for policy in &mut self.policies {
            policy.mac_key.zeroize();
        }
        self.ids.clear();
        self.policies.clear();
    }
}

impl Default for Staged {
    fn default() -> Self {
        // Never more: a vector that grows leaves secrets behind.
        Self {
            ids: Vec::with_capacity(Self::ROOM),
            policies: Vec::with_capacity(Self::ROOM),
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// What it means that the program cannot be had: an error when it is demanded.
fn refused(config: &Config, source: ProgramError) -> Result<Status, Error> {
    let cure = load_cure(&source);
    let demanded = match config.kernel.attach {
        Attach::Driver => "driver",
        Attach::Generic => "generic",
        _ => {
            return Ok(Status::none(format!(
                "{}. {cure}",
                super::with_causes(&source)
            )));
        }
    };
    Err(Error::Load {
        demanded,
        cure,
        cause: Box::new(source),
    })
}

fn load_cure(error: &ProgramError) -> &'static str {
    match error.os_error() {
        Some(Errno::PERM | Errno::ACCESS) => {
            "Run as root, or give the service CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; \
             kernel.attach = \"off\" does without the kernel half."
        }
        _ => "`cargo xtask doctor` checks what the kernel half needs (Linux 6.1, BTF).",
    }
}
