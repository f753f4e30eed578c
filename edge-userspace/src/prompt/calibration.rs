//! What is learnt of tokenizers that nobody publishes: for each model the factor between the
//! estimate and what the upstream counted.
//!
//! Shared by all threads. A model is looked up once a request; what its upstream says comes in
//! once a response. Where there is no room for another model, the one that no upstream has
//! answered for longest is forgotten. The mathematics are the token package's; [`file`] keeps
//! them over a restart.

pub mod file;

use crate::tokens::estimate::calibrate::Ratio;
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is learnt of every model.
pub struct Calibration {
    /// Replaced when a model comes anew.
    models: ArcSwap<HashMap<Box<str>, Arc<Model>>>,
    /// Held while one is added.
    adding: Mutex<()>,
    most_models: usize,
    /// Counts the answers, so that each model's last one has its place among them.
    answers: AtomicU64,
    /// Models that another one's place was taken from.
    evicted: AtomicU64,
    /// Answers of models whose name is none.
    left_out: AtomicU64,
    file: Option<PathBuf>,
    changed: AtomicBool,
    /// What the file held could not be taken: it is kept aside before it is replaced.
    to_keep_aside: AtomicBool,
}

/// What is learnt of one model.
#[derive(Debug)]
pub struct Model {
    ratio: Mutex<Ratio>,
    /// Number of its last answer.
    last: AtomicU64,
}

/// What is shown of one model.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Learnt {
    /// Its name.
    pub model: String,
    /// What an estimate is multiplied with.
    pub factor: f64,
    /// Answers that it was learnt from.
    pub observations: u64,
}

impl Calibration {
    /// With what `file` holds, as far as there is room. Nothing is read from a file that is
    /// not there, or no good, which is said; one that is no good is kept aside when
    /// [`Self::save`] first replaces it.
    #[must_use]
    pub fn new(most_models: usize, file: Option<PathBuf>) -> Self {
        let mut models = HashMap::new();
        let mut is_good = true;
        if let Some(path) = &file {
            match file::read(path) {
                Ok(kept) => {
                    // The latest of them, should there be less room than there was.
                    let from = kept.len().saturating_sub(most_models);
                    for (number, (name, ratio)) in (1..).zip(kept.into_iter().skip(from)) {
                        models.insert(name, Arc::new(Model::new(ratio, number)));
                    }
                }
                Err(error) => {
                    is_good = false;
                    tracing::warn!(
                        %error,
                        "what was learnt of models is not read and is learnt anew; nothing needs doing, but if the file is not the daemon's, name another in prompt.calibration_file; when it is replaced, what it held is kept beside it, named .damaged",
                    );
                }
            }
        }
        Self {
            answers: AtomicU64::new(models.len() as u64),
            models: ArcSwap::from_pointee(models),
            adding: Mutex::default(),
            most_models,
            evicted: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
            file,
            changed: AtomicBool::new(false),
            to_keep_aside: AtomicBool::new(!is_good),
        }
    }

    /// What is known of that model now; one token for one when nothing is.
    #[must_use]
    pub fn ratio(&self, model: &[u8]) -> Ratio {
        (self.find(model)).map_or_else(Ratio::default, |model| *model.ratio())
    }

    /// An upstream counted `actual` tokens where the estimate, not multiplied, is `estimated`.
    pub fn observe(&self, model: &[u8], estimated: u64, actual: u64) {
        if estimated == 0 {
            return;
        }
        let Some(model) = self.find(model).or_else(|| self.add(model)) else {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let number = self.answers.fetch_add(1, Ordering::Relaxed) + 1;
        model.last.store(number, Ordering::Relaxed);
        model.ratio().observe(estimated, actual);
        self.changed.store(true, Ordering::Relaxed);
    }

    /// What is learnt, in order of name.
    #[must_use]
    pub fn learnt(&self) -> Vec<Learnt> {
        let models = self.models.load();
        let mut learnt: Vec<_> = (models.iter())
            .map(|(name, model)| {
                let ratio = model.ratio();
                Learnt {
                    model: name.to_string(),
                    factor: ratio.ratio(),
                    observations: ratio.observed(),
                }
            })
            .collect();
        learnt.sort_by(|a, b| a.model.cmp(&b.model));
        learnt
    }

    /// Most models that are learnt apart.
    #[must_use]
    pub fn most_models(&self) -> usize {
        self.most_models
    }

    /// Models that were forgotten for others that came.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Answers of models whose name is none that is learnt: it has control characters, or is
    /// longer than [`MAX_NAME_BYTES`].
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// Writes the file when something has been learnt since it was written.
    ///
    /// # Errors
    /// When it cannot be written; the next call tries again.
    pub fn save(&self) -> Result<(), file::Error> {
        let Some(path) = &self.file else {
            return Ok(());
        };
        if !self.changed.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let written = self.keep_aside(path).and_then(|()| {
            self.to_keep_aside.store(false, Ordering::Relaxed);
            file::write(path, &self.in_order())
        });
        if written.is_err() {
            self.changed.store(true, Ordering::Relaxed);
        }
        written
    }

    fn keep_aside(&self, path: &Path) -> Result<(), file::Error> {
        if !self.to_keep_aside.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(aside) = file::keep_aside(path)? {
            tracing::warn!(
                file = %path.display(), aside = %aside.display(),
                "the file held no calibration of models; what it held is kept aside",
            );
        }
        Ok(())
    }

    /// What is learnt, by when it was: the latest last.
    fn in_order(&self) -> Vec<(Box<str>, Ratio)> {
        let models = self.models.load();
        let mut models: Vec<_> = (models.iter())
            .map(|(name, model)| (model.last.load(Ordering::Relaxed), name, model))
            .collect();
        models.sort_unstable_by_key(|(last, name, _)| (*last, *name));
        (models.into_iter())
            .map(|(_, name, model)| (name.clone(), *model.ratio()))
            .collect()
    }

    fn find(&self, model: &[u8]) -> Option<Arc<Model>> {
        let name = std::str::from_utf8(model).ok()?;
        self.models.load().get(name).cloned()
    }

    /// Only the upstream's answers make a model known, so no client fills the table by names
    /// alone.
    fn add(&self, model: &[u8]) -> Option<Arc<Model>> {
        let name = std::str::from_utf8(model)
            .ok()
            .filter(|name| is_name(name))?;
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let models = self.models.load_full();
        if let Some(model) = models.get(name) {
            return Some(Arc::clone(model));
        }
        let mut more = HashMap::clone(&models);
        if more.len() >= self.most_models {
            let last = |(_, model): &(_, &Arc<Model>)| model.last.load(Ordering::Relaxed);
            let oldest = more.iter().min_by_key(last)?.0.clone();
            more.remove(&oldest);
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
        let model = Arc::new(Model::new(Ratio::default(), 0));
        more.insert(name.into(), Arc::clone(&model));
        self.models.store(Arc::new(more));
        Some(model)
    }
}

impl Model {
    fn new(ratio: Ratio, last: u64) -> Self {
        Self {
            ratio: Mutex::new(ratio),
            last: AtomicU64::new(last),
        }
    }

    /// Held for some arithmetic, once a request and once an answer.
    fn ratio(&self) -> MutexGuard<'_, Ratio> {
        self.ratio.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Longest name of a model that is learnt: those in use have half of that at most, and metrics
/// and `/status` show all of them.
pub const MAX_NAME_BYTES: usize = 256;

/// Clients choose the names, and people read them in terminals.
fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::estimate::calibrate::{LEAST, MOST};

    fn names(calibration: &Calibration) -> Vec<String> {
        (calibration.learnt().into_iter())
            .map(|learnt| learnt.model)
            .collect()
    }

    #[test]
    fn models_are_learnt_apart() {
        let calibration = Calibration::new(2, None);
        assert_eq!(calibration.ratio(b"a").ratio(), 1.0);
        for _ in 0..50 {
            calibration.observe(b"a", 1000, 1200);
            calibration.observe(b"b", 1000, 900);
        }
        for (model, factor) in [(b"a", 1.2), (b"b", 0.9)] {
            let learnt = calibration.ratio(model).ratio();
            assert!((learnt - factor).abs() < 0.02, "{learnt}");
        }
        assert_eq!(names(&calibration), ["a", "b"]);
        assert_eq!(calibration.learnt()[0].observations, 50);
        // Nothing to divide by, and names that are none.
        calibration.observe(b"a", 0, 7);
        calibration.observe(b"\xff", 1000, 7);
        assert_eq!(calibration.learnt()[0].observations, 50);
        assert_eq!((calibration.left_out(), calibration.evicted()), (1, 0));
    }

    #[test]
    fn who_was_answered_for_longest_ago_makes_room_and_the_file_follows() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("calibration.json");
        let calibration = Calibration::new(3, Some(path.clone()));
        for model in ["z", "b", "c", "z", "d"] {
            calibration.observe(model.as_bytes(), 1000, 1200);
        }
        assert_eq!(names(&calibration), ["c", "d", "z"]);
        assert_eq!(calibration.evicted(), 1);
        assert_eq!(calibration.ratio(b"b").ratio(), 1.0, "it is forgotten");
        // To be asked for is not to be answered for.
        assert_ne!(calibration.ratio(b"c").ratio(), 1.0);
        calibration.observe(b"e", 1000, 1200);
        assert_eq!(names(&calibration), ["d", "e", "z"]);
        calibration.save().unwrap();
        let kept: Vec<_> = file::read(&path).unwrap();
        let kept: Vec<_> = kept.iter().map(|(name, _)| &**name).collect();
        assert_eq!(kept, ["z", "d", "e"], "the latest last");
        // The order outlives a restart, with less room too.
        let again = Calibration::new(3, Some(path.clone()));
        again.observe(b"f", 1000, 1200);
        assert_eq!(names(&again), ["d", "e", "f"]);
        let less = Calibration::new(2, Some(path));
        assert_eq!(
            (names(&less), less.evicted()),
            (vec!["d".to_owned(), "e".to_owned()], 0)
        );
        // However many names there are.
        for n in 0..1000 {
            less.observe(format!("m{n:03}").as_bytes(), 1000, 1200);
        }
        assert_eq!(names(&less), ["m998", "m999"]);
        assert_eq!((less.evicted(), less.left_out()), (1000, 0));
    }

    #[test]
    fn names_that_would_command_a_terminal_are_not_learnt() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("calibration.json");
        let calibration = Calibration::new(8, Some(path.clone()));
        let long = "m".repeat(MAX_NAME_BYTES + 1);
        let bad = [
            "evil\u{1b}[31mRED",
            "a\nkeys 999 fake",
            "a\u{9b}31m",
            "",
            &long,
        ];
        for name in bad {
            calibration.observe(name.as_bytes(), 1000, 1200);
        }
        assert_eq!((calibration.learnt(), calibration.left_out()), (vec![], 5));
        // Nor are they taken from a file.
        calibration.observe(b"m", 1000, 1200);
        calibration.save().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for name in [r#""a\u001b[31m""#, &format!("\"{long}\"")] {
            std::fs::write(&path, text.replace("\"m\"", name)).unwrap();
            assert_eq!(Calibration::new(8, Some(path.clone())).learnt(), []);
        }
    }

    #[test]
    fn a_lying_upstream_moves_the_factor_within_its_bounds_only() {
        let calibration = Calibration::new(2, None);
        for actual in [0, u64::MAX] {
            for _ in 0..10_000 {
                calibration.observe(b"a", 1000, actual);
            }
            let factor = calibration.ratio(b"a").ratio();
            assert!((LEAST..=MOST).contains(&factor), "{factor}");
        }
    }

    #[test]
    fn a_file_that_is_no_calibration_is_kept_aside_and_what_is_learnt_kept_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("calibration.json");
        let learn = || {
            let calibration = Calibration::new(8, Some(path.clone()));
            assert_eq!(calibration.learnt(), []);
            calibration.save().unwrap();
            calibration.observe(b"m", 1000, 1200);
            calibration.save().unwrap();
            // Only what was found is kept aside, not what was written since.
            calibration.observe(b"m", 1000, 1200);
            calibration.save().unwrap();
            assert_eq!(file::read(&path).unwrap().len(), 1);
        };
        let aside =
            |end: &str| std::fs::read(directory.path().join(format!("calibration.json{end}"))).ok();
        // One after the other, no copy replaces another. Of an empty one there is nothing to keep.
        let large = vec![b' '; (4 << 20) + 1];
        for (held, end) in [
            (b"".as_slice(), None),
            (b"{", Some(".damaged")),
            (b"my only letter", Some(".damaged-2")),
            (&large, Some(".damaged-3")),
        ] {
            std::fs::write(&path, held).unwrap();
            learn();
            if let Some(end) = end {
                assert!(aside(end).is_some_and(|kept| kept == held), "{end}");
            }
        }
        assert_eq!(aside(".damaged").unwrap(), b"{");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 4);
        // No room for another copy: the file stays, and that is said.
        for n in 4..=9 {
            std::fs::write(
                directory
                    .path()
                    .join(format!("calibration.json.damaged-{n}")),
                "",
            )
            .unwrap();
        }
        std::fs::write(&path, "{").unwrap();
        let calibration = Calibration::new(8, Some(path.clone()));
        calibration.observe(b"m", 1000, 1200);
        let error = calibration.save().unwrap_err().to_string();
        assert!(error.contains(".damaged-9"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"{");
        // Room is made: the next try keeps both.
        std::fs::remove_file(directory.path().join("calibration.json.damaged-9")).unwrap();
        calibration.save().unwrap();
        assert_eq!(aside(".damaged-9").unwrap(), b"{");
        assert_eq!(file::read(&path).unwrap().len(), 1);
    }

    #[test]
    fn what_is_learnt_outlives_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("calibration.json");
        let calibration = Calibration::new(8, Some(path.clone()));
        assert!(
            calibration.save().is_ok() && !path.exists(),
            "nothing learnt, nothing written"
        );
        for _ in 0..50 {
            calibration.observe(b"claude-\"x\"", 1000, 1200);
        }
        calibration.save().unwrap();
        let again = Calibration::new(8, Some(path.clone()));
        assert_eq!(
            again.ratio(b"claude-\"x\"").ratio(),
            calibration.ratio(b"claude-\"x\"").ratio()
        );
        // Less room than the file has models; a file that is broken.
        assert_eq!(Calibration::new(0, Some(path.clone())).learnt(), []);
        for (broken, is_read) in [
            ("{", false),
            (
                r#"{"version":1,"written_at_s":18446744073709551615,"models":{}}"#,
                true,
            ),
            (
                r#"{"version":1,"written_at_s":9999999999,"models":{"m":[1,1,0,0,1e999]}}"#,
                false,
            ),
        ] {
            std::fs::write(&path, broken).unwrap();
            assert_eq!(file::read(&path).is_ok(), is_read, "{broken}");
        }
        assert_eq!(Calibration::new(8, Some(path)).learnt(), []);
    }
}
