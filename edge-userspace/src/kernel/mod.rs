//! The kernel half's loader: load, fill, beat, attach, read, detach, in that order. Its
//! tables of tokens and rates are [`crate::charges`]' to write.
//!
//! The program is attached last, when its maps hold every key and its heart beats: it
//! never judges by half a policy. Links are tied to this process, so whatever ends it
//! detaches the program.

mod addresses;
pub mod agreement;
mod attach;
mod batch;
mod cast;
mod device;
pub mod flows;
mod follow_up;
mod interfaces;
mod load;
pub mod memory;
pub mod object;
mod offload;
mod offsets;
mod program;
mod pulse;
pub mod reaper;
pub mod sockets;
mod vlan;
mod worker;

pub use attach::AttachError;
pub use interfaces::InterfaceError;
pub use load::Loaded;
pub use program::{ClockMap, Program, ProgramError, Sizes, Tables, TestRun, named};
pub use pulse::{PulseError, clock_now, monotonic_ns};

use crate::charges::Charges;
use crate::config::Config;
use crate::keys::{Change, KeyRecord, Observer};
use agreement::{Agreement, Comparisons, Followed};
use attach::{Attached, Mode};
use edge_common::policy::{KeyPolicy, Settings};
use edge_common::token::KeyId;
use flows::Usage;
use follow_up::FollowUp;
use pulse::Pulse;
use reaper::Reaped;
use serde::Serialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use worker::Worker;

/// The attached kernel half. Dropping it detaches the program.
pub struct KernelHalf {
    shared: Arc<Shared>,
    attached: Attached,
    ports: Vec<u16>,
    follow_up: FollowUp,
    _addresses: Option<Worker>,
    _pulse: Pulse,
}

/// What key changes and readers share.
struct Shared {
    /// When keys and settings changed.
    followed: Arc<Followed>,
    /// `None` once detached: whoever observes keys may outlive the kernel half.
    state: Mutex<Option<State>>,
}

struct State {
    program: Program,
    settings: Settings,
    charges: Arc<Charges>,
    keys: u64,
    /// A key did not fit the map: until a restart a miss proves nothing.
    overflowed: bool,
    /// Addresses that did not fit the map.
    addresses_left_out: usize,
}

/// What `edge status` and `/metrics` show of the kernel half.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// `driver`, `generic`, `mixed` or `none`.
    pub mode: &'static str,
    /// Why the mode is not the one first tried; empty when it is.
    pub notes: Vec<String>,
    /// Interfaces with the program attached.
    pub interfaces: Vec<Interface>,
    /// Ports watched.
    pub ports: Vec<u16>,
    /// Addresses, each with its port, that hellos are judged to.
    pub addresses: u64,
    /// Keys in the policy map.
    pub keys: u64,
    /// Whether the policy map is marked complete.
    pub policy_complete: bool,
    /// `[name, value]`: every reason and counter, summed over CPUs.
    pub counters: Vec<(&'static str, u64)>,
    /// The flow table.
    pub flows: Usage,
    /// What became of the sockets of refused connections.
    pub reaped: Reaped,
    /// Whether userspace found the same in the hellos that it read.
    pub comparisons: Comparisons,
    /// The object in this binary, attached or not: [`object::PROVENANCE`].
    pub object: &'static str,
}

/// One interface with the program attached.
#[derive(Clone, Debug, Serialize)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// `driver` or `generic`.
    pub mode: &'static str,
}

/// Why the kernel half could not be attached. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An interface is missing.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// A demanded mode cannot be had.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The kernel refused the program, and the configuration demands it.
    #[error("kernel.attach = {demanded:?}: {why}. {cure}", why = with_causes(.cause))]
    Load {
        /// The demanded mode.
        demanded: &'static str,
        /// What to do.
        cure: &'static str,
        /// The cause. Not the error's source: the text tells it, and ends with the cure.
        cause: Box<ProgramError>,
    },
    /// The heartbeat could not begin.
    #[error(transparent)]
    Pulse(#[from] PulseError),
}

impl KernelHalf {
    fn start(
        config: &Config,
        mut state: State,
        interfaces: &[String],
    ) -> Result<Result<Self, Status>, Error> {
        let missing = |part| PulseError::Clock(ProgramError::Missing(part));
        let clock = state.program.take_clock().ok_or_else(|| missing("CLOCK"))?;
        let events = state
            .program
            .take_events()
            .ok_or_else(|| missing("EVENTS"))?;
        let offsets = Arc::default();
        let pulse = Pulse::start(clock, events, Arc::clone(&offsets))?;
        let followed = Arc::<Followed>::default();
        followed.end();
        let mut notes = Vec::new();
        let links = interfaces::indices(interfaces);
        let follow_up = FollowUp::start(&mut state, links, offsets, &followed, &mut notes)?;
        let mut attached = attach::attach(&mut state.program, interfaces, config.kernel.attach)?;
        attached.notes.append(&mut notes);
        if attached.interfaces.is_empty() {
            let mut status = Status::none(String::new());
            status.notes = attached.notes;
            return Ok(Err(status));
        }
        let shared = Arc::new(Shared {
            followed,
            state: Mutex::new(Some(state)),
        });
        let addresses = addresses::follow(&config.listen.addresses, &shared);
        Ok(Ok(Self {
            shared,
            _addresses: addresses.map_err(PulseError::Thread)?,
            attached,
            ports: ports(config),
            follow_up,
            _pulse: pulse,
        }))
    }

    /// Writes the limits of [`Charges`] as they are now into the settings. A key's hard rate is
    /// in its policy: [`KernelHalf::observer`] is to be told of every key when it has changed.
    ///
    /// # Errors
    /// When a map cannot be reached.
    pub fn follow_limits(&self) -> Result<(), ProgramError> {
        self.shared.followed.begin();
        let outcome = self.shared.with(State::follow_limits);
        self.shared.followed.end();
        outcome
    }

    /// Applies key changes to the policy map.
    #[must_use]
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.shared) as _
    }

    /// Compares the kernel half's verdicts with those of the daemon.
    #[must_use]
    pub fn agreement(&self) -> Arc<Agreement> {
        Arc::clone(&self.follow_up.agreement)
    }

    /// A fresh look at the maps.
    #[must_use]
    pub fn status(&self) -> Status {
        let mut notes = self.attached.notes.clone();
        // Now, not as it was at the attach: VLANs come and go, and so does what takes tags off.
        let interfaces = self.attached.interfaces.iter();
        let driver = interfaces.filter(|(_, mode)| *mode == Mode::Driver);
        notes.extend(
            driver.filter_map(|(name, _)| vlan::note(name, self.attached.left.contains(name))),
        );
        let looked = self.shared.with(|state| {
            let complete = state.settings.policy_complete != 0;
            let addresses = (state.program.addresses(), state.addresses_left_out);
            Ok((state.keys, complete, addresses, state.program.counters()?))
        });
        let (keys, policy_complete, addresses, counters) = looked.unwrap_or_else(|error| {
            notes.push(error.to_string());
            Default::default()
        });
        let (addresses, left_out) = addresses;
        if left_out > 0 {
            notes.push(addresses::left_out(left_out));
        }
        let interfaces = self.attached.interfaces.iter();
        let interfaces: Vec<_> = interfaces
            .map(|(name, mode)| Interface {
                name: name.clone(),
                mode: mode.name(),
            })
            .collect();
        let first = interfaces
            .first()
            .map_or("none", |interface| interface.mode);
        let same = interfaces.iter().all(|interface| interface.mode == first);
        let follow_up = &self.follow_up;
        Status {
            object: object::PROVENANCE,
            mode: if same { first } else { "mixed" },
            notes,
            interfaces,
            ports: self.ports.clone(),
            addresses: addresses as u64,
            keys,
            policy_complete,
            counters: named(&counters).collect(),
            flows: follow_up.flows.usage(monotonic_ns()),
            reaped: follow_up.reaped.get(),
            comparisons: follow_up.agreement.get(),
        }
    }
}

impl Status {
    /// No kernel half, and why.
    #[must_use]
    pub fn none(why: String) -> Self {
        Self {
            object: object::PROVENANCE,
            mode: "none",
            notes: vec![why],
            interfaces: Vec::new(),
            ports: Vec::new(),
            addresses: 0,
            keys: 0,
            policy_complete: false,
            counters: Vec::new(),
            flows: Usage::default(),
            reaped: Reaped::default(),
            comparisons: Comparisons::default(),
        }
    }
}

impl Drop for KernelHalf {
    fn drop(&mut self) {
        // The links go with the program, and the program now, not when the last observer does.
        drop(self.shared.state().take());
    }
}

/// Changes that are applied before a reader of the status may come in between.
const CHUNK: usize = 1024;

impl Shared {
    fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the state; nothing, and well, when there is none any more.
    fn with<T: Default>(
        &self,
        act: impl FnOnce(&mut State) -> Result<T, ProgramError>,
    ) -> Result<T, ProgramError> {
        self.state().as_mut().map_or_else(|| Ok(T::default()), act)
    }

    /// Takes a batch over. The table has it already, so from here until the map has it too,
    /// and after a failure, a miss in the map proves nothing.
    fn follow(&self, changes: &[Change], complete: bool) -> Result<(), ProgramError> {
        self.followed.begin();
        let outcome = self.follow_all(changes, complete);
        self.followed.end();
        outcome
    }

    fn follow_all(&self, changes: &[Change], complete: bool) -> Result<(), ProgramError> {
        let adds = changes
            .iter()
            .any(|change| matches!(change, Change::Put(_)));
        if adds || !complete {
            self.with(|state| state.mark(false))?;
        }
        let mut outcome = Ok(());
        for chunk in changes.chunks(CHUNK) {
            outcome = self.with(|state| state.apply(chunk)).and(outcome);
            // The lock is not fair: without this a waiting reader may never get in between.
            std::thread::yield_now();
        }
        self.with(|state| state.mark(complete && !state.overflowed))?;
        outcome
    }
}

impl Observer for Shared {
    fn changed(&self, changes: &[Change], complete: bool) {
        if let Err(error) = self.follow(changes, complete) {
            tracing::error!(%error, "the kernel's key policy could not follow a change");
        }
    }
}

impl State {
    fn apply(&mut self, changes: &[Change]) -> Result<(), ProgramError> {
        let mut outcome = Ok(());
        for change in changes {
            let done = match change {
                Change::Put(record) | Change::Revoked(record) => self.put(record),
                Change::Removed(id) => self.remove(*id),
            };
            if let Err(error) = done {
                self.overflowed = true;
                outcome = Err(error);
            }
        }
        outcome
    }

    fn put(&mut self, record: &KeyRecord) -> Result<(), ProgramError> {
        let Some(policy) = self.policy(record) else {
            // It lost this audience, or never had it.
            return self.remove(record.id);
        };
        self.keys += u64::from(self.program.put_key(record.id, &policy)?);
        Ok(())
    }

    /// A key's policy with what is this daemon's: its bucket, and the rate that holds now.
    fn policy(&self, record: &KeyRecord) -> Option<KeyPolicy> {
        let mut policy = record.policy?;
        policy.not_before_s = record.not_before_s;
        policy.not_after_s = record.not_after_s;
        policy.flags = if record.revoked {
            KeyPolicy::REVOKED
        } else {
            0
        };
        if let Some(bucket) = self.charges.bucket(record.id) {
            policy.bucket = bucket;
            policy.hard_rate = self.charges.limits().hard_rate(record);
        }
        Some(policy)
    }

    fn remove(&mut self, id: KeyId) -> Result<(), ProgramError> {
        self.keys -= u64::from(self.program.remove_key(id)?);
        Ok(())
    }

    fn follow_limits(&mut self) -> Result<(), ProgramError> {
        load::set_limits(&mut self.settings, &self.charges.limits());
        self.program.set_settings(&self.settings)
    }

    fn mark(&mut self, complete: bool) -> Result<(), ProgramError> {
        self.settings.policy_complete = u32::from(complete);
        self.program.set_settings(&self.settings)
    }
}

/// The error's text and those beneath it that it does not tell, so that the cure can end it.
fn with_causes(error: &ProgramError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let told = cause.to_string();
        if !text.contains(&told) {
            text += &format!(": {told}");
        }
        source = cause.source();
    }
    text
}

fn ports(config: &Config) -> Vec<u16> {
    let mut ports: Vec<_> = config
        .listen
        .addresses
        .iter()
        .map(|address| address.port())
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}
