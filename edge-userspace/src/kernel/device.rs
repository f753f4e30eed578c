//! What the kernel says of a network device (rtnetlink): whether it is a veth, what XDP
//! program is attached to it in which mode (aya reads neither back), and which VLANs it
//! carries.

use super::attach::Mode;
use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoKind, LinkAttribute, LinkInfo, LinkMessage, LinkXdp, XdpAttached,
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;

/// A network device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Device {
    /// Its number in this network namespace.
    pub(super) index: u32,
    pub(super) is_veth: bool,
    pub(super) attached: Option<AttachedProgram>,
}

/// An XDP program on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttachedProgram {
    /// `None` for what the edge never makes: hardware offload, several at once.
    pub(super) mode: Option<Mode>,
    /// The kernel's id of the program; `bpftool prog show id …` tells more.
    pub(super) id: u32,
}

/// Asks the kernel about `interface` in this network namespace.
pub(super) fn look(interface: &str) -> io::Result<Device> {
    let mut link = LinkMessage::default();
    link.attributes
        .push(LinkAttribute::IfName(interface.to_owned()));
    let socket = ask(link, NLM_F_REQUEST)?;
    let (answer, _) = socket.recv_from_full()?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).map_err(malformed)?;
    match answer.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Ok(describe(&link)),
        NetlinkPayload::Error(error) => Err(error.to_io()),
        _ => Err(malformed("not an answer to RTM_GETLINK")),
    }
}

/// Names of the VLAN interfaces of this network namespace that sit on the device of this
/// number.
pub(super) fn vlans_on(index: u32) -> io::Result<Vec<String>> {
    /// More answers than any machine has devices.
    const ANSWERS: usize = 65_536;
    let socket = ask(LinkMessage::default(), NLM_F_REQUEST | NLM_F_DUMP)?;
    let mut vlans = Vec::new();
    for _ in 0..ANSWERS {
        let (answers, _) = socket.recv_from_full()?;
        let mut rest = &answers[..];
        while !rest.is_empty() {
            let answer =
                NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(malformed)?;
            match answer.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                    vlans.extend(vlan_on(index, &link));
                }
                NetlinkPayload::Done(_) => return Ok(vlans),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                _ => {}
            }
            // Messages begin at multiples of four (NLMSG_ALIGN).
            let length = (answer.header.length as usize).next_multiple_of(4).max(16);
            rest = rest.get(length..).unwrap_or_default();
        }
    }
    Err(malformed("an answer to RTM_GETLINK without an end"))
}

/// The name of a VLAN interface on the device of this number.
fn vlan_on(index: u32, link: &LinkMessage) -> Option<String> {
    let has = |attribute: &LinkAttribute| link.attributes.contains(attribute);
    let is_vlan = (link.attributes.iter()).any(|attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => infos.contains(&LinkInfo::Kind(InfoKind::Vlan)),
        _ => false,
    });
    // With a namespace's number, the device's is one of another namespace.
    let elsewhere = (link.attributes.iter())
        .any(|attribute| matches!(attribute, LinkAttribute::LinkNetNsId(_)));
    if !is_vlan || elsewhere || !has(&LinkAttribute::Link(index)) {
        return None;
    }
    link.attributes
        .iter()
        .find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name.clone()),
            _ => None,
        })
}

fn ask(link: LinkMessage, flags: u16) -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut request = NetlinkMessage::from(RouteNetlinkMessage::GetLink(link));
    request.header.flags = flags;
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    Ok(socket)
}

fn malformed(what: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}

fn describe(link: &LinkMessage) -> Device {
    let mut device = Device {
        index: link.header.index,
        ..Device::default()
    };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::LinkInfo(infos) => {
                device.is_veth = infos.contains(&LinkInfo::Kind(InfoKind::Veth));
            }
            LinkAttribute::Xdp(xdp) => device.attached = attached(xdp),
            _ => {}
        }
    }
    device
}

fn attached(xdp: &[LinkXdp]) -> Option<AttachedProgram> {
    let mode = xdp.iter().find_map(|attribute| match attribute {
        LinkXdp::Attached(XdpAttached::None) => None,
        LinkXdp::Attached(XdpAttached::Driver) => Some(Some(Mode::Driver)),
        LinkXdp::Attached(XdpAttached::SocketBuffer) => Some(Some(Mode::Generic)),
        LinkXdp::Attached(_) => Some(None),
        _ => None,
    })?;
    let id = xdp.iter().find_map(|attribute| match attribute {
        LinkXdp::ProgId(id) => Some(*id),
        _ => None,
    });
    Some(AttachedProgram {
        mode,
        id: id.unwrap_or_default(),
    })
}
