//! VLAN tags that a device takes off before the program sees the packet.
//!
//! The program writes an answer into the packet that it answers, tags included. When the
//! device has put a tag aside, the program cannot see it. In generic mode the kernel keeps it
//! with the packet, and the answer leaves with it; in driver mode the answer leaves without,
//! and the client, behind its VLAN, never hears it. Nothing else is wrong then: the verdict is
//! right, and so is what passes. Not here: which mode is taken ([`super::attach`]).

use super::attach::Mode;
use super::{device, offload};
use std::io;

/// What is to be said about `interface` with the program in this mode, if anything.
pub(super) fn note(interface: &str, mode: Mode) -> Option<String> {
    if mode == Mode::Generic {
        return None;
    }
    match look(interface) {
        Ok(Some(found)) => Some(format!(
            "{interface}: {}; answers of driver mode leave without a tag, and clients that are \
             refused in those VLANs wait in vain. {} leaves them on; \
             kernel.attach = \"generic\" or \"auto\" answers with them as it is",
            found.what(),
            found.cure(interface),
        )),
        Ok(None) => None,
        Err(error) => Some(format!(
            "{interface}: whether it takes VLAN tags off cannot be told: {error}"
        )),
    }
}

/// Why generic mode is the better one on `interface`, if it is.
pub(super) fn prefers_generic(interface: &str) -> Option<String> {
    let found = look(interface).ok()??;
    Some(format!(
        "{interface}: {}; generic mode comes first, because answers of driver mode leave \
         without a tag. After {} driver mode does as well",
        found.what(),
        found.cure(interface),
    ))
}

/// A device that takes tags off, and carries VLANs.
struct Found {
    is_veth: bool,
    /// Names of the VLAN interfaces on it.
    vlans: Vec<String>,
}

impl Found {
    fn what(&self) -> String {
        let vlans = self.vlans.join(", ");
        format!("it takes off the VLAN tags of {vlans} before a program sees them")
    }

    fn cure(&self, interface: &str) -> String {
        if self.is_veth {
            // A veth has no hardware: the tag is put aside where the packet is sent.
            format!("`ethtool -K PEER txvlan off` at the other end of {interface}")
        } else {
            format!("`ethtool -K {interface} rxvlan off`")
        }
    }
}

fn look(interface: &str) -> io::Result<Option<Found>> {
    if !offload::strips_vlan_tags(interface)? {
        return Ok(None);
    }
    let device = device::look(interface)?;
    let vlans = device::vlans_on(device.index)?;
    Ok((!vlans.is_empty()).then_some(Found {
        is_veth: device.is_veth,
        vlans,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_the_one_for_that_device() {
        let found = |is_veth| Found {
            is_veth,
            vlans: vec!["eth0.5".into(), "eth0.6".into()],
        };
        assert!(found(true).what().contains("eth0.5, eth0.6"));
        assert_eq!(found(false).cure("eth0"), "`ethtool -K eth0 rxvlan off`");
        let cure = found(true).cure("edge0");
        assert!(cure.starts_with("`ethtool -K PEER txvlan off`"), "{cure}");
    }

    #[test]
    fn a_device_that_takes_nothing_off_is_nothing_to_speak_of() {
        assert_eq!(note("lo", Mode::Driver), None);
        assert_eq!(prefers_generic("lo"), None);
    }
}
