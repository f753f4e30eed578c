//! `[context]`: what is remembered of conversations.

use super::load::Loader;

/// `[context]`: what is remembered of conversations.
#[derive(Clone, Debug)]
pub struct Context {
    /// Whether anything is. Default true.
    pub enabled: bool,
    /// Size of the table of contexts, 64 bytes each. Default 32 MiB.
    pub table_bytes: usize,
    /// Whether it asks for huge pages. Default true.
    pub huge_pages: bool,
    /// How much of a full set one key's contexts keep when others want it, in thousandths.
    /// Default 250.
    pub tenant_share_per_mille: u16,
    /// Whether it is learnt how answers begin. Default true.
    pub hints: bool,
    /// Beginnings that are remembered at a time. Default 32,768.
    pub hint_entries: usize,
    /// Warm-ups a minute of each key; 0 for none. Default 60.
    pub preheats_per_minute: u32,
}

impl Loader<'_, '_> {
    pub(super) fn context(&mut self) -> Context {
        Context {
            enabled: self.boolean("context.enabled"),
            table_bytes: self.integer("context.table_bytes") as usize,
            huge_pages: self.boolean("context.huge_pages"),
            tenant_share_per_mille: self.integer("context.tenant_share_per_mille") as u16,
            hints: self.boolean("context.hints"),
            hint_entries: self.integer("context.hint_entries") as usize,
            preheats_per_minute: self.integer("context.preheats_per_minute") as u32,
        }
    }
}
