// SPDX-License-Identifier: MPL-2.0
//! The figures as a picture: latency above, throughput below, by the size of
//! the messages; both axes logarithmic.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use super::Figure;
use crate::out::bytes;

const SIZE: (u32, u32) = (800, 900);

/// Draw into an SVG file.
pub fn draw(path: &Path, figures: &[Figure], peer: &str) -> Result<(), String> {
    draw_all(path, figures, peer).map_err(|why| why.to_string())
}

fn draw_all<'a>(path: &'a Path, figures: &[Figure], peer: &str) -> Result<(), Box<dyn Error + 'a>> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (above, below) = area.split_vertically(SIZE.1 / 2);
    let latency = format!("Latency with {peer}: half a round trip, us");
    chart(&above, &latency, figures, |figure| figure.latency_us)?;
    chart(&below, "Throughput: bytes a second", figures, |figure| {
        figure.bytes
    })?;
    area.present()?;
    Ok(())
}

fn chart<'a>(
    area: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
    title: &str,
    figures: &[Figure],
    of: fn(&Figure) -> f64,
) -> Result<(), Box<dyn Error + 'a>> {
    let sizes = figures.iter().map(|figure| figure.size as f64);
    let (left, right) = bounds(sizes);
    let (low, high) = bounds(figures.iter().map(of));
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d((left..right).log_scale(), (low..high).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("message")
        .x_label_formatter(&|size| bytes(*size as u64))
        .y_label_formatter(&|value| number(*value))
        .draw()?;
    for (scheme, colour) in [
        ("rdma", RGBColor(0, 90, 181)),
        ("tcp", RGBColor(220, 50, 32)),
    ] {
        let ours = figures.iter().filter(|figure| figure.scheme == scheme);
        let points: Vec<_> = ours
            .map(|figure| (figure.size as f64, of(figure)))
            .collect();
        if points.is_empty() {
            continue;
        }
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(4))?
            .label(format!("{scheme}://"))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    Ok(())
}

/// A range around the values, for a logarithmic axis.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let values = values.filter(|value| *value > 0.0 && value.is_finite());
    let (low, high) = values.fold((f64::MAX, 0.0f64), |(low, high), v| {
        (low.min(v), high.max(v))
    });
    if high == 0.0 {
        return (1.0, 10.0);
    }
    (low / 1.5, high * 1.5)
}

fn number(value: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = UNITS.iter().find(|(least, _)| value >= *least);
    unit.map_or(format!("{value:.1}"), |(least, name)| {
        format!("{:.1} {name}", value / least)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::tempdir::Dir;

    #[test]
    fn a_picture_has_a_line_for_each_scheme() {
        let dir = Dir::new();
        let path = dir.path().join("x.svg");
        let figures: Vec<_> = [("rdma", 1), ("rdma", 1024), ("tcp", 1), ("tcp", 1024)]
            .map(|(scheme, size)| Figure {
                scheme: scheme.to_string(),
                size,
                latency_us: 20.0 + size as f64 / 100.0,
                latency_p99_us: 90.0,
                messages: 1e6,
                bytes: 1e6 * size as f64,
            })
            .into();
        draw(&path, &figures, "a test").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        assert!(text.contains("rdma://") && text.contains("tcp://"));
    }

    #[test]
    fn one_point_has_a_range_around_it() {
        let (low, high) = bounds([5.0].into_iter());
        assert!(low < 5.0 && high > 5.0);
        assert_eq!(bounds([].into_iter()), (1.0, 10.0));
    }
}
