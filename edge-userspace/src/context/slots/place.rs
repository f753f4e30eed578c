//! Where a key belongs, and to whom.

use super::WAYS;
use crate::context::{Key, Tenant};

/// Tenant and context as one word. For any tenant each context has another, and for any
/// context each tenant. Two that differ in both agree once in 2^64: a context is a keyed hash,
/// so nobody can choose one.
#[inline]
pub(super) fn owner(key: &Key) -> u64 {
    key.tenant.0 ^ key.context.0.rotate_left(32)
}

/// By what the share of a tenant is counted. Two tenants in four thousand million are taken for
/// one.
pub(super) fn whose(tenant: Tenant) -> u32 {
    (tenant.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// A fingerprint's home in its set.
#[inline]
pub(super) fn home(fingerprint: [u64; 2]) -> usize {
    fingerprint[0] as usize & (WAYS - 1)
}

/// By what a home tells its own apart when they are elsewhere: 12 bits, never 0.
#[inline]
pub(super) fn tag(fingerprint: [u64; 2]) -> u16 {
    ((fingerprint[1] >> 52) as u16).max(1)
}
