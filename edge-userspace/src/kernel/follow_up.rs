//! What follows a verdict of the kernel half: those who read its flow table, to clear up after
//! refused connections and to compare.

use super::agreement::{Agreement, Followed};
use super::flows::FlowTable;
use super::program::ProgramError;
use super::pulse::Offsets;
use super::reaper::{Counts, Reaper, Reaping};
use super::sockets::Sockets;
use super::{Error, PulseError, State};
use std::sync::Arc;

/// Those who read the flow table.
pub(super) struct FollowUp {
    pub(super) flows: Arc<FlowTable>,
    pub(super) agreement: Arc<Agreement>,
    pub(super) reaped: Arc<Counts>,
    _reaping: Option<Reaping>,
}

impl FollowUp {
    /// Maps the flow table and begins to clear up after refused connections. Where that cannot
    /// be, the kernel half is told to free the server's side first.
    pub(super) fn start(
        state: &mut State,
        links: Vec<u32>,
        offsets: Arc<Offsets>,
        followed: &Arc<Followed>,
        notes: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let (sets, secret) = (state.program.sizes().flow_sets, state.settings.secret);
        let missing = ProgramError::Missing("tables");
        let tables = state.program.tables().ok_or(PulseError::Clock(missing))?;
        let flows = FlowTable::map(tables, sets, secret).map_err(PulseError::Clock)?;
        let flows = Arc::new(flows);
        let reaped = Arc::<Counts>::default();
        let reaping = match (Sockets::open(links), state.program.take_rejects()) {
            (Ok(sockets), Some(rejects)) => {
                let reaper = Reaper::new(Arc::clone(&flows), sockets, Arc::clone(&reaped));
                Some(Reaping::start(reaper, rejects).map_err(PulseError::Thread)?)
            }
            (Ok(_), None) => None,
            (Err(cannot), _) => {
                let note = format!(
                    "{cannot}: refused clients hear of it on their retransmission \
                     (kernel.answers_per_second counts as 0)"
                );
                notes.push(note);
                state.settings.answers_per_second = 0;
                let settings = state.settings;
                (state.program.set_settings(&settings)).map_err(PulseError::Clock)?;
                None
            }
        };
        Ok(Self {
            agreement: Arc::new(Agreement::new(
                Arc::clone(&flows),
                offsets,
                Arc::clone(followed),
            )),
            flows,
            reaped,
            _reaping: reaping,
        })
    }
}
