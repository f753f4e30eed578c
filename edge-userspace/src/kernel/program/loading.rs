//! Brings the object into the kernel: its programs, and its maps each as its own type.

use super::error::in_map;
use super::{ClockMap, Program, ProgramError, Sizes, Tables, xdp};
use crate::kernel::addresses::AddressMap;
use crate::kernel::cast;
use crate::kernel::offsets::Offsets;
use aya::maps::{Map, MapData, MapError, ProgramArray};
use aya::{Ebpf, EbpfLoader};
use edge_common::flow;
use std::sync::OnceLock;

impl Program {
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
}

/// Read once: it is the same kernel all the time.
pub(super) fn offsets() -> Offsets {
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
