//! Asks whether the kernel half had said the same of a hello, and tells when it had not. The
//! verdict of the listener holds either way.

use super::Thread;
use super::charge::Addresses;
use super::hello::Hello;
use crate::charges::flow_key;

/// Compares, where there is a kernel half and the hello was read whole.
pub(super) fn with_kernel(thread: &Thread, hello: &Hello, addresses: Addresses) {
    let shared = &thread.shared;
    let Some(agreement) = shared.agreement.get() else {
        return;
    };
    // A longer one is not read to its end here, and may be in the kernel.
    let is_in_bounds = hello.bytes.len() <= shared.config.listen.max_hello_bytes;
    if !hello.is_whole() || !is_in_bounds {
        return;
    }
    let keys = shared.keyring.snapshot();
    let window = shared.charges.limits().window();
    // What the kernel half knows is the socket's own peer.
    let flow = flow_key(addresses.peer, addresses.local);
    let difference = agreement.compare(&flow, keys.published_ns(), |now_s| {
        hello.judge_at(&keys, window, now_s)
    });
    let Some(difference) = difference else {
        return;
    };
    if let Some(permit) = thread.log.permit() {
        tracing::error!(
            peer = %addresses.peer,
            kernel = difference.kernel.name(),
            userspace = difference.userspace.name(),
            left_out = permit.left_out,
            "the kernel half said something else of a hello; please report this"
        );
    }
}
