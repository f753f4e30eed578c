//! Takes a call out of the programs where the kernel can do without: a socket is read as the
//! kernel's `tcp_sock` by `bpf_rdonly_cast` (Linux 6.2), which the verifier turns into a copy
//! of a register, instead of `bpf_skc_to_tcp_sock`. That is some 7 ns of a hello.
//!
//! The function has another number in each kernel, so it is put into the object before that is
//! loaded. Not here: where the number is from ([`super::offsets`]).

/// What stands before the instruction that is replaced, and nowhere else: `r3 = 1382634830`.
const CAST_MARK: [u8; 8] = instruction(0xb7, 0x03, 1_382_634_830);
/// `call bpf_skc_to_tcp_sock`.
const HELPER: [u8; 8] = instruction(0x85, 0x00, 137);
/// In the place of the source register: the number is that of a kernel's function
/// (`BPF_PSEUDO_KFUNC_CALL`, include/uapi/linux/bpf.h).
const OF_KERNEL: u8 = 0x20;

/// The object with `cast` called instead of the helper, and how often that is.
pub(super) fn put(object: &[u8], cast: u32) -> (Vec<u8>, usize) {
    let mut object = object.to_vec();
    let wanted = [CAST_MARK, HELPER].concat();
    let mut times = 0;
    // Sections of instructions begin at multiples of eight.
    for at in (0..object.len().saturating_sub(15)).step_by(8) {
        if object[at..at + 16] == wanted {
            object[at + 8..at + 16].copy_from_slice(&instruction(0x85, OF_KERNEL, cast));
            times += 1;
        }
    }
    (object, times)
}

/// RFC 9669 section 3.1: code, registers, offset, number.
const fn instruction(code: u8, registers: u8, number: u32) -> [u8; 8] {
    let [a, b, c, d] = number.to_le_bytes();
    [code, registers, 0, 0, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::super::object::OBJECT;
    use super::*;

    #[test]
    fn the_object_has_the_calls_and_nothing_else_changes() {
        let (object, times) = put(OBJECT, 0x0102_0304);
        // Two in `edge_xdp` (what may be a hello, and what is no TLS), one in `edge_proxy`.
        assert_eq!(times, 3);
        let differ: Vec<usize> = (0..object.len())
            .filter(|at| object[*at] != OBJECT[*at])
            .collect();
        for call in differ.chunks(5) {
            let at = call[0] - 1;
            assert_eq!(object[at..at + 8], [0x85, 0x20, 0, 0, 4, 3, 2, 1]);
            assert_eq!(OBJECT[at..at + 8], HELPER);
        }
        assert_eq!(differ.len(), 3 * 5);
    }
}
