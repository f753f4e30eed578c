//! The loaded object and its maps, typed. Everything that touches the kernel by hand
//! goes through here; attaching is in [`super::attach`].

mod error;
mod loading;

pub use error::ProgramError;
pub(super) use error::{in_map, is_full};

use super::addresses::AddressMap;
use super::batch;
use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData, MapError, PerCpuArray, ProgramArray, RingBuf};
use aya::programs::{TestRun as _, TestRunOptions, Xdp};
use edge_common::policy::{COUNTER_SLOTS, CPU_WORDS, Clock, Counter, KeyPolicy, Reason, Settings};
use edge_common::rehearsal::Rehearsal;
use edge_common::token::KeyId;
use error::os_error;
use loading::offsets;
use rustix::io::Errno;
use std::net::SocketAddr;
use std::time::Duration;

/// Only if there is no such key yet (include/uapi/linux/bpf.h).
const BPF_NOEXIST: u64 = 1;

/// A bit for each port.
type Ports = [u64; 1024];
/// A CPU's memory in the kernel, of which the first words are its counters.
type Cpu = [u64; CPU_WORDS];

/// The object in the kernel: programs loaded, maps made, nothing attached.
pub struct Program {
    ebpf: Ebpf,
    keys: HashMap<MapData, u64, KeyPolicy>,
    settings: Array<MapData, Settings>,
    /// What the settings say, once they were set.
    said: Option<Settings>,
    addresses_version: u32,
    has_unanswered: bool,
    clock: Option<ClockMap>,
    ports: Array<MapData, Ports>,
    proxied: Array<MapData, Ports>,
    addresses: AddressMap,
    cpus: PerCpuArray<MapData, Cpu>,
    events: Option<RingBuf<MapData>>,
    rejects: Option<RingBuf<MapData>>,
    unanswered: HashMap<MapData, u32, u32>,
    rehearsal: Array<MapData, Rehearsal>,
    _programs: ProgramArray<MapData>,
    tables: Option<Tables>,
    sizes: Sizes,
}

/// How large the maps are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Keys.
    pub keys: u32,
    /// Sets of the flow table, of four connections each; a power of two.
    pub flow_sets: u32,
    /// Sets of the replay table, of seven tokens each; a power of two.
    pub replay_sets: u32,
    /// Sets of the prefix table, of five prefixes each; a power of two.
    pub prefix_sets: u32,
}

impl Sizes {
    /// Small ones, for tests.
    pub const SMALL: Self = Self {
        keys: 1024,
        flow_sets: 1024,
        replay_sets: 1024,
        prefix_sets: 64,
    };

    /// What the program must be told of them.
    pub fn write_to(self, settings: &mut Settings) {
        settings.flow_sets_mask = self.flow_sets - 1;
        settings.replay_sets_mask = self.replay_sets - 1;
        settings.prefix_sets_mask = self.prefix_sets - 1;
    }
}

/// The maps that userspace reads and writes as memory ([`super::memory`]).
pub struct Tables {
    /// Of [`edge_common::flow::FlowSet`].
    pub flow_sets: MapData,
    /// Of [`edge_common::flow::FlowSlot`].
    pub flow_slots: MapData,
    /// Of [`edge_common::replay::Set`].
    pub replay: MapData,
    /// Of [`edge_common::prefix::Set`].
    pub prefixes: MapData,
    /// Of [`edge_common::rate::KeyBucket`].
    pub key_buckets: MapData,
    /// Of [`edge_common::total::TotalBucket`].
    pub legacy_total: MapData,
}

/// The clock map alone: whoever beats has it to himself.
pub struct ClockMap(Array<MapData, Clock>);

/// What a test run of the program did to a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// The XDP action.
    pub action: u32,
    /// The frame afterwards.
    pub frame: Vec<u8>,
    /// Time of one run, by the kernel's count.
    pub duration: Duration,
}

impl Program {
    /// Name of the edge's program in the object.
    pub const EDGE: &str = "edge_xdp";
    /// Name of the program that passes everything.
    pub const PASS: &str = "edge_pass";

    /// The programs that it goes on in, by their places in `PROGRAMS`.
    pub const FURTHER: [&str; 4] = ["edge_scan", "edge_judge", "edge_answer", "edge_proxy"];

    /// Name of the program that runs a [`Rehearsal`].
    pub const AGAIN: &str = "edge_again";

    /// The sizes that it was loaded with.
    #[must_use]
    pub const fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Every program of the object that has work to do.
    pub fn names() -> impl Iterator<Item = &'static str> {
        [Self::EDGE].into_iter().chain(Self::FURTHER)
    }

    /// The tables, while nobody has taken them.
    #[must_use]
    pub const fn tables(&self) -> Option<&Tables> {
        self.tables.as_ref()
    }

    /// The tables, for the one who keeps them: a second call gives nothing.
    pub fn take_tables(&mut self) -> Option<Tables> {
        self.tables.take()
    }

    /// The ring of refused connections. It has one reader: a second call gives nothing.
    pub fn take_rejects(&mut self) -> Option<RingBuf<MapData>> {
        self.rejects.take()
    }

    /// Adds a key or replaces it; tells whether it is new.
    ///
    /// # Errors
    /// `E2BIG` when the map is full.
    pub fn put_key(&mut self, id: KeyId, policy: &KeyPolicy) -> Result<bool, ProgramError> {
        match self.keys.insert(id.0, policy, BPF_NOEXIST) {
            Err(error) if os_error(&error) == Some(Errno::EXIST) => {
                self.keys.insert(id.0, policy, 0).map_err(in_map("KEYS"))?;
                Ok(false)
            }
            inserted => inserted.map(|()| true).map_err(in_map("KEYS")),
        }
    }

    /// Puts keys of which none is there yet, each with its policy: all with one call where the
    /// kernel does it, else one by one. Gives how many are in the map, and why not the others.
    pub fn put_new_keys(
        &mut self,
        ids: &[u64],
        policies: &[KeyPolicy],
    ) -> (u64, Result<(), ProgramError>) {
        if batch::update(&mut self.keys, ids, policies).is_ok() {
            return (ids.len() as u64, Ok(()));
        }
        // How far it came it may not have told; one by one tells, and why.
        for (put, (id, policy)) in (0..).zip(ids.iter().zip(policies)) {
            if let Err(source) = self.keys.insert(id, policy, 0) {
                return (put, Err(in_map("KEYS")(source)));
            }
        }
        (ids.len() as u64, Ok(()))
    }

    /// Takes a key out; tells whether it was there.
    ///
    /// # Errors
    /// When the map cannot be reached.
    pub fn remove_key(&mut self, id: KeyId) -> Result<bool, ProgramError> {
        match self.keys.remove(&id.0) {
            Err(MapError::KeyNotFound) => Ok(false),
            Err(error) if os_error(&error) == Some(Errno::NOENT) => Ok(false),
            removed => removed.map(|()| true).map_err(in_map("KEYS")),
        }
    }

    /// Replaces the settings; the tables' sizes and the kernel's own offsets are put in.
    ///
    /// # Errors
    /// When the map cannot be reached.
    pub fn set_settings(&mut self, settings: &Settings) -> Result<(), ProgramError> {
        let mut settings = *settings;
        self.sizes.write_to(&mut settings);
        let offsets = offsets();
        settings.request_rcv_isn_at = offsets.request_rcv_isn;
        settings.request_snt_isn_at = offsets.request_snt_isn;
        self.said = Some(settings);
        self.say()
    }

    /// Writes the settings, with what only this knows, if there are any yet.
    fn say(&mut self) -> Result<(), ProgramError> {
        let Some(settings) = &mut self.said else {
            return Ok(());
        };
        settings.addresses_version = self.addresses_version;
        settings.has_unanswered = self.has_unanswered.into();
        let set = self.settings.set(0, *settings, 0);
        set.map_err(in_map("SETTINGS"))
    }

    /// Watches these TCP ports and no others.
    ///
    /// # Errors
    /// When the map cannot be reached.
    pub fn set_ports(&mut self, ports: &[u16]) -> Result<(), ProgramError> {
        set_bits(&mut self.ports, ports).map_err(in_map("PORTS"))
    }

    /// Expects that a PROXY protocol header may come first on these ports and no others.
    /// They must be among those that are watched, and the settings must say that there are
    /// any.
    ///
    /// # Errors
    /// When the map cannot be reached.
    pub fn set_proxied_ports(&mut self, ports: &[u16]) -> Result<(), ProgramError> {
        set_bits(&mut self.proxied, ports).map_err(in_map("PROXIED"))
    }

    /// Judges hellos to these addresses and no others, where the settings ask for a
    /// connection behind a hello. Their ports must be among those that are watched. Gives how
    /// many had no room: hellos to them pass.
    ///
    /// # Errors
    /// When the map cannot be reached.
    pub fn set_addresses(&mut self, addresses: &[SocketAddr]) -> Result<usize, ProgramError> {
        let set = self.addresses.set(addresses);
        // Also when it failed: some may have been taken out.
        self.addresses_version = self.addresses_version.wrapping_add(1).max(1);
        self.say()?;
        set
    }

    /// How many addresses hellos are judged to.
    #[must_use]
    pub fn addresses(&self) -> usize {
        self.addresses.len()
    }

    /// Every counter summed over CPUs, by slot number.
    ///
    /// # Errors
    /// When the map cannot be reached.
    pub fn counters(&self) -> Result<Vec<u64>, ProgramError> {
        let cpus = self.cpus.get(&0, 0).map_err(in_map("CPU"))?;
        let sum = |slot| {
            cpus.iter()
                .fold(0u64, |sum, cpu| sum.wrapping_add(cpu[slot]))
        };
        Ok((0..COUNTER_SLOTS as usize).map(sum).collect())
    }

    /// The clock, for the one who beats: a second call gives nothing.
    pub fn take_clock(&mut self) -> Option<ClockMap> {
        self.clock.take()
    }

    /// The event ring. It has one reader: a second call gives nothing.
    pub fn take_events(&mut self) -> Option<RingBuf<MapData>> {
        self.events.take()
    }

    /// Runs a program of the object once on `frame`, attached to nothing
    /// (`BPF_PROG_TEST_RUN`; `repeat` above 1 feeds it its own output).
    ///
    /// # Errors
    /// When the kernel refuses to run it: a frame under 14 bytes, for instance.
    pub fn test_run(
        &mut self,
        name: &'static str,
        frame: &[u8],
        repeat: u32,
    ) -> Result<TestRun, ProgramError> {
        // The frame may grow by what an answer needs beyond it.
        let mut output = vec![0; frame.len() + 256];
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.data_out = Some(&mut output);
        options.repeat = repeat;
        let program = xdp(&mut self.ebpf, name)?;
        let result = program.test_run(options).map_err(Box::new)?;
        output.truncate(result.data_size_out as usize);
        Ok(TestRun {
            action: result.return_value,
            frame: output,
            duration: result.duration,
        })
    }

    /// Leaves rejects that arrive on this interface, by its number, to userspace.
    ///
    /// # Errors
    /// `E2BIG` when there are 64 such interfaces already.
    pub fn leave_rejects(&mut self, interface: u32) -> Result<(), ProgramError> {
        let put = self.unanswered.insert(interface, 1, 0);
        put.map_err(in_map("UNANSWERED"))?;
        self.has_unanswered = true;
        self.say()
    }

    /// What [`Self::AGAIN`] is to run from now on.
    ///
    /// # Errors
    /// When the map cannot be reached.
    pub fn set_rehearsal(&mut self, rehearsal: &Rehearsal) -> Result<(), ProgramError> {
        let set = self.rehearsal.set(0, rehearsal, 0);
        set.map_err(in_map("REHEARSAL"))
    }

    /// How many instructions the verifier walked to accept a program (Linux 5.16).
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn verified_instructions(
        &mut self,
        name: &'static str,
    ) -> Result<Option<u32>, ProgramError> {
        let info = xdp(&mut self.ebpf, name)?.info().map_err(Box::new)?;
        Ok(info.verified_instruction_count())
    }

    /// The edge's program, to be attached.
    ///
    /// # Errors
    /// When the object lacks it.
    pub fn edge(&mut self) -> Result<&mut Xdp, ProgramError> {
        xdp(&mut self.ebpf, Self::EDGE)
    }

    /// The program that passes everything, to be attached to a veth's peer.
    ///
    /// # Errors
    /// When the object lacks it.
    pub fn pass(&mut self) -> Result<&mut Xdp, ProgramError> {
        xdp(&mut self.ebpf, Self::PASS)
    }
}

impl ClockMap {
    /// Sets the clock.
    ///
    /// # Errors
    /// When the map cannot be reached.
    pub fn set(&mut self, clock: &Clock) -> Result<(), ProgramError> {
        self.0.set(0, clock, 0).map_err(in_map("CLOCK"))
    }
}

/// The counters that have a name, with it.
pub fn named(counters: &[u64]) -> impl Iterator<Item = (&'static str, u64)> + '_ {
    let reasons = Reason::ALL
        .iter()
        .map(|reason| (*reason as usize, reason.name()));
    let others = Counter::ALL
        .iter()
        .map(|counter| (*counter as usize, counter.name()));
    (reasons.chain(others)).filter_map(|(slot, name)| Some((name, *counters.get(slot)?)))
}

fn xdp<'a>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut Xdp, ProgramError> {
    let program = ebpf.program_mut(name).ok_or(ProgramError::Missing(name))?;
    Ok(program.try_into().map_err(Box::new)?)
}

fn set_bits(map: &mut Array<MapData, Ports>, ports: &[u16]) -> Result<(), MapError> {
    let mut words = [0u64; 1024];
    for port in ports {
        words[usize::from(port >> 6)] |= 1 << (port & 63);
    }
    map.set(0, words, 0)
}
