//! VLAN tags that a device takes off before the program sees the packet.
//!
//! The program writes an answer into the packet that it answers, tags included. When the
//! device has put a tag aside, the program cannot see it. In generic mode the kernel keeps it
//! with the packet, and the answer leaves with it; in driver mode the answer would leave
//! without, and the client, behind its VLAN, would never hear it. So in driver mode rejects
//! from such a device are left to the daemon. Not here: which mode is taken
//! ([`super::attach`]).

use super::{device, offload};
use std::io;

/// The number of `interface` if its rejects have to be left to the daemon in driver mode.
pub(super) fn unanswered(interface: &str) -> Option<u32> {
    look(interface).ok()?.map(|found| found.index)
}

/// What is to be said about `interface`, on which the program runs in driver mode; `left`:
/// its rejects were left to the daemon at the start.
pub(super) fn note(interface: &str, left: bool) -> Option<String> {
    let found = match look(interface) {
        Ok(Some(found)) => found,
        Ok(None) if left => {
            return Some(format!(
                "{interface}: rejects are left to the daemon, for it took VLAN tags off when the \
                 edge started; restart the edge to answer them in the kernel again"
            ));
        }
        Ok(None) => return None,
        Err(error) => {
            return Some(format!(
                "{interface}: whether it takes VLAN tags off cannot be told: {error}"
            ));
        }
    };
    let (what, cure) = (found.what(), found.cure(interface));
    Some(if left {
        format!(
            "{interface}: {what}, and answers of driver mode would leave without a tag, so the \
             daemon refuses there, not the kernel. {cure} and a restart of the edge mend it; \
             kernel.attach = \"generic\" or \"auto\" answers with the tags as it is"
        )
    } else {
        format!(
            "{interface}: {what}, since after the edge started; clients that are refused in those \
             VLANs wait in vain. Restart the edge, or {cure}"
        )
    })
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
    index: u32,
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
        index: device.index,
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
            index: 1,
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
        assert_eq!(note("lo", false), None);
        assert_eq!(unanswered("lo"), None);
        assert!(note("lo", true).unwrap().contains("restart"));
        assert_eq!(prefers_generic("lo"), None);
    }
}
