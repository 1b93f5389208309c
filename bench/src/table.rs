//! Tables in Markdown.

/// Formats a number with thousands separators.
pub fn thousands(number: u64) -> String {
    if number < 1000 { number.to_string() } else { format!("{},{:03}", thousands(number / 1000), number % 1000) }
}

/// Renders rows as a Markdown table; the first row is the header.
pub fn render(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = rows.first().map(|row| line(row)).unwrap_or_default();
    text += &format!("|{}\n", widths.iter().map(|width| format!("{}|", "-".repeat(width + 2))).collect::<String>());
    rows.iter().skip(1).for_each(|row| text += &line(row));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let rows = [["", "a"], ["long", &thousands(1_234_567)]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(render(&rows), "|      | a         |\n|------|-----------|\n| long | 1,234,567 |\n");
    }
}
