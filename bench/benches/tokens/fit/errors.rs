//! How far off estimates are: by category, of the declared mixture, and beside bytes times a
//! constant.

use edge_userspace::tokens::estimate::{self, weights::Weights};

use super::rows::{Corpora, Known, Rows, Split};

/// Of one category.
struct Errors {
    name: String,
    per_mille: f64,
    documents: usize,
    /// Relative, of the sum.
    bias: f64,
    bytes_bias: f64,
    /// Relative, of each document, in order.
    each: Vec<f64>,
    bytes_each: Vec<f64>,
    inside: usize,
    /// Of the documents' beginnings.
    short_each: Vec<f64>,
    short_inside: usize,
}

/// Prints figures of the errors on one split.
pub(crate) fn print(corpora: &Corpora, rows: &Rows, weights: &Weights, split: Split) {
    let constant = tokens_per_byte(corpora, rows);
    let all: Vec<Errors> = (0..corpora.categories.len())
        .filter_map(|category| of(corpora, rows, weights, split, category, constant))
        .collect();
    let which = match split {
        Split::Fit => "fit",
        Split::HeldOut => "error_pct",
    };
    let figure = |name: &str, value: f64| {
        println!(
            "figure tokens.estimate.{which}.{}.{name} {:.3} %",
            weights.vocabulary,
            100.0 * value
        );
    };
    for errors in &all {
        let at = |part: f64| quantile(&errors.each, part);
        figure(&format!("{}.bias", errors.name), errors.bias);
        figure(&format!("{}.median", errors.name), at(0.5));
        figure(&format!("{}.p90", errors.name), at(0.9));
        figure(&format!("{}.p99", errors.name), at(0.99));
        figure(
            &format!("{}.inside_interval", errors.name),
            errors.inside as f64 / errors.documents as f64,
        );
        figure(
            &format!("{}.short_median", errors.name),
            quantile(&errors.short_each, 0.5),
        );
        figure(
            &format!("{}.short_p90", errors.name),
            quantile(&errors.short_each, 0.9),
        );
        figure(
            &format!("{}.short_inside_interval", errors.name),
            errors.short_inside as f64 / errors.short_each.len() as f64,
        );
        figure(
            &format!("{}.bytes_times_constant_bias", errors.name),
            errors.bytes_bias,
        );
        figure(
            &format!("{}.bytes_times_constant_median", errors.name),
            quantile(&errors.bytes_each, 0.5),
        );
    }
    let mixed = || all.iter().filter(|errors| errors.per_mille > 0.0);
    let parts: f64 = mixed().map(|errors| errors.per_mille).sum();
    let mixture =
        |of: fn(&Errors) -> f64| mixed().map(|it| it.per_mille * of(it)).sum::<f64>() / parts;
    let worst = |of: fn(&Errors) -> f64| mixed().map(|it| of(it).abs()).fold(0.0, f64::max);
    let every = |of: fn(&Errors) -> &Vec<f64>| {
        let mut every: Vec<f64> = mixed().flat_map(|it| of(it).iter().copied()).collect();
        every.sort_by(f64::total_cmp);
        every
    };
    figure("aggregate", mixture(|it| it.bias));
    figure("worst_reweighting", worst(|it| it.bias));
    figure("worst_of_halved_or_doubled", worst_reweighted(&all, 2.0));
    figure("median", quantile(&every(|it| &it.each), 0.5));
    figure("p90", quantile(&every(|it| &it.each), 0.9));
    figure("p99", quantile(&every(|it| &it.each), 0.99));
    let (inside, documents) = mixed().fold((0, 0), |(i, n), it| (i + it.inside, n + it.documents));
    figure("inside_interval", inside as f64 / documents as f64);
    figure(
        "bytes_times_constant.aggregate",
        mixture(|it| it.bytes_bias),
    );
    figure(
        "bytes_times_constant.worst_reweighting",
        worst(|it| it.bytes_bias),
    );
    figure(
        "bytes_times_constant.median",
        quantile(&every(|it| &it.bytes_each), 0.5),
    );
}

/// The largest error, either way, of the mixtures in which each category has between its
/// declared share divided by `factor` and its share times `factor`.
fn worst_reweighted(all: &[Errors], factor: f64) -> f64 {
    let mut parts: Vec<(f64, f64)> = all.iter().map(|it| (it.bias, it.per_mille)).collect();
    parts.sort_by(|one, other| one.0.total_cmp(&other.0));
    // The extreme has the most of all on one side of some bias, and the least of the rest.
    let error = |cut: usize, below: f64, above: f64| {
        let share = |i: usize| parts[i].1 * if i < cut { below } else { above };
        let sum: f64 = (0..parts.len()).map(share).sum();
        let off: f64 = (0..parts.len()).map(|i| share(i) * parts[i].0).sum();
        (off / sum).abs()
    };
    (0..=parts.len())
        .flat_map(|cut| {
            [
                error(cut, factor, 1.0 / factor),
                error(cut, 1.0 / factor, factor),
            ]
        })
        .fold(0.0, f64::max)
}

fn of(
    corpora: &Corpora,
    rows: &Rows,
    weights: &Weights,
    split: Split,
    category: usize,
    constant: f64,
) -> Option<Errors> {
    let here =
        |document: &super::rows::Document| document.category == category && document.split == split;
    let known: Vec<&Known> = corpora
        .documents
        .iter()
        .zip(&rows.known)
        .filter(|(document, known)| here(document) && known.tokens > 0)
        .map(|(_, known)| known)
        .collect();
    let estimates: Vec<_> = known
        .iter()
        .map(|known| estimate::estimate(weights, &known.features))
        .collect();
    let actual: f64 = known.iter().map(|known| known.tokens as f64).sum();
    let bias = |sum: f64| sum / actual - 1.0;
    let each = |estimate: &dyn Fn(usize) -> f64| {
        let off = |(i, known): (usize, &&Known)| (estimate(i) / known.tokens as f64 - 1.0).abs();
        let mut each: Vec<f64> = known.iter().enumerate().map(off).collect();
        each.sort_by(f64::total_cmp);
        each
    };
    let by_bytes = |i: usize| known[i].bytes as f64 * constant;
    let inside = known
        .iter()
        .zip(&estimates)
        .filter(|(known, estimate)| (estimate.low..=estimate.high).contains(&known.tokens));
    let short: Vec<_> = corpora
        .documents
        .iter()
        .zip(&rows.short)
        .filter(|(document, known)| here(document) && known.tokens > 0)
        .map(|(_, known)| (known.tokens, estimate::estimate(weights, &known.features)))
        .collect();
    let mut short_each: Vec<f64> = short
        .iter()
        .map(|(tokens, estimate)| (estimate.tokens as f64 / *tokens as f64 - 1.0).abs())
        .collect();
    short_each.sort_by(f64::total_cmp);
    let short_inside = short
        .iter()
        .filter(|(tokens, estimate)| (estimate.low..=estimate.high).contains(tokens));
    (!known.is_empty()).then(|| Errors {
        name: corpora.categories[category].name.clone(),
        per_mille: corpora.categories[category].per_mille,
        documents: known.len(),
        bias: bias(
            estimates
                .iter()
                .map(|estimate| estimate.tokens as f64)
                .sum(),
        ),
        bytes_bias: bias((0..known.len()).map(by_bytes).sum()),
        each: each(&|i| estimates[i].tokens as f64),
        bytes_each: each(&by_bytes),
        inside: inside.count(),
        short_each,
        short_inside: short_inside.count(),
    })
}

/// Of the declared mixture, on the fit split: what a constant is at its best.
fn tokens_per_byte(corpora: &Corpora, rows: &Rows) -> f64 {
    let (mut tokens, mut bytes) = (0.0, 0.0);
    for (index, category) in corpora.categories.iter().enumerate() {
        let of = corpora
            .documents
            .iter()
            .zip(&rows.known)
            .filter(|(document, _)| document.category == index && document.split == Split::Fit);
        let (t, b) = of.fold((0.0, 0.0), |(t, b), (_, known)| {
            (t + known.tokens as f64, b + known.bytes as f64)
        });
        if t > 0.0 {
            tokens += category.per_mille;
            bytes += category.per_mille * b / t;
        }
    }
    tokens / bytes
}

fn quantile(ordered: &[f64], part: f64) -> f64 {
    let index = (ordered.len() as f64 * part) as usize;
    ordered
        .get(index.min(ordered.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0.0)
}
