//! A plot of the times, with logarithmic axes: what grows linearly is a diagonal, a constant is level.

use super::{
    Size,
    figure::{Figure, Grows},
};
use crate::figures::Unit;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 480.0;
/// Room for the axes on the left and below, and for the names on the right.
const LEFT: f64 = 60.0;
const BELOW: f64 = 40.0;
const RIGHT: f64 = 220.0;
const ABOVE: f64 = 20.0;
/// The least distance between two names.
const LINE: f64 = 13.0;
const COLORS: [&str; 6] = ["#1b6ca8", "#c0392b", "#27803b", "#8e44ad", "#b9770e", "#5d6d7e"];

/// Positions on the axes.
struct Axes {
    objects: (f64, f64),
    seconds: (f64, f64),
}

impl Axes {
    fn of(sizes: &[Size]) -> Option<Self> {
        let objects = sizes.iter().map(|size| size.objects as f64);
        let seconds = sizes.iter().flat_map(|size| shown().filter_map(|figure| size.figures.get(&figure).copied()));
        Some(Self { objects: decades(objects)?, seconds: decades(seconds)? })
    }

    fn x(&self, objects: f64) -> f64 {
        LEFT + share(self.objects, objects) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, seconds: f64) -> f64 {
        HEIGHT - BELOW - share(self.seconds, seconds) * (HEIGHT - BELOW - ABOVE)
    }
}

/// Returns the exponents of ten between which positive numbers are.
fn decades(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let logs: Vec<f64> = numbers.filter(|number| *number > 0.0).map(f64::log10).collect();
    let least = logs.iter().copied().reduce(f64::min)?.floor();
    let most = logs.iter().copied().reduce(f64::max)?.ceil();
    Some((least, most.max(least + 1.0)))
}

fn share((least, most): (f64, f64), number: f64) -> f64 {
    (number.log10() - least) / (most - least)
}

/// Returns the times in the plot: the medians.
fn shown() -> impl Iterator<Item = Figure> {
    let is_time = |figure: &Figure| figure.unit() == Unit::Seconds && figure.grows() != Grows::Freely;
    Figure::ALL.into_iter().filter(is_time)
}

/// Renders the plot.
pub(super) fn svg(sizes: &[Size]) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    let Some(axes) = Axes::of(sizes) else { return out + "</svg>\n" };
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BELOW);
    for exponent in axes.seconds.0 as i32..=axes.seconds.1 as i32 {
        let (y, seconds) = (axes.y(10_f64.powi(exponent)), 10_f64.powi(exponent));
        out += &format!("<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ddd\"/>\n");
        out += &format!("<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{seconds} s</text>\n", LEFT - 6.0, y + 4.0);
    }
    for exponent in axes.objects.0 as i32..=axes.objects.1 as i32 {
        let x = axes.x(10_f64.powi(exponent));
        out += &format!("<path d=\"M{x:.1} {ABOVE}V{bottom}\" stroke=\"#ddd\"/>\n");
        out += &format!("<text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">10^{exponent}</text>\n", bottom + 16.0);
    }
    let mut names = Vec::new();
    for (index, figure) in shown().enumerate() {
        let color = COLORS[index % COLORS.len()];
        let value = |size: &Size| size.figures.get(&figure).filter(|value| **value > 0.0).copied();
        let points: Vec<(f64, f64)> =
            sizes.iter().filter_map(|size| Some((axes.x(size.objects as f64), axes.y(value(size)?)))).collect();
        let Some((_, y)) = points.last() else { continue };
        let line: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let line = line.join(" ");
        out += &format!("<polyline points=\"{line}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.5\"/>\n");
        names.push((*y, color, figure.title()));
    }
    // Names stand at the ends of their lines, or below the name before them.
    names.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut lowest = f64::MIN;
    for (y, color, title) in names {
        lowest = (y + 4.0).max(lowest + LINE);
        out += &format!("<text x=\"{:.0}\" y=\"{lowest:.1}\" fill=\"{color}\">{title}</text>\n", right + 8.0);
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_time_is_a_diagonal_and_a_constant_is_level() {
        let size = |objects: usize, list| Size { objects, figures: [(Figure::List, list), (Figure::Get, 0.01)].into() };
        let plot = svg(&[size(1_000, 0.01), size(10_000, 0.1)]);
        let lines: Vec<Vec<f64>> = plot
            .lines()
            .filter_map(|line| line.strip_prefix("<polyline points=\"")?.split_once('"'))
            .map(|(points, _)| points.split([',', ' ']).map(|number| number.parse().unwrap()).collect())
            .collect();
        let [get, list] = lines.as_slice() else { panic!("{plot}") };
        assert_eq!(get[1], get[3]);
        assert_eq!(list[..], [LEFT, HEIGHT - BELOW, WIDTH - RIGHT, ABOVE]);
    }

    #[test]
    fn nothing_measured_is_an_empty_plot() {
        assert!(svg(&[]).ends_with("</svg>\n"));
    }
}
