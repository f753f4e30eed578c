//! What the edge needs of a kernel beyond accepting its object, each thing tried.

use crate::network::own_namespace;
use crate::skip;
use aya::programs::ProgramType;
use aya::sys::{BpfHelper, is_helper_supported};
use std::io::{ErrorKind, Read as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

/// What a program may call at the XDP hook, by its name in include/uapi/linux/bpf.h.
const HELPERS: [(&str, BpfHelper); 9] = [
    ("tail_call", BpfHelper::BPF_FUNC_tail_call),
    ("skc_lookup_tcp", BpfHelper::BPF_FUNC_skc_lookup_tcp),
    ("sk_release", BpfHelper::BPF_FUNC_sk_release),
    (
        "tcp_check_syncookie",
        BpfHelper::BPF_FUNC_tcp_check_syncookie,
    ),
    ("xdp_get_buff_len", BpfHelper::BPF_FUNC_xdp_get_buff_len),
    ("xdp_load_bytes", BpfHelper::BPF_FUNC_xdp_load_bytes),
    ("xdp_store_bytes", BpfHelper::BPF_FUNC_xdp_store_bytes),
    ("xdp_adjust_tail", BpfHelper::BPF_FUNC_xdp_adjust_tail),
    ("loop", BpfHelper::BPF_FUNC_loop),
];

#[test]
fn what_the_program_calls_may_be_called_from_xdp() {
    needs_kernel!();
    let mut lacking = Vec::new();
    for (name, helper) in HELPERS {
        let there = is_helper_supported(ProgramType::Xdp, helper).unwrap();
        println!("fact bpf_{name} {}", if there { "yes" } else { "no" });
        if !there {
            lacking.push(name);
        }
    }
    assert!(lacking.is_empty(), "{lacking:?}");
}

/// CONFIG_INET_DIAG_DESTROY, which frees the sockets of clients that never acknowledge.
#[test]
fn a_socket_is_destroyed_from_outside() {
    needs_kernel!();
    let tried = std::thread::spawn(|| {
        own_namespace();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let port = address.port().to_string();
        let filter = ["-K", "state", "established", "sport", "=", &port];
        let killed = Command::new("ss").args(filter).output().expect("iproute2");
        let said = String::from_utf8_lossy(&killed.stderr).into_owned();
        for socket in [&mut client, &mut server] {
            socket
                .set_read_timeout(Some(Duration::from_secs(5)))
                .unwrap();
        }
        let ends = [server.read(&mut [0]), client.read(&mut [0])];
        (ends.map(|end| end.map_err(|error| error.kind())), said)
    });
    let ([server, client], said) = tried.join().unwrap();
    let destroyed = server == Err(ErrorKind::ConnectionAborted);
    println!("fact sock_destroy {}", if destroyed { "yes" } else { "no" });
    if !destroyed {
        let why = format!("no socket was destroyed (CONFIG_INET_DIAG_DESTROY, tcp_diag): {said}");
        skip::skipped("facts::a_socket_is_destroyed_from_outside", why.trim());
        return;
    }
    assert_eq!(client, Err(ErrorKind::ConnectionReset), "its peer is told");
}
