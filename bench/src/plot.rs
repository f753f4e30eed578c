//! Plots of figures, as SVG: curves, and bars in groups. What is drawn is also in a record beside
//! it; here is no number.

use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

/// A series' name and its points, in the order of x.
pub type Curve = (String, Vec<(f64, f64)>);
/// A series' name and its value in each group; a value that is no number is left out.
pub type Bars = (String, Vec<f64>);

type Coordinate = fn((f64, f64)) -> f64;

const SIZE: (u32, u32) = (960, 540);

/// Curves on logarithmic axes: every value must be above 0.
///
/// # Errors
/// When the file cannot be written.
///
/// # Panics
/// When there is no point to draw.
pub fn lines(
    path: &Path,
    title: &str,
    (x_label, y_label): (&str, &str),
    curves: &[Curve],
) -> Result<(), String> {
    let points = || curves.iter().flat_map(|(_, points)| points.iter().copied());
    assert!(points().next().is_some(), "{title}: no points");
    let most = |of: Coordinate| points().map(of).fold(f64::MIN, f64::max);
    let least = |of: Coordinate| points().map(of).fold(f64::MAX, f64::min);
    let (x, y): (Coordinate, Coordinate) = (|point| point.0, |point| point.1);
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    root.fill(&WHITE).map_err(|error| said(&error))?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(76)
        .build_cartesian_2d(
            (least(x) * 0.9..most(x) * 1.1).log_scale(),
            (least(y) * 0.8..most(y) * 1.3).log_scale(),
        )
        .map_err(|error| said(&error))?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(x_label).y_desc(y_label).light_line_style(WHITE);
    let number = |value: &f64| value.to_string();
    mesh.x_label_formatter(&number).y_label_formatter(&number);
    // More than that lie one over the other at the upper end of a decade.
    mesh.x_labels(6);
    mesh.draw().map_err(|error| said(&error))?;
    for (index, (name, points)) in curves.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        let line = LineSeries::new(points.iter().copied(), color.stroke_width(2)).point_size(3);
        chart
            .draw_series(line)
            .map_err(|error| said(&error))?
            .label(name.as_str())
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], color.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .draw()
        .map_err(|error| said(&error))?;
    root.present().map_err(|error| said(&error))
}

/// Bars side by side, in groups.
///
/// # Errors
/// When the file cannot be written.
///
/// # Panics
/// When a series has not a value for each group, or nothing is to be drawn.
pub fn bars(
    path: &Path,
    title: &str,
    unit: &str,
    groups: &[&str],
    series: &[Bars],
) -> Result<(), String> {
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    for (name, values) in series {
        assert_eq!(values.len(), groups.len(), "{title}: {name}");
    }
    let values = series.iter().flat_map(|(_, values)| values);
    let most = values.copied().filter(|value| value.is_finite());
    let most = most.fold(0.0, f64::max);
    assert!(most > 0.0, "{title}: no bars");
    let root: DrawingArea<_, Shift> = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(|error| said(&error))?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(36)
        .y_label_area_size(76)
        .build_cartesian_2d(0.0..groups.len() as f64, 0.0..most * 1.1)
        .map_err(|error| said(&error))?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().x_labels(0).y_desc(unit);
    mesh.light_line_style(WHITE);
    mesh.draw().map_err(|error| said(&error))?;
    let width = 0.8 / series.len() as f64;
    for (index, (name, values)) in series.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        let bar = |(group, value): (usize, &f64)| {
            let left = group as f64 + 0.1 + width * index as f64;
            let corners = [(left, 0.0), (left + width * 0.92, *value)];
            value
                .is_finite()
                .then(|| Rectangle::new(corners, color.filled()))
        };
        chart
            .draw_series(values.iter().enumerate().filter_map(bar))
            .map_err(|error| said(&error))?
            .label(name.as_str())
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], color.filled()));
    }
    for (index, name) in groups.iter().enumerate() {
        let (left, bottom) = chart.backend_coord(&(index as f64 + 0.5, 0.0));
        let font = ("sans-serif", 14).into_font().color(&BLACK);
        let middle = plotters::style::text_anchor::Pos::new(
            plotters::style::text_anchor::HPos::Center,
            plotters::style::text_anchor::VPos::Top,
        );
        root.draw(&Text::new(*name, (left, bottom + 8), font.pos(middle)))
            .map_err(|error| said(&error))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .draw()
        .map_err(|error| said(&error))?;
    root.present().map_err(|error| said(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_and_group_is_named_in_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plot.svg");
        let curves = [
            ("ours".to_owned(), vec![(1.0, 2.0), (10.0, 3.0)]),
            ("theirs".to_owned(), vec![(1.0, 4.0), (16_000.0, 900.0)]),
        ];
        lines(&path, "a title", ("rate", "time"), &curves).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for name in ["a title", "rate", "time", "ours", "theirs", "<polyline"] {
            assert!(text.contains(name), "{name} in {text}");
        }
        assert!(text.contains("1000") && !text.contains("1000.0"), "{text}");
        let series = [
            ("ours".to_owned(), vec![1.0, 2.0]),
            ("theirs".to_owned(), vec![f64::NAN, 3.0]),
        ];
        bars(&path, "bars", "us", &["small", "large"], &series).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for name in ["bars", "us", "small", "large", "ours", "theirs"] {
            assert!(text.contains(name), "{name} in {text}");
        }
    }
}
