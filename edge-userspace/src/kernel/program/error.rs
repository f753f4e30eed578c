//! What can go wrong between the loader and the kernel.

use aya::maps::MapError;
use rustix::io::Errno;

/// What went wrong between us and the kernel.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The kernel refused the object, a map or the program.
    #[error("the kernel refused the XDP object: {0}")]
    Load(#[from] Box<aya::EbpfError>),
    /// The verifier refused the program, or the caller may not load one.
    #[error("the kernel refused the XDP program: {why}", why = brief(.0))]
    Program(#[from] Box<aya::programs::ProgramError>),
    /// A map operation failed.
    #[error("BPF map {map}: {source}")]
    Map {
        /// The map's name in the object.
        map: &'static str,
        /// The cause.
        source: MapError,
    },
    /// A map's memory could not be had.
    #[error("BPF map {map} cannot be mapped into memory: {source}")]
    Memory {
        /// The map's name in the object.
        map: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// The object lacks a part: it is not the edge's.
    #[error("the XDP object has no {0}; it was not built from this source tree")]
    Missing(&'static str),
}

impl ProgramError {
    /// The operating system's error beneath, if there is one.
    #[must_use]
    pub fn os_error(&self) -> Option<Errno> {
        os_error(self)
    }
}

/// The verifier's objection in one line; its whole log has thousands and goes to debug.
fn brief(error: &aya::programs::ProgramError) -> String {
    let aya::programs::ProgramError::LoadError {
        io_error,
        verifier_log,
    } = error
    else {
        return error.to_string();
    };
    let log = verifier_log.to_string();
    tracing::debug!("the verifier's log:\n{log}");
    // It ends with statistics; the objection is the line before them.
    let statistics = ["verification time", "stack depth", "processed "];
    let objection = (log.lines().rev())
        .find(|line| !line.is_empty() && !statistics.iter().any(|s| line.starts_with(s)));
    objection.map_or_else(
        || io_error.to_string(),
        |objection| format!("{io_error}: {objection}"),
    )
}

pub(super) fn os_error(error: &(dyn std::error::Error + 'static)) -> Option<Errno> {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let mut io = chain.filter_map(|error| error.downcast_ref::<std::io::Error>());
    io.find_map(std::io::Error::raw_os_error)
        .map(Errno::from_raw_os_error)
}

/// Whether a map had no room.
pub(in crate::kernel) fn is_full(error: &MapError) -> bool {
    os_error(error) == Some(Errno::TOOBIG)
}

pub(in crate::kernel) fn in_map(map: &'static str) -> impl Fn(MapError) -> ProgramError {
    move |source| ProgramError::Map { map, source }
}
