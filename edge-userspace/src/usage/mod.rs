//! What each key uses: reserved before a request is sent on, settled when it ends.
//!
//! A [`Ledger`] has an account for each key. A request begins there, reserves, and gets a
//! [`Settlement`], which its response carries to the end: what it [`Observed`] is what the key
//! is charged. Every way out settles, for a settlement that is dropped does too.
//! docs/usage.md defines what a request used, whatever became of it.
//! Not here: what is refused and how that looks ([`crate::api`]), connections
//! ([`crate::charges`]), and how a response is read ([`crate::relay`]).

mod account;
mod bucket;
mod burst;
mod day;
mod held;
mod keep;
mod ledger;
mod limits;
mod observed;
mod refused;
mod settlement;
pub mod snapshot;
#[cfg(test)]
mod tests;
mod used;

pub use account::{KeyUsage, Refusals, Standing};
pub use bucket::Level;
pub use held::Held;
pub use keep::{Keep, KeepStatus};
pub use ledger::{Entry, Ledger, Left, Status};
pub use limits::{Limits, Reserve};
pub use observed::Observed;
pub use refused::{OfDay, Refused, Until};
pub use settlement::{Go, Settlement};
pub use used::Used;
