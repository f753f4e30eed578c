//! XDP programs of two instructions: one drops everything, the control; one passes
//! everything, for the attackers' end. Not here: the edge's own.

use super::shared::system::{self, Attributes};
use std::os::fd::{AsRawFd as _, OwnedFd};

/// What such a program does with every frame (enum xdp_action).
#[derive(Clone, Copy)]
#[repr(i32)]
pub(crate) enum Action {
    Drop = 1,
    Pass = 2,
}

/// Detaches when dropped.
pub(crate) struct Attached(#[expect(dead_code, reason = "closed on drop")] OwnedFd);

/// The head of union bpf_attr for BPF_PROG_LOAD; the kernel takes the rest as zero.
#[repr(C)]
struct Load {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
}
impl Attributes for Load {}

/// The head of union bpf_attr for BPF_LINK_CREATE.
#[repr(C)]
struct Create {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}
impl Attributes for Create {}

/// Attaches one in driver mode, in the calling thread's namespace.
pub(crate) fn attach(interface: &str, action: Action) -> Result<Attached, String> {
    // linux/bpf.h
    const BPF_PROG_LOAD: libc::c_long = 5;
    const BPF_LINK_CREATE: libc::c_long = 28;
    const BPF_PROG_TYPE_XDP: u32 = 6;
    const BPF_XDP: u32 = 37;
    // linux/if_link.h
    const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
    // linux/bpf_common.h: r0 = action; exit.
    let action = (action as i32).to_le_bytes();
    let set = [0xb7, 0, 0, 0, action[0], action[1], action[2], action[3]];
    let instructions = [set, [0x95, 0, 0, 0, 0, 0, 0, 0]];
    let load = Load {
        program_type: BPF_PROG_TYPE_XDP,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        licence: c"Dual MIT/GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
    };
    let program = system::bpf(BPF_PROG_LOAD, &load).map_err(|error| format!("XDP: {error}"))?;
    let create = Create {
        program: program.as_raw_fd() as u32,
        interface: nix::net::if_::if_nametoindex(interface)
            .map_err(|error| format!("{interface}: {error}"))?,
        attach_type: BPF_XDP,
        flags: XDP_FLAGS_DRV_MODE,
    };
    let link = system::bpf(BPF_LINK_CREATE, &create);
    link.map(Attached)
        .map_err(|error| format!("XDP on {interface}: {error}"))
}
