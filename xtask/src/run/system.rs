//! The few system calls that std has no call for: entering a network namespace, ending
//! children with their parent, switching an interface's offloads, and the two-instruction
//! program that lets veth carry XDP_TX. Not here: anything that decides what to do with them.
#![expect(unsafe_code, reason = "named island: raw system calls")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Moves the calling thread, and only it, into a network namespace. Sockets that it opens
/// afterwards stay there.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN.
pub(super) fn enter_network_namespace(namespace: &File) -> io::Result<()> {
    // SAFETY: setns reads two integers and touches no memory of ours.
    checked(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Has the kernel kill the child when the thread that starts it is gone, so that even our own
/// SIGKILL leaves no process behind.
pub(super) fn die_with_parent(command: &mut Command) -> &mut Command {
    fn ask_for_it() -> io::Result<()> {
        // SAFETY: this prctl takes an integer and touches no memory.
        checked(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) }).map(drop)
    }
    // SAFETY: between fork and exec it makes one async-signal-safe system call.
    unsafe { command.pre_exec(ask_for_it) }
}

/// Asks a child of ours to stop.
///
/// # Errors
/// ESRCH when it is already gone.
pub(super) fn terminate(child: &std::process::Child) -> io::Result<()> {
    let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    // SAFETY: kill touches no memory; a child that has not been waited for keeps its pid.
    checked(unsafe { libc::kill(pid, libc::SIGTERM) }).map(drop)
}

/// One of an interface's offloads, by its ethtool set command (linux/ethtool.h).
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(super) enum Offload {
    /// Checksums of sent packets.
    SendChecksum = 0x17,
    /// TCP segmentation.
    TcpSegmentation = 0x1f,
    /// Generic segmentation.
    GenericSegmentation = 0x24,
    /// Generic receive coalescing.
    GenericReceive = 0x2c,
}

/// Switches an offload off, on an interface of the calling thread's namespace.
///
/// # Errors
/// ENODEV for an unknown interface, EPERM without CAP_NET_ADMIN.
pub(super) fn switch_off(interface: &str, offload: Offload) -> io::Result<()> {
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    /// struct ethtool_value
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    let socket = std::net::UdpSocket::bind(("127.0.0.1", 0))?;
    let mut value = Value {
        command: offload as u32,
        data: 0,
    };
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    write_name(&mut request.ifr_name, interface)?;
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: request names `value`; both outlive the call, and this command reads 8 bytes.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) }).map(drop)
}

fn write_name(field: &mut [libc::c_char; libc::IFNAMSIZ], name: &str) -> io::Result<()> {
    if name.len() >= field.len() {
        return Err(io::Error::other(format!("interface name too long: {name}")));
    }
    for (place, byte) in field.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    Ok(())
}

/// An XDP program that passes everything, attached for as long as this lives.
#[derive(Debug)]
pub(super) struct PassProgram {
    /// Detaches when closed.
    _link: OwnedFd,
}

/// A loaded program that passes everything, not yet attached. Loading it is also the test
/// whether this process may use BPF.
#[derive(Debug)]
pub(super) struct LoadedPass(OwnedFd);

impl LoadedPass {
    /// Loads the program: `return XDP_PASS`.
    ///
    /// # Errors
    /// EPERM without CAP_BPF and CAP_NET_ADMIN, ENOSYS without BPF in the kernel.
    pub(super) fn load() -> io::Result<Self> {
        const BPF_PROG_LOAD: libc::c_long = 5;
        const BPF_PROG_TYPE_XDP: u32 = 6;
        /// `r0 = 2` (XDP_PASS), `exit` (linux/bpf_common.h encodings).
        const PROGRAM: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 2, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
        /// The head of union bpf_attr for BPF_PROG_LOAD; the kernel takes the rest as zero.
        #[repr(C)]
        struct Attributes {
            program_type: u32,
            instruction_count: u32,
            instructions: u64,
            licence: u64,
            log_level: u32,
            log_size: u32,
            log: u64,
        }
        let attributes = Attributes {
            program_type: BPF_PROG_TYPE_XDP,
            instruction_count: PROGRAM.len() as u32,
            instructions: PROGRAM.as_ptr() as u64,
            licence: c"Dual MIT/GPL".as_ptr() as u64,
            log_level: 0,
            log_size: 0,
            log: 0,
        };
        bpf(BPF_PROG_LOAD, &attributes).map(Self)
    }

    /// Attaches it in driver mode to an interface of the calling thread's namespace.
    ///
    /// # Errors
    /// EBUSY when the interface has a program, EOPNOTSUPP when its driver takes none.
    pub(super) fn attach(&self, interface: &str) -> io::Result<PassProgram> {
        const BPF_LINK_CREATE: libc::c_long = 28;
        const BPF_XDP: u32 = 37;
        const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
        /// The head of union bpf_attr for BPF_LINK_CREATE.
        #[repr(C)]
        struct Attributes {
            program: u32,
            interface: u32,
            attach_type: u32,
            flags: u32,
        }
        let name = std::ffi::CString::new(interface).map_err(io::Error::other)?;
        // SAFETY: a C string that outlives the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let attributes = Attributes {
            program: self.0.as_raw_fd() as u32,
            interface: index,
            attach_type: BPF_XDP,
            flags: XDP_FLAGS_DRV_MODE,
        };
        let link = bpf(BPF_LINK_CREATE, &attributes)?;
        Ok(PassProgram { _link: link })
    }
}

/// bpf(2), for the commands that give back a descriptor.
fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    let size = size_of::<T>();
    // SAFETY: attributes is a live repr(C) value of `size` bytes without padding; pointers in
    // it outlive the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
