//! What the kernel says of a network device (rtnetlink): whether it is a veth, and what
//! XDP program is attached to it in which mode. aya does not read either back.

use super::attach::Mode;
use netlink_packet_core::{NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoKind, LinkAttribute, LinkInfo, LinkMessage, LinkXdp, XdpAttached,
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;

/// A network device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Device {
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
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;

    let mut link = LinkMessage::default();
    link.attributes
        .push(LinkAttribute::IfName(interface.to_owned()));
    let mut request = NetlinkMessage::from(RouteNetlinkMessage::GetLink(link));
    request.header.flags = NLM_F_REQUEST;
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send(&bytes, 0)?;

    let (answer, _) = socket.recv_from_full()?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    match answer.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Ok(describe(&link)),
        NetlinkPayload::Error(error) => Err(error.to_io()),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "not an answer to RTM_GETLINK",
        )),
    }
}

fn describe(link: &LinkMessage) -> Device {
    let mut device = Device::default();
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
