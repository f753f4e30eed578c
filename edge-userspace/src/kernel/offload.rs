//! What a device does to packets before anyone sees them, as the driver says (ethtool's
//! flags). Not here: what that means for the program ([`super::vlan`]).
#![expect(unsafe_code, reason = "named island: the ethtool ioctl")]

use std::io;
use std::os::fd::AsRawFd as _;

/// include/uapi/linux/sockios.h
const SIOCETHTOOL: libc::Ioctl = 0x8946;
/// include/uapi/linux/ethtool.h
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETH_FLAG_RXVLAN: u32 = 1 << 8;

/// struct ethtool_value
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Whether the device takes VLAN tags off what it receives (`rx-vlan-offload` of
/// `ethtool -k`). Needs no privilege.
///
/// # Errors
/// When there is no such device in the calling thread's network namespace.
pub(super) fn strips_vlan_tags(interface: &str) -> io::Result<bool> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::NETLINK,
        rustix::net::SocketType::RAW,
        None,
    )?;
    let mut value = Value {
        command: ETHTOOL_GFLAGS,
        data: 0,
    };
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays 0.
    let room = request.ifr_name.len() - 1;
    if interface.len() > room {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *place = byte.cast_signed() as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request names `value`, which outlives the call and is what this command
    // reads and writes.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value.data & ETH_FLAG_RXVLAN != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_takes_nothing_off_and_what_is_not_there_is_an_error() {
        assert!(!strips_vlan_tags("lo").unwrap());
        let error = strips_vlan_tags("nowhere0").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        let long = strips_vlan_tags("a-name-that-is-too-long").unwrap_err();
        assert_eq!(long.kind(), io::ErrorKind::InvalidInput);
    }
}
