//! The loaded object and its maps, typed. Everything that touches the kernel by hand
//! goes through here; attaching is in [`super::attach`].

use super::addresses::AddressMap;
use super::batch;
use super::cast;
use super::offsets::Offsets;
use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, ProgramArray, RingBuf};
use aya::programs::{TestRun as _, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use edge_common::flow;
use edge_common::policy::{COUNTER_SLOTS, CPU_WORDS, Clock, Counter, KeyPolicy, Reason, Settings};
use edge_common::rehearsal::Rehearsal;
use edge_common::token::KeyId;
use rustix::io::Errno;
use std::net::SocketAddr;
use std::sync::OnceLock;
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

/// What went wrong between us and the kernel.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The kernel refused the object, a map or the program.
    #[error("the kernel refused the XDP object: {0}")]
    Load(#[from] Box<aya::EbpfError>),
    /// The verifier refused the program, or the caller may not load one.
    #[error("the kernel refused the XDP program: {why}", why = brief(.0))]
    Program(#[from] Box<aya::programs::ProgramError>),
    /// A map operation failed.
    #[error("BPF map {map}: {source}")]
    Map {
        /// The map's name in the object.
        map: &'static str,
        /// The cause.
        source: MapError,
    },
    /// A map's memory could not be had.
    #[error("BPF map {map} cannot be mapped into memory: {source}")]
    Memory {
        /// The map's name in the object.
        map: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// The object lacks a part: it is not the edge's.
    #[error("the XDP object has no {0}; it was not built from this source tree")]
    Missing(&'static str),
}

impl ProgramError {
    /// The operating system's error beneath, if there is one.
    #[must_use]
    pub fn os_error(&self) -> Option<Errno> {
        os_error(self)
    }
}

/// The verifier's objection in one line; its whole log has thousands and goes to debug.
fn brief(error: &aya::programs::ProgramError) -> String {
    let aya::programs::ProgramError::LoadError {
        io_error,
        verifier_log,
    } = error
    else {
        return error.to_string();
    };
    let log = verifier_log.to_string();
    tracing::debug!("the verifier's log:\n{log}");
    // It ends with statistics; the objection is the line before them.
    let statistics = ["verification time", "stack depth", "processed "];
    let objection = (log.lines().rev())
        .find(|line| !line.is_empty() && !statistics.iter().any(|s| line.starts_with(s)));
    objection.map_or_else(
        || io_error.to_string(),
        |objection| format!("{io_error}: {objection}"),
    )
}

fn os_error(error: &(dyn std::error::Error + 'static)) -> Option<Errno> {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let mut io = chain.filter_map(|error| error.downcast_ref::<std::io::Error>());
    io.find_map(std::io::Error::raw_os_error)
        .map(Errno::from_raw_os_error)
}

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

    /// Loads `object` with maps of these sizes.
    ///
    /// # Errors
    /// When the kernel refuses it, most often for want of CAP_BPF and CAP_NET_ADMIN.
    pub fn load(object: &[u8], sizes: &Sizes) -> Result<Self, ProgramError> {
        let Offsets { cast, tcp_sock, .. } = offsets();
        if cast != 0 && tcp_sock != 0 {
            let (quicker, times) = cast::put(object, cast);
            if times > 0 {
                match Self::load_as_it_is(&quicker, sizes) {
                    Ok(program) => return Ok(program),
                    // Without a compiler in the kernel, for instance, there are no such calls.
                    Err(error) => tracing::debug!(%error, "without bpf_rdonly_cast"),
                }
            }
        }
        Self::load_as_it_is(object, sizes)
    }

    fn load_as_it_is(object: &[u8], sizes: &Sizes) -> Result<Self, ProgramError> {
        let offsets = offsets();
        let rcv_nxt_at = u64::from(offsets.socket_rcv_nxt);
        let tcp_sock = u64::from(offsets.tcp_sock);
        let stores_in_order = u64::from(cfg!(target_arch = "x86_64"));
        let mut ebpf = EbpfLoader::new()
            .override_global("SOCKET_RCV_NXT_AT", &rcv_nxt_at, true)
            .override_global("TCP_SOCK_TYPE", &tcp_sock, true)
            .override_global("STORES_IN_ORDER", &stores_in_order, true)
            .map_max_entries("KEYS", sizes.keys.max(1))
            .map_max_entries("KEY_BUCKETS", sizes.keys.max(1))
            .map_max_entries("FLOW_SETS", sizes.flow_sets)
            .map_max_entries("FLOW_SLOTS", sizes.flow_sets * flow::WAYS)
            .map_max_entries("REPLAY", sizes.replay_sets)
            .map_max_entries("PREFIXES", sizes.prefix_sets)
            .load(object)
            .map_err(Box::new)?;
        let mut programs: ProgramArray<_> = typed("PROGRAMS", map(&mut ebpf, "PROGRAMS")?)?;
        for (place, name) in (0..).zip(Self::FURTHER) {
            let program = xdp(&mut ebpf, name)?;
            program.load().map_err(Box::new)?;
            let descriptor = program.fd().map_err(Box::new)?;
            let set = programs.set(place, descriptor, 0);
            set.map_err(in_map("PROGRAMS"))?;
        }
        for name in [Self::EDGE, Self::PASS, Self::AGAIN] {
            xdp(&mut ebpf, name)?.load().map_err(Box::new)?;
        }
        let edge = xdp(&mut ebpf, Self::EDGE)?.fd().map_err(Box::new)?;
        let last = Self::FURTHER.len() as u32;
        programs.set(last, edge, 0).map_err(in_map("PROGRAMS"))?;
        let mut take = |name| map(&mut ebpf, name);
        let keys = typed("KEYS", take("KEYS")?)?;
        let settings = typed("SETTINGS", take(".bss.settings")?)?;
        let clock = Some(ClockMap(typed("CLOCK", take(".bss.clock")?)?));
        let ports = typed("PORTS", take(".bss.ports")?)?;
        let proxied = typed("PROXIED", take(".bss.proxied")?)?;
        let addresses = AddressMap::new(typed("ADDRESSES", take("ADDRESSES")?)?);
        let cpus = typed("CPU", take("CPU")?)?;
        let unanswered = typed("UNANSWERED", take("UNANSWERED")?)?;
        let rehearsal = typed("REHEARSAL", take("REHEARSAL")?)?;
        let events = Some(typed("EVENTS", take("EVENTS")?)?);
        let rejects = Some(typed("REJECTS", take("REJECTS")?)?);
        let tables = Tables {
            flow_sets: array(take("FLOW_SETS")?)?,
            flow_slots: array(take("FLOW_SLOTS")?)?,
            replay: array(take("REPLAY")?)?,
            prefixes: array(take("PREFIXES")?)?,
            key_buckets: array(take("KEY_BUCKETS")?)?,
            legacy_total: array(take("LEGACY_TOTAL")?)?,
        };
        Ok(Self {
            ebpf,
            keys,
            settings,
            said: None,
            addresses_version: 1,
            has_unanswered: false,
            clock,
            ports,
            proxied,
            addresses,
            cpus,
            events,
            rejects,
            unanswered,
            rehearsal,
            _programs: programs,
            tables: Some(tables),
            sizes: *sizes,
        })
    }

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

/// Read once: it is the same kernel all the time.
fn offsets() -> Offsets {
    static OFFSETS: OnceLock<Offsets> = OnceLock::new();
    *OFFSETS.get_or_init(|| {
        let offsets = Offsets::of_kernel();
        if !offsets.are_known() {
            tracing::warn!(
                ?offsets,
                "/sys/kernel/btf/vmlinux does not tell where sockets keep their sequence \
                 numbers: the kernel half takes any segment of a connection for its next"
            );
        }
        offsets
    })
}

fn set_bits(map: &mut Array<MapData, Ports>, ports: &[u16]) -> Result<(), MapError> {
    let mut words = [0u64; 1024];
    for port in ports {
        words[usize::from(port >> 6)] |= 1 << (port & 63);
    }
    map.set(0, words, 0)
}

fn map(ebpf: &mut Ebpf, name: &'static str) -> Result<Map, ProgramError> {
    ebpf.take_map(name).ok_or(ProgramError::Missing(name))
}

/// An array's own data: it is used as memory.
fn array(map: Map) -> Result<MapData, ProgramError> {
    match map {
        Map::Array(data) => Ok(data),
        _ => Err(ProgramError::Missing("array")),
    }
}

fn typed<T: TryFrom<Map, Error = MapError>>(
    name: &'static str,
    map: Map,
) -> Result<T, ProgramError> {
    map.try_into().map_err(in_map(name))
}

/// Whether a map had no room.
pub(super) fn is_full(error: &MapError) -> bool {
    os_error(error) == Some(Errno::TOOBIG)
}

pub(super) fn in_map(map: &'static str) -> impl Fn(MapError) -> ProgramError {
    move |source| ProgramError::Map { map, source }
}
