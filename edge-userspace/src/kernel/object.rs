//! The XDP object.

/// The object's bytes, aligned for the ELF reader.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!("../../../edge-ebpf/prebuilt/edge-ebpf.o");
