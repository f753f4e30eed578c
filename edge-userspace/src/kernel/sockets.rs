//! Finds and destroys TCP sockets of this network namespace by their addresses (sock_diag(7),
//! `SOCK_DESTROY` since Linux 4.5 with CONFIG_INET_DIAG_DESTROY). Which ones may be destroyed
//! is not decided here.
//!
//! A request for addresses whose connection is gone falls back to the *listening socket*
//! there, and would destroy that. So a socket is destroyed only by the cookie that a look at
//! it gave, and no look gives that of a listening socket.

use super::flows::addresses;
use crate::charges::flow_key;
use edge_common::flow::FlowKey;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable,
};
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponseHeader, SocketId, StateFlags,
};
use netlink_packet_sock_diag::{SockDiagDestroy, SockDiagMessage, constants};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_SOCK_DIAG};
use rustix::io::Errno;
use std::io;
use std::net::IpAddr;

/// Requests that are sent at a time. Their answers, of some 1,300 bytes each with what the
/// kernel reckons, fit the socket's buffer (net.core.rmem_default, 212,992 bytes).
pub const BATCH: usize = 64;

/// Any socket with these addresses (INET_DIAG_NOCOOKIE, include/uapi/linux/inet_diag.h).
const NO_COOKIE: [u8; 8] = [0xff; 8];
/// Longest answer that is looked for.
const ANSWER_BYTES: usize = 8192;

/// A way to the kernel's TCP sockets.
pub struct Sockets {
    netlink: Socket,
    sequence: u32,
    answer: Vec<u8>,
    links: Vec<u32>,
}

/// A socket that was found, to be destroyed by. It names this very socket, not another one
/// that has the same addresses later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    flow: FlowKey,
    link: u32,
    cookie: [u8; 8],
}

impl Found {
    /// The connection whose it is.
    #[must_use]
    pub fn flow(&self) -> FlowKey {
        self.flow
    }
}

/// Why sockets cannot be destroyed here.
#[derive(Debug, thiserror::Error)]
pub enum Cannot {
    /// The kernel was built without it.
    #[error("this kernel cannot destroy sockets (CONFIG_INET_DIAG_DESTROY)")]
    Unsupported,
    /// The kernel has no sock_diag for TCP, or its module cannot be loaded.
    #[error("this kernel has no sock_diag for TCP (CONFIG_INET_TCP_DIAG): {0}")]
    NoDiag(io::Error),
    /// CAP_NET_ADMIN is missing.
    #[error("sockets may not be destroyed without CAP_NET_ADMIN")]
    NotPermitted,
    /// Anything else.
    #[error("sock_diag: {0}")]
    Other(#[from] io::Error),
}

/// One answer to one request.
enum Answer {
    Socket { state: u8, cookie: [u8; 8] },
    Done,
    Refused(Errno),
}

impl Sockets {
    /// Opens the way, and makes sure that it can destroy. A connection of a link-local address
    /// is looked for on the interfaces with these indices.
    ///
    /// # Errors
    /// Why not.
    pub fn open(links: Vec<u32>) -> Result<Self, Cannot> {
        let mut netlink = Socket::new(NETLINK_SOCK_DIAG)?;
        netlink.bind_auto()?;
        netlink.connect(&SocketAddr::new(0, 0))?;
        let mut sockets = Self {
            netlink,
            sequence: 0,
            answer: vec![0; ANSWER_BYTES],
            links,
        };
        sockets.try_out()?;
        Ok(sockets)
    }

    /// Asks for all sockets in no state, then to destroy one that there cannot be.
    fn try_out(&mut self) -> Result<(), Cannot> {
        let nowhere = InetRequest {
            family: constants::AF_INET,
            protocol: constants::IPPROTO_TCP,
            extensions: ExtensionFlags::empty(),
            states: StateFlags::empty(),
            // Its cookie, 0, is no socket's (net/core/sock_diag.c counts from 1).
            socket_id: SocketId::new_v4(),
        };
        let dump = SockDiagMessage::InetRequest(nowhere.clone());
        match self.ask_one(NLM_F_DUMP, dump)? {
            Answer::Refused(errno) => return Err(Cannot::NoDiag(errno.into())),
            Answer::Done | Answer::Socket { .. } => {}
        }
        let destroy = SockDiagDestroy::new(SockDiagMessage::InetRequest(nowhere));
        match self.ask_one(NLM_F_ACK, destroy)? {
            // It looks for the socket first and for the privilege then.
            Answer::Refused(Errno::NOENT) if may_destroy()? => Ok(()),
            Answer::Refused(Errno::NOENT) => Err(Cannot::NotPermitted),
            Answer::Refused(Errno::OPNOTSUPP) => Err(Cannot::Unsupported),
            Answer::Refused(errno) => Err(Cannot::Other(errno.into())),
            Answer::Done | Answer::Socket { .. } => Err(Cannot::Other(io::Error::other(
                "a socket that cannot be was destroyed",
            ))),
        }
    }

    /// The server's sockets and request sockets of these connections: nothing for those that
    /// are gone, or only wait for their addresses to be free (TIME_WAIT). At most [`BATCH`]
    /// connections are looked at.
    ///
    /// # Errors
    /// When the kernel cannot be asked at all. Of one that it would not tell of, nothing.
    pub fn find(&mut self, flows: &[FlowKey]) -> io::Result<Vec<Option<Found>>> {
        let flows = &flows[..flows.len().min(BATCH)];
        let mut found = vec![None; flows.len()];
        self.find_on(0, flows, &mut found)?;
        // A socket of a link-local address is bound to its link.
        if flows.iter().any(is_link_local) {
            for link in self.links.clone() {
                self.find_on(link, flows, &mut found)?;
            }
        }
        Ok(found)
    }

    /// Looks for those that have not been found, as seen from a link.
    fn find_on(
        &mut self,
        link: u32,
        flows: &[FlowKey],
        found: &mut [Option<Found>],
    ) -> io::Result<()> {
        let missing: Vec<_> = (0..flows.len())
            .filter(|place| found[*place].is_none())
            .filter(|place| link == 0 || is_link_local(&flows[*place]))
            .collect();
        let requests = missing.iter().map(|place| {
            let id = socket_id(&flows[*place], link, NO_COOKIE);
            SockDiagMessage::InetRequest(request(id))
        });
        let answers = self.ask(0, requests)?;
        for (place, answer) in missing.into_iter().zip(answers) {
            if let Some(Answer::Socket { state, cookie }) = answer
                && is_connection(state)
            {
                let flow = flows[place];
                found[place] = Some(Found { flow, link, cookie });
            }
        }
        Ok(())
    }

    /// Destroys sockets as if the process that has them had aborted them: the client of an
    /// established one is sent a reset. At most [`BATCH`] of them. Whether each was destroyed;
    /// `false`: it has just gone by itself.
    ///
    /// # Errors
    /// When the kernel cannot be asked at all; within, why it refused one.
    pub fn destroy(&mut self, found: &[Found]) -> io::Result<Vec<Result<bool, Errno>>> {
        let found = &found[..found.len().min(BATCH)];
        let requests = found.iter().map(|found| {
            let id = socket_id(&found.flow, found.link, found.cookie);
            SockDiagDestroy::new(SockDiagMessage::InetRequest(request(id)))
        });
        let answers = self.ask(NLM_F_ACK, requests)?;
        let outcome = answers.into_iter().map(|answer| match answer {
            Some(Answer::Done | Answer::Socket { .. }) => Ok(true),
            // Not any more, or closed meanwhile.
            Some(Answer::Refused(Errno::NOENT)) => Ok(false),
            Some(Answer::Refused(errno)) => Err(errno),
            None => Err(Errno::NODATA),
        });
        Ok(outcome.collect())
    }

    /// All request sockets there are, of whichever listening socket.
    ///
    /// # Errors
    /// When the kernel cannot be asked at all.
    pub fn requested(&mut self) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        for (family, socket_id) in [
            (constants::AF_INET, SocketId::new_v4()),
            (constants::AF_INET6, SocketId::new_v6()),
        ] {
            let all = InetRequest {
                family,
                protocol: constants::IPPROTO_TCP,
                extensions: ExtensionFlags::empty(),
                states: StateFlags::SYN_RECV,
                socket_id,
            };
            let sequence = self.sequence;
            self.send(NLM_F_DUMP, [SockDiagMessage::InetRequest(all)])?;
            while let Some(bytes) = self.receive()? {
                let mut rest = &self.answer[..bytes];
                // Many answers come at a time here.
                while !rest.is_empty() {
                    let message = message(rest)?;
                    let length = (message.header.length as usize).next_multiple_of(4);
                    rest = rest.get(length..).unwrap_or_default();
                    if message.header.sequence_number == sequence
                        && let NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(socket)) =
                            message.payload
                    {
                        found.extend(found_request(&socket.header));
                    }
                }
            }
        }
        Ok(found)
    }

    fn ask_one<T: NetlinkSerializable>(&mut self, flags: u16, request: T) -> io::Result<Answer> {
        let answer = self.ask(flags, [request])?.pop().flatten();
        answer.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "sock_diag did not answer"))
    }

    /// Sends requests in one go and gathers an answer for each, in their order.
    fn ask<T: NetlinkSerializable>(
        &mut self,
        flags: u16,
        requests: impl IntoIterator<Item = T>,
    ) -> io::Result<Vec<Option<Answer>>> {
        let first = self.sequence;
        let mut answers = Vec::new();
        answers.resize_with(self.send(flags, requests)?, || None);
        // The kernel has answered all when it returns from the call.
        while let Some((sequence, answer)) = self.next_answer()? {
            let place = answers.get_mut(sequence.wrapping_sub(first) as usize);
            // One to an earlier request is nobody's any more.
            if let Some(place) = place {
                *place = Some(answer);
            }
        }
        Ok(answers)
    }

    /// Sends requests in one go, numbered from `self.sequence` on; tells how many they are.
    fn send<T: NetlinkSerializable>(
        &mut self,
        flags: u16,
        requests: impl IntoIterator<Item = T>,
    ) -> io::Result<usize> {
        let mut bytes = Vec::new();
        let mut count = 0;
        for request in requests {
            let mut header = NetlinkHeader::default();
            header.flags = NLM_F_REQUEST | flags;
            header.sequence_number = self.sequence;
            self.sequence = self.sequence.wrapping_add(1);
            let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request));
            message.finalize();
            let at = bytes.len();
            bytes.resize(at + message.buffer_len(), 0);
            message.serialize(&mut bytes[at..]);
            count += 1;
        }
        if count > 0 {
            self.netlink.send(&bytes, 0)?;
        }
        Ok(count)
    }

    /// The length of what came into `self.answer`; nothing when there is nothing more.
    fn receive(&mut self) -> io::Result<Option<usize>> {
        let got = self
            .netlink
            .recv(&mut &mut self.answer[..], libc::MSG_DONTWAIT);
        match got {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn next_answer(&mut self) -> io::Result<Option<(u32, Answer)>> {
        let Some(bytes) = self.receive()? else {
            return Ok(None);
        };
        let message = message(&self.answer[..bytes])?;
        let answer = match message.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                Answer::Socket {
                    state: response.header.state,
                    cookie: response.header.socket_id.cookie,
                }
            }
            NetlinkPayload::Error(error) => error.code.map_or(Answer::Done, |code| {
                Answer::Refused(Errno::from_raw_os_error(-code.get()))
            }),
            _ => Answer::Done,
        };
        Ok(Some((message.header.sequence_number, answer)))
    }
}

/// The first of the messages in a datagram.
fn message(bytes: &[u8]) -> io::Result<NetlinkMessage<SockDiagMessage>> {
    NetlinkMessage::deserialize(bytes)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}

/// A request socket, to be destroyed by its cookie.
fn found_request(header: &InetResponseHeader) -> Option<Found> {
    let id = &header.socket_id;
    let client = (id.destination_address.to_canonical(), id.destination_port);
    let server = (id.source_address.to_canonical(), id.source_port);
    (header.state == constants::TCP_SYN_RECV).then(|| Found {
        flow: flow_key(client.into(), server.into()),
        link: id.interface_id,
        cookie: id.cookie,
    })
}

fn is_link_local(flow: &FlowKey) -> bool {
    let (client, _) = addresses(flow);
    matches!(client.ip(), IpAddr::V6(client) if client.is_unicast_link_local())
}

/// Whether this thread has CAP_NET_ADMIN. Attaching wants it of the same network namespace.
fn may_destroy() -> io::Result<bool> {
    let held = rustix::thread::capabilities(None)?;
    Ok((held.effective).contains(rustix::thread::CapabilitySet::NET_ADMIN))
}

/// A state in which there is something to destroy. Not a listening socket, above all.
fn is_connection(state: u8) -> bool {
    use constants::{
        TCP_CLOSE_WAIT, TCP_CLOSING, TCP_ESTABLISHED, TCP_FIN_WAIT1, TCP_FIN_WAIT2, TCP_LAST_ACK,
        TCP_SYN_RECV,
    };
    [
        TCP_ESTABLISHED,
        TCP_SYN_RECV,
        TCP_FIN_WAIT1,
        TCP_FIN_WAIT2,
        TCP_CLOSE_WAIT,
        TCP_LAST_ACK,
        TCP_CLOSING,
    ]
    .contains(&state)
}

fn request(socket_id: SocketId) -> InetRequest {
    InetRequest {
        family: match socket_id.source_address {
            IpAddr::V4(_) => constants::AF_INET,
            IpAddr::V6(_) => constants::AF_INET6,
        },
        protocol: constants::IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id,
    }
}

/// The server's end: an IPv4 connection is found as such, also where an IPv6 socket has it.
fn socket_id(flow: &FlowKey, link: u32, cookie: [u8; 8]) -> SocketId {
    let (client, server) = addresses(flow);
    SocketId {
        source_port: server.port(),
        destination_port: client.port(),
        source_address: server.ip(),
        destination_address: client.ip(),
        interface_id: link,
        cookie,
    }
}
