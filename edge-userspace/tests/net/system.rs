//! The few system calls of these tests that no library has a call for. Not here: anything
//! that decides what to do with them.
#![expect(unsafe_code, reason = "named island: raw system calls")]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// One of an interface's offloads, by its ethtool set command (linux/ethtool.h).
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum Offload {
    /// Checksums of sent packets.
    SendChecksum = 0x17,
    /// TCP segmentation.
    TcpSegmentation = 0x1f,
    /// Generic segmentation.
    GenericSegmentation = 0x24,
    /// VLAN tags kept beside a sent packet rather than in it (ETHTOOL_SFLAGS).
    VlanTags = 0x26,
    /// Generic receive coalescing.
    GenericReceive = 0x2c,
}

impl Offload {
    pub(crate) const ALL: [Self; 5] = [
        Self::SendChecksum,
        Self::TcpSegmentation,
        Self::GenericSegmentation,
        Self::VlanTags,
        Self::GenericReceive,
    ];
}

/// Switches an offload off, on an interface of the calling thread's namespace.
pub(crate) fn switch_off(interface: &str, offload: Offload) -> io::Result<()> {
    // Of the flags all but that of received tags, which veth has no way to leave in.
    let is_flags = matches!(offload, Offload::VlanTags);
    switch(interface, offload, if is_flags { 1 << 8 } else { 0 })
}

/// Switches one on that is no flag.
pub(crate) fn switch_on(interface: &str, offload: Offload) -> io::Result<()> {
    switch(interface, offload, 1)
}

fn switch(interface: &str, offload: Offload, data: u32) -> io::Result<()> {
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
        data,
    };
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    assert!(interface.len() < request.ifr_name.len());
    for (place, byte) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *place = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: request names `value`; both outlive the call, and this command reads 8 bytes.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    checked(done).map(drop)
}

/// bpf(2), for the commands that give back a descriptor.
pub(crate) fn bpf<T: Attributes>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    let size = size_of::<T>();
    // SAFETY: attributes is a live value of `size` bytes; its pointers outlive the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size) };
    let fd = checked(libc::c_int::try_from(fd).unwrap())?;
    // SAFETY: the kernel has just given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The head of union bpf_attr for one command: repr(C), without padding.
pub(crate) trait Attributes {}

/// An AF_PACKET socket of the calling thread's namespace for every protocol, bound to
/// nothing yet.
pub(crate) fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes three integers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    let fd = checked(fd)?;
    // SAFETY: the kernel has just given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds a packet socket to an interface; it receives every protocol if `receive`.
pub(crate) fn bind_packet(socket: BorrowedFd<'_>, index: u32, receive: bool) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = index as i32;
    if receive {
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    }
    let size = size_of_val(&address) as libc::socklen_t;
    // SAFETY: a sockaddr_ll of `size` bytes that outlives the call.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) }).map(drop)
}

/// Sets an option whose value is plain old data without padding.
pub(crate) fn set_option<T>(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &T,
) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: `value` has `size` bytes, and what it points to outlives the call.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, size) }).map(drop)
}

/// Packets that came and that were thrown away for want of room, since the last call.
pub(crate) fn packet_statistics(socket: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let mut words = [0u32; 2];
    let mut size = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the two words of a tpacket_stats, and their size, outlive the call.
    checked(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            words.as_mut_ptr().cast(),
            &raw mut size,
        )
    })?;
    Ok((words[0], words[1]))
}

/// Sends frames, many a call. Gives how many the kernel took.
pub(crate) fn send_frames<'a>(
    socket: BorrowedFd<'_>,
    frames: impl Iterator<Item = &'a [u8]>,
) -> io::Result<usize> {
    let mut parts: Vec<libc::iovec> = frames
        .map(|frame| libc::iovec {
            iov_base: frame.as_ptr().cast_mut().cast(),
            iov_len: frame.len(),
        })
        .collect();
    let mut messages: Vec<libc::mmsghdr> = (parts.iter_mut().map(message_of)).collect();
    let count = messages.len() as u32;
    // SAFETY: every message has one live part that the kernel only reads.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
    checked(sent).map(|sent| sent as usize)
}

/// Receives frames into `buffers` without waiting: the length of each.
pub(crate) fn receive_frames(
    socket: BorrowedFd<'_>,
    buffers: &mut [Vec<u8>],
    lengths: &mut Vec<usize>,
) -> io::Result<()> {
    lengths.clear();
    let mut parts: Vec<libc::iovec> = buffers
        .iter_mut()
        .map(|buffer| libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        })
        .collect();
    let mut messages: Vec<libc::mmsghdr> = (parts.iter_mut().map(message_of)).collect();
    let count = messages.len() as u32;
    // SAFETY: every message has one live part of its own, as long as it says.
    let received = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr(),
            count,
            libc::MSG_DONTWAIT,
            std::ptr::null_mut(),
        )
    };
    match checked(received) {
        Ok(received) => {
            lengths.extend(
                messages[..received as usize]
                    .iter()
                    .map(|m| m.msg_len as usize),
            );
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error),
    }
}

fn message_of(part: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: all-zero bytes are a valid mmsghdr.
    let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
    message.msg_hdr.msg_iov = part;
    message.msg_hdr.msg_iovlen = 1;
    message
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
