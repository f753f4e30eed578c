//! The weights and the interval: regression, segment by segment.

use edge_userspace::tokens::estimate::weights::{SIZE_LIMITS, Weights};
use edge_userspace::tokens::estimate::{self, Segment};

use super::rows::{Corpora, FEATURES, Known, Row, Rows, Split};
use super::solve::{Factored, Symmetric};

const SEGMENTS: usize = Segment::ALL.len();
/// How strongly a segment's weights are drawn to those of all text: as so many blocks would.
const DRAWN_BY_BLOCKS: f64 = 12.0;
/// The same for all text's, to nought.
const DRAWN_TO_NOUGHT: f64 = 0.5;
/// Blocks that are off by more than so many median errors weigh less.
const FAR_OFF: f64 = 4.0;
/// How exactly the sums of categories are met.
const CATEGORY_ERROR: f64 = 0.0005;
/// What blocks of soup weigh whose tokens are fewer than estimated: it is mostly made to
/// deceive, and is rather to be estimated too high.
const TOO_HIGH_WEIGHT: f64 = 0.25;
/// And by so much higher than what fits.
const SOUP_MARGIN: f64 = 1.25;
/// What adversarial blocks weigh beside others.
const ADVERSARIAL_WEIGHT: f64 = 0.05;
/// What is left of a category's error on texts that were not learnt from when twice as many
/// are: it is taken to fall with their number.
const LEFT_OF_ERROR: f64 = 0.5;
/// The part of texts that an interval shall leave out, on each side.
const LEFT_OUT: f64 = 0.004;

type Tokens = Vec<[f32; FEATURES]>;
type Spread = Vec<[(f32, f32); SIZE_LIMITS.len() + 1]>;

/// The weights by all fit documents; the interval, and what the sums of categories have to come
/// out as to be right of other texts, by documents that weights were not learnt from: those of
/// each half by the other half's.
pub(crate) fn weights(corpora: &Corpora, rows: &Rows) -> (Tokens, Spread) {
    let of_half = |half: usize| move |document: usize| document % 2 == half;
    let mut ratios = Vec::new();
    let mut unlearnt: Vec<_> = corpora.categories.iter().map(|_| Unlearnt::new()).collect();
    let exactly = vec![1.0; corpora.categories.len()];
    for half in 0..2 {
        let tokens = tokens(corpora, rows, &exactly, of_half(1 - half));
        let weights = unnamed(tokens);
        for (index, document) in corpora.documents.iter().enumerate() {
            let category = &corpora.categories[document.category];
            if document.split == Split::Fit && of_half(half)(index) && !category.is_adversarial() {
                unlearnt[document.category].add(&weights, &rows.known[index]);
                ratios.push(ratio(&weights, &rows.known[index]));
                ratios.push(ratio(&weights, &rows.short[index]));
            }
        }
    }
    let aims: Vec<f64> = unlearnt.iter().map(Unlearnt::aim).collect();
    (tokens(corpora, rows, &aims, |_| true), spread(&ratios))
}

/// A category's documents by weights that were not learnt from them: estimates, tokens.
struct Unlearnt(Vec<(f64, f64)>);

impl Unlearnt {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn add(&mut self, weights: &Weights, known: &Known) {
        let estimate = estimate::estimate(weights, &known.features).tokens;
        self.0.push((estimate as f64, known.tokens as f64));
    }

    /// What the category's sum has to come out as, of what it is: 1, but for as much of the
    /// error on such documents as is beyond chance and as all documents' weights still have.
    fn aim(&self) -> f64 {
        let (estimates, tokens) = self.0.iter().fold((0.0, 0.0), |(estimates, tokens), it| {
            (estimates + it.0, tokens + it.1)
        });
        if tokens == 0.0 {
            return 1.0;
        }
        let error = estimates / tokens - 1.0;
        let rest = |&(estimate, tokens): &(f64, f64)| estimate - tokens * (1.0 + error);
        let squares: f64 = self.0.iter().map(|it| rest(it).powi(2)).sum();
        let chance = squares / tokens.powi(2);
        let beyond = error.powi(2) / (error.powi(2) + chance).max(f64::MIN_POSITIVE);
        1.0 - LEFT_OF_ERROR * beyond * error
    }
}

/// Weights without a name or an interval.
fn unnamed(tokens: Tokens) -> Weights {
    Weights {
        vocabulary: String::new(),
        date: String::new(),
        corpora_sha256: String::new(),
        tokens,
        spread: vec![Default::default(); SEGMENTS],
    }
}

/// Of which segment most of a document is, its size class, and the logarithm of its count
/// over the estimate.
fn ratio(weights: &Weights, known: &Known) -> (Segment, usize, f64) {
    let tokens = estimate::estimate(weights, &known.features).tokens.max(1) as f64;
    let size = SIZE_LIMITS.iter().filter(|limit| tokens >= **limit).count();
    (
        known.segment,
        size,
        (known.tokens.max(1) as f64 / tokens).ln(),
    )
}

/// For each segment and size the interval that left out as few as it shall.
fn spread(ratios: &[(Segment, usize, f64)]) -> Spread {
    let interval = |of: &dyn Fn(Segment, usize) -> bool, least: usize| {
        let mut logs: Vec<f64> = ratios
            .iter()
            .filter(|(s, n, _)| of(*s, *n))
            .map(|it| it.2)
            .collect();
        logs.sort_by(f64::total_cmp);
        let out = (logs.len() as f64 * LEFT_OUT) as usize;
        (logs.len() >= least).then(|| {
            (
                logs[out].min(0.0) as f32,
                logs[logs.len() - 1 - out].max(0.0) as f32,
            )
        })
    };
    let of_segment = |segment: Segment| {
        std::array::from_fn(|size| {
            // The next smaller sizes stand in for one that has too few texts: they are wider.
            let near = (0..=size)
                .rev()
                .find_map(|from| interval(&|s, n| s == segment && (from..=size).contains(&n), 100));
            let near = near.or_else(|| interval(&|s, _| s == segment, 100));
            near.or_else(|| interval(&|_, n| n <= size, 1))
                .unwrap_or((-1.0, 1.0))
        })
    };
    Segment::ALL.into_iter().map(of_segment).collect()
}

/// The weights by those fit documents for which `part` holds; the sum of each category is to
/// come out as so many times what it is.
fn tokens(corpora: &Corpora, rows: &Rows, aims: &[f64], part: impl Fn(usize) -> bool) -> Tokens {
    let chosen =
        |row: &&Row| corpora.documents[row.document].split == Split::Fit && part(row.document);
    let rows: Vec<&Row> = rows.rows.iter().filter(chosen).collect();
    let adversarial =
        |row: &Row| corpora.categories[corpora.documents[row.document].category].is_adversarial();
    let scale = scale(&rows);
    let mut importance: Vec<f64> = rows
        .iter()
        .map(|row| importance(row, adversarial(row)))
        .collect();

    let mut all = Learnt::new(
        &rows,
        &importance,
        &scale,
        |_| true,
        &[0.0; FEATURES],
        DRAWN_TO_NOUGHT,
    );
    let mut segments = Vec::new();
    for round in 0..3 {
        segments = Segment::ALL
            .map(|segment| {
                Learnt::new(
                    &rows,
                    &importance,
                    &scale,
                    |row| row.segment == segment,
                    &all.weights,
                    DRAWN_BY_BLOCKS,
                )
            })
            .into();
        if round < 2 {
            less_for_far_off(&rows, &mut importance, &scale, &segments, adversarial);
            all = Learnt::new(
                &rows,
                &importance,
                &scale,
                |_| true,
                &[0.0; FEATURES],
                DRAWN_TO_NOUGHT,
            );
        }
    }
    meet_categories(corpora, &rows, &scale, &importance, aims, &mut segments);
    for weight in &mut segments[Segment::Soup as usize].weights {
        *weight *= SOUP_MARGIN;
    }
    let unscaled = |learnt: &Learnt| std::array::from_fn(|i| (learnt.weights[i] / scale[i]) as f32);
    segments.iter().map(unscaled).collect()
}

/// What each feature is divided by, so that all are of the same order.
fn scale(rows: &[&Row]) -> Vec<f64> {
    let mean = |i: usize| {
        let squares = rows
            .iter()
            .map(|row| (f64::from(row.counts[i]) / row.tokens.max(20.0)).powi(2));
        squares.sum::<f64>() / rows.len().max(1) as f64
    };
    (0..FEATURES).map(|i| mean(i).sqrt().max(1e-6)).collect()
}

/// A row's weight: errors count relative to the tokens, short blocks less.
fn importance(row: &Row, adversarial: bool) -> f64 {
    let part = row.bytes / estimate::BLOCK_BYTES as f64;
    let weight = part / row.tokens.max(20.0).powi(2);
    if adversarial {
        weight * ADVERSARIAL_WEIGHT
    } else {
        weight
    }
}

fn scaled(row: &Row, scale: &[f64]) -> Vec<f64> {
    row.counts
        .iter()
        .zip(scale)
        .map(|(count, scale)| f64::from(*count) / scale)
        .collect()
}

/// What was learnt of one segment, in scaled features.
struct Learnt {
    weights: Vec<f64>,
    matrix: Factored,
}

impl Learnt {
    fn new(
        rows: &[&Row],
        importance: &[f64],
        scale: &[f64],
        of: impl Fn(&Row) -> bool,
        prior: &[f64],
        drawn: f64,
    ) -> Self {
        let mut matrix = Symmetric::zero(FEATURES);
        let mut right = vec![0.0; FEATURES];
        for (row, weight) in rows.iter().zip(importance).filter(|(row, _)| of(row)) {
            let x = scaled(row, scale);
            matrix.add_product(&x, *weight);
            right
                .iter_mut()
                .zip(&x)
                .for_each(|(sum, x)| *sum += weight * x * row.tokens);
        }
        let known = matrix.times(prior);
        let unknown: Vec<f64> = right
            .iter()
            .zip(known)
            .map(|(right, known)| right - known)
            .collect();
        (0..FEATURES).for_each(|i| matrix.add(i, i, drawn));
        let matrix = matrix.factor();
        let moved = matrix.solve(&unknown);
        let weights = prior
            .iter()
            .zip(moved)
            .map(|(prior, moved)| prior + moved)
            .collect();
        Self { weights, matrix }
    }

    fn tokens(&self, x: &[f64]) -> f64 {
        self.weights
            .iter()
            .zip(x)
            .map(|(weight, x)| weight * x)
            .sum()
    }
}

/// Rows that are far off for their segment weigh less (Huber's way).
fn less_for_far_off(
    rows: &[&Row],
    weights: &mut [f64],
    scale: &[f64],
    segments: &[Learnt],
    adversarial: impl Fn(&Row) -> bool,
) {
    let off: Vec<f64> = rows
        .iter()
        .map(|row| {
            let estimate = segments[row.segment as usize].tokens(&scaled(row, scale));
            (estimate - row.tokens) / row.tokens.max(20.0)
        })
        .collect();
    for segment in Segment::ALL {
        let of = || {
            rows.iter()
                .enumerate()
                .filter(move |(_, row)| row.segment == segment)
        };
        let mut here: Vec<f64> = of().map(|(i, _)| off[i].abs()).collect();
        if here.is_empty() {
            continue;
        }
        here.sort_by(f64::total_cmp);
        let limit = FAR_OFF * here[here.len() / 2].max(0.005);
        for (i, row) in of() {
            weights[i] = importance(row, adversarial(row)) * (limit / off[i].abs().max(limit));
            if segment == Segment::Soup && off[i] > 0.0 {
                weights[i] *= TOO_HIGH_WEIGHT;
            }
        }
    }
}

/// Moves the weights, each as far as it is uncertain, so that the sums of all categories come
/// out as they shall.
fn meet_categories(
    corpora: &Corpora,
    rows: &[&Row],
    scale: &[f64],
    importance: &[f64],
    aims: &[f64],
    segments: &mut [Learnt],
) {
    let categories: Vec<usize> = (0..corpora.categories.len())
        .filter(|index| !corpora.categories[*index].is_adversarial())
        .collect();
    let mut sums = vec![vec![vec![0.0; FEATURES]; SEGMENTS]; corpora.categories.len()];
    let mut tokens = vec![0.0; corpora.categories.len()];
    let (mut squares, mut weight_sum) = (0.0, 0.0);
    for (row, weight) in rows.iter().zip(importance) {
        let category = corpora.documents[row.document].category;
        let x = scaled(row, scale);
        let estimate = segments[row.segment as usize].tokens(&x);
        squares += weight * (estimate - row.tokens).powi(2);
        weight_sum += row.bytes / estimate::BLOCK_BYTES as f64;
        tokens[category] += row.tokens;
        let sum = &mut sums[category][row.segment as usize];
        sum.iter_mut().zip(&x).for_each(|(sum, x)| *sum += x);
    }
    let variance = squares / weight_sum.max(1.0);
    let mut off = Vec::new();
    for &category in &categories {
        let most = tokens[category].max(1.0);
        sums[category]
            .iter_mut()
            .flatten()
            .for_each(|sum| *sum /= most);
        let parts = sums[category].iter().zip(segments.iter());
        off.push(aims[category] - parts.map(|(x, learnt)| learnt.tokens(x)).sum::<f64>());
    }
    // For each category, how its sum moves the weights of each segment.
    let pulls: Vec<Vec<Vec<f64>>> = categories
        .iter()
        .map(|&category| {
            let parts = sums[category].iter().zip(segments.iter());
            parts
                .map(|(x, learnt)| {
                    learnt
                        .matrix
                        .solve(x)
                        .iter()
                        .map(|pull| pull * variance)
                        .collect()
                })
                .collect()
        })
        .collect();
    let mut matrix = Symmetric::zero(categories.len());
    for (i, &category) in categories.iter().enumerate() {
        for (j, pull) in pulls.iter().enumerate().take(i + 1) {
            let parts = sums[category].iter().flatten().zip(pull.iter().flatten());
            matrix.add(i, j, parts.map(|(x, pull)| x * pull).sum());
        }
        matrix.add(i, i, CATEGORY_ERROR.powi(2));
    }
    let multipliers = matrix.factor().solve(&off);
    for (multiplier, pull) in multipliers.iter().zip(&pulls) {
        for (learnt, pull) in segments.iter_mut().zip(pull) {
            learnt
                .weights
                .iter_mut()
                .zip(pull)
                .for_each(|(weight, pull)| *weight += multiplier * pull);
        }
    }
}
