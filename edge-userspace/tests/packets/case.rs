//! The data: cases as `make.py` writes them.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One frame or several of a connection, what the programs see them under, and everything
/// that must come of each.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// For people.
    #[serde(default, rename = "why")]
    _why: String,
    /// What differs from [`Common::settings`].
    #[serde(default)]
    settings: serde_json::Map<String, serde_json::Value>,
    /// Cut to each length from the first to the last, instead of once whole.
    lengths: Option<(usize, usize)>,
    pub(crate) steps: Vec<Step>,
}

/// A frame, and what must come of it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    #[serde(deserialize_with = "from_hex")]
    pub(crate) packet: Vec<u8>,
    pub(crate) action: Action,
    /// The frame afterwards, when it is not the same.
    #[serde(default, deserialize_with = "from_some_hex")]
    pub(crate) output: Option<Vec<u8>>,
    /// Every counter that moves.
    pub(crate) counters: BTreeMap<String, u64>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Action {
    Pass,
    Tx,
    Drop,
}

impl Action {
    /// include/uapi/linux/bpf.h, `enum xdp_action`.
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::Drop => 1,
            Self::Pass => 2,
            Self::Tx => 3,
        }
    }
}

/// What every case begins with.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Common {
    pub(crate) now_s: u64,
    pub(crate) ports: Vec<u16>,
    settings: serde_json::Map<String, serde_json::Value>,
    pub(crate) keys: Vec<Key>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Key {
    pub(crate) key_id: String,
    pub(crate) mac_key: String,
    pub(crate) not_before_s: u64,
    pub(crate) not_after_s: u64,
    pub(crate) revoked: bool,
}

/// The settings of one run.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wish {
    pub(crate) answer: Answer,
    pub(crate) deny_legacy: bool,
    pub(crate) policy_complete: bool,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) heartbeat_max_age_s: u64,
    pub(crate) window_back_s: u32,
    pub(crate) window_ahead_s: u32,
    pub(crate) answers_per_second: u32,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    Alert,
    Rst,
    Drop,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Heartbeat {
    /// Just now.
    Fresh,
    /// Later than the program's coarse clock.
    Ahead,
    /// Longer ago than allowed.
    Stale,
    Never,
}

impl Common {
    pub(crate) fn read() -> Self {
        parse(&folder().join("keys.json"))
    }

    /// The settings without any difference.
    pub(crate) fn wish(&self) -> Wish {
        serde_json::from_value(self.settings.clone().into()).unwrap()
    }
}

impl Case {
    /// The settings of this case.
    pub(crate) fn wish(&self, common: &Common) -> Wish {
        let mut settings = common.settings.clone();
        settings.extend(self.settings.clone());
        serde_json::from_value(settings.into())
            .unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// What is to be run, each on a connection that is not known.
    pub(crate) fn runs(&self) -> Vec<Vec<Step>> {
        let Some((first, last)) = self.lengths else {
            return vec![self.steps.clone()];
        };
        let [step] = &self.steps[..] else {
            panic!("{}: lengths are for one frame", self.name);
        };
        let cut = |length: usize| {
            let mut step = step.clone();
            step.packet.truncate(length);
            vec![step]
        };
        (first..=last).map(cut).collect()
    }
}

fn from_hex<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    hex::decode(String::deserialize(from)?).map_err(D::Error::custom)
}

fn from_some_hex<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
    from_hex(from).map(Some)
}

/// Where the data lies.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packets")
}

/// Every case of every file, with the file's name before its own.
pub(crate) fn cases() -> Vec<Case> {
    let mut files: Vec<_> = (folder().read_dir().unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .filter(|path| !path.ends_with("keys.json"))
        .collect();
    files.sort();
    let cases = files.iter().flat_map(|file| {
        let mut cases: Vec<Case> = parse(file);
        let stem = file.file_stem().unwrap().to_string_lossy();
        for case in &mut cases {
            case.name = format!("{stem}: {}", case.name);
        }
        cases
    });
    cases.collect()
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
