//! The XDP object that this binary was built with. Which one that is, the build script
//! decides (`edge-ebpf/builder/src/choose.rs`); it always belongs to the sources beside it,
//! or was named by hand.

/// The object's bytes: ELF, aligned for its 64-bit headers to be read in place.
pub static OBJECT: &[u8] = &ALIGNED.bytes;

/// What the object was made from and with, in one line without a path, as
/// `prebuilt, object 1ab03bf7657d, sources 8e44cae75da9, rustc 1.96.0 (ac68faa20), …`.
pub const PROVENANCE: &str = env!("EDGE_EBPF_PROVENANCE");

static ALIGNED: &Aligned<[u8]> = &Aligned {
    bytes: *include_bytes!(concat!(env!("OUT_DIR"), "/edge-ebpf.o")),
};

#[repr(C, align(8))]
struct Aligned<Bytes: ?Sized> {
    bytes: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_is_bpf_and_aligned() {
        assert_eq!(OBJECT.as_ptr() as usize % 8, 0);
        assert_eq!(&OBJECT[..4], b"\x7fELF");
        assert_eq!(OBJECT[18..20], 247u16.to_le_bytes(), "e_machine is EM_BPF");
    }
}
