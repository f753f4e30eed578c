//! A histogram without a lock.

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A histogram of seconds. Clones count together.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<HistogramCells>);

#[derive(Debug)]
struct HistogramCells {
    /// Upper bounds, seconds, rising; one cell more than bounds.
    bounds: Box<[f64]>,
    /// The same in nanoseconds.
    bounds_ns: Box<[u64]>,
    cells: Box<[AtomicU64]>,
    sum_ns: AtomicU64,
}

impl Histogram {
    /// `bounds` are upper bounds in seconds, rising.
    #[must_use]
    pub fn new(bounds: &[f64]) -> Self {
        Self(Arc::new(HistogramCells {
            bounds: bounds.into(),
            bounds_ns: (bounds.iter())
                .map(|bound| (bound * 1e9).round() as u64)
                .collect(),
            cells: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum_ns: AtomicU64::new(0),
        }))
    }

    /// Counts one duration.
    pub fn observe(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let cell = self.0.bounds_ns.partition_point(|bound| *bound < ns);
        self.0.cells[cell].fetch_add(1, Ordering::Relaxed);
        self.0.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let bounds = self.0.bounds.iter().copied().chain([f64::INFINITY]);
        let counts = self.0.cells.iter().map(|cell| cell.load(Ordering::Relaxed));
        let buckets: Vec<_> = bounds.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = Duration::from_nanos(self.0.sum_ns.load(Ordering::Relaxed)).as_secs_f64();
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
