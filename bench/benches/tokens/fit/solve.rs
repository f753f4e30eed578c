//! Linear equations with a symmetric, positive definite matrix, by Cholesky's way.

/// A square matrix, row after row, of which the lower triangle is kept.
pub(crate) struct Symmetric {
    size: usize,
    entries: Vec<f64>,
}

impl Symmetric {
    pub(crate) fn zero(size: usize) -> Self {
        Self {
            size,
            entries: vec![0.0; size * size],
        }
    }

    /// Adds `weight` times the product of `x` with itself.
    pub(crate) fn add_product(&mut self, x: &[f64], weight: f64) {
        for (i, row) in self.entries.chunks_exact_mut(self.size).enumerate() {
            let factor = weight * x[i];
            if factor != 0.0 {
                row[..=i]
                    .iter_mut()
                    .zip(x)
                    .for_each(|(entry, x)| *entry += factor * x);
            }
        }
    }

    pub(crate) fn add(&mut self, i: usize, j: usize, value: f64) {
        self.entries[i.max(j) * self.size + i.min(j)] += value;
    }

    /// This matrix times `x`.
    pub(crate) fn times(&self, x: &[f64]) -> Vec<f64> {
        let at = |i: usize, j: usize| self.entries[i.max(j) * self.size + i.min(j)];
        (0..self.size)
            .map(|i| (0..self.size).map(|j| at(i, j) * x[j]).sum())
            .collect()
    }

    /// Splits it into a triangle times that triangle's mirror image.
    pub(crate) fn factor(mut self) -> Factored {
        let n = self.size;
        for j in 0..n {
            let (done, rest) = self.entries.split_at_mut(j * n);
            let row = &mut rest[..n];
            for i in 0..j {
                let other = &done[i * n..i * n + i + 1];
                let sum: f64 = row[..i].iter().zip(other).map(|(a, b)| a * b).sum();
                row[i] = (row[i] - sum) / other[i];
            }
            let squares: f64 = row[..j].iter().map(|entry| entry * entry).sum();
            row[j] = (row[j] - squares).max(f64::MIN_POSITIVE).sqrt();
        }
        Factored {
            size: n,
            entries: self.entries,
        }
    }
}

/// A matrix that equations can be solved with.
pub(crate) struct Factored {
    size: usize,
    entries: Vec<f64>,
}

impl Factored {
    /// The `x` that the matrix takes to `y`.
    pub(crate) fn solve(&self, y: &[f64]) -> Vec<f64> {
        let n = self.size;
        let at = |i: usize, j: usize| self.entries[i * n + j];
        let mut x = y.to_vec();
        for i in 0..n {
            let sum: f64 = (0..i).map(|j| at(i, j) * x[j]).sum();
            x[i] = (x[i] - sum) / at(i, i);
        }
        for i in (0..n).rev() {
            let sum: f64 = (i + 1..n).map(|j| at(j, i) * x[j]).sum();
            x[i] = (x[i] - sum) / at(i, i);
        }
        x
    }
}
