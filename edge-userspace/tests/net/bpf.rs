//! Small programs of a few instructions on a veth end: they tag, untag, or lose frames, for
//! kernels that have neither VLAN interfaces nor netem. Attached by TCX (Linux 6.6), which
//! lies between the XDP program and the stack; those that are XDP programs themselves, in
//! driver mode. Not here: the edge's own program.

use super::namespace::Namespace;
use super::system::{self, Attributes};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// A loaded program.
pub(crate) struct Loaded(OwnedFd);

/// What a program can be attached to (enum bpf_prog_type).
#[derive(Clone, Copy)]
#[repr(u32)]
enum Kind {
    Tcx = 3,
    Xdp = 6,
}

/// Detaches when dropped.
pub(crate) struct Link(#[expect(dead_code, reason = "closed on drop")] OwnedFd);

/// Which way frames go.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Direction {
    /// BPF_TCX_INGRESS
    Ingress = 46,
    /// BPF_TCX_EGRESS
    Egress = 47,
}

/// What an XDP program does with every frame (enum xdp_action).
#[derive(Clone, Copy)]
#[repr(i32)]
pub(crate) enum Action {
    Drop = 1,
    Pass = 2,
}

/// On with the next program (TCX_NEXT).
const NEXT: i32 = -1;
/// Lost (TCX_DROP).
const DROP: i32 = 2;

/// Instructions of bpf(2) as bytes (linux/bpf_common.h): code, registers, offset, immediate.
const fn instruction(code: u8, registers: u8, offset: i16, immediate: i32) -> u64 {
    let [a, b] = offset.to_le_bytes();
    let [c, d, e, f] = immediate.to_le_bytes();
    u64::from_le_bytes([code, registers, a, b, c, d, e, f])
}

const fn set(register: u8, value: i32) -> u64 {
    instruction(0xb7, register, 0, value)
}

const fn call(helper: i32) -> u64 {
    instruction(0x85, 0, 0, helper)
}

const EXIT: u64 = instruction(0x95, 0, 0, 0);

/// Tags every frame: `bpf_skb_vlan_push(skb, 0x8100, tag)`.
pub(crate) fn push_tag(tag: u16) -> Loaded {
    let protocol = i32::from(0x8100_u16.to_be());
    load(&[
        set(2, protocol),
        set(3, tag.into()),
        call(18),
        set(0, NEXT),
        EXIT,
    ])
}

/// Takes the tag off, if there is one: `bpf_skb_vlan_pop(skb)`.
pub(crate) fn pop_tag() -> Loaded {
    load(&[call(19), set(0, NEXT), EXIT])
}

/// Loses so many frames of 1,000 that come in: `bpf_get_prandom_u32() % 1000 < lost`.
pub(crate) fn lose(lost: u32) -> Loaded {
    load(&[
        call(7),
        instruction(0x94, 0, 0, 1000),        // w0 %= 1000
        instruction(0xa5, 0, 2, lost as i32), // if r0 < lost, skip two
        set(0, NEXT),
        EXIT,
        set(0, DROP),
        EXIT,
    ])
}

/// Spoils so many frames of 1,000 that go out, so that nobody knows what is in them. A sender
/// learns of frames that are dropped here, and sends them again at once; of these it does not.
pub(crate) fn spoil(spoilt: u32) -> Loaded {
    /// IEEE Std 802: for experiments, unknown to every stack.
    const ETHER_TYPE: u16 = 0x88b5;
    load(&[
        instruction(0xbf, 0x16, 0, 0), // r6 = r1
        call(7),
        instruction(0x94, 0, 0, 1000),          // w0 %= 1000
        instruction(0x35, 0, 8, spoilt as i32), // if r0 >= spoilt, skip eight
        instruction(0x6a, 10, -8, ETHER_TYPE.to_be().into()), // u16 at r10 - 8
        instruction(0xbf, 0x61, 0, 0),          // r1 = r6
        set(2, 12),
        instruction(0xbf, 0xa3, 0, 0), // r3 = r10
        instruction(0x07, 3, 0, -8),   // r3 -= 8
        set(4, 2),
        set(5, 0),
        call(9), // bpf_skb_store_bytes
        set(0, NEXT),
        EXIT,
    ])
}

/// Attaches an XDP program in driver mode that does the same with every frame, in the calling
/// thread's namespace.
pub(crate) fn attach_xdp(interface: &str, action: Action) -> io::Result<Link> {
    // linux/bpf.h and linux/if_link.h
    const BPF_XDP: u32 = 37;
    const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
    let program = load_as(Kind::Xdp, &[set(0, action as i32), EXIT])?;
    link(&program, interface, BPF_XDP, XDP_FLAGS_DRV_MODE)
}

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

fn load(instructions: &[u64]) -> Loaded {
    load_as(Kind::Tcx, instructions).unwrap()
}

fn load_as(kind: Kind, instructions: &[u64]) -> io::Result<Loaded> {
    const BPF_PROG_LOAD: libc::c_long = 5;
    let attributes = Load {
        program_type: kind as u32,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        licence: c"Dual MIT/GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
    };
    system::bpf(BPF_PROG_LOAD, &attributes).map(Loaded)
}

/// The head of union bpf_attr for BPF_LINK_CREATE.
#[repr(C)]
struct Create {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}
impl Attributes for Create {}

/// Attaches behind the programs that are there, in the calling thread's namespace.
pub(crate) fn attach(program: &Loaded, interface: &str, direction: Direction) -> Link {
    try_attach(program, interface, direction).unwrap()
}

/// Why no such program can be attached on this kernel, if so.
pub(crate) fn permitted() -> Result<(), String> {
    let tried = Namespace::new().run(|| try_attach(&pop_tag(), "lo", Direction::Ingress));
    tried
        .map(drop)
        .map_err(|error| format!("needs TCX (Linux 6.6): {error}"))
}

fn try_attach(program: &Loaded, interface: &str, direction: Direction) -> io::Result<Link> {
    link(program, interface, direction as u32, 0)
}

fn link(program: &Loaded, interface: &str, attach_type: u32, flags: u32) -> io::Result<Link> {
    const BPF_LINK_CREATE: libc::c_long = 28;
    let attributes = Create {
        program: program.0.as_raw_fd() as u32,
        interface: nix::net::if_::if_nametoindex(interface).unwrap(),
        attach_type,
        flags,
    };
    system::bpf(BPF_LINK_CREATE, &attributes).map(Link)
}
