//! The end of a run: what a person wants to see of it, as tables that docs can take.

use std::collections::BTreeMap;

/// Ratios and speeds by corpus and column, of one vocabulary.
#[derive(Default)]
pub(crate) struct Summary {
    rows: Vec<(String, BTreeMap<String, f64>)>,
    columns: Vec<String>,
}

impl Summary {
    /// A cell; rows and columns stand in the order in which they come.
    pub(crate) fn put(&mut self, row: &str, column: &str, value: f64) {
        if !self.columns.iter().any(|it| it == column) {
            self.columns.push(column.to_owned());
        }
        let index = self.rows.iter().position(|(name, _)| name == row);
        let index = index.unwrap_or_else(|| {
            self.rows.push((row.to_owned(), BTreeMap::new()));
            self.rows.len() - 1
        });
        self.rows[index].1.insert(column.to_owned(), value);
    }

    /// As a table in Markdown.
    pub(crate) fn print(&self, title: &str) {
        println!("\n| {title} | {} |", self.columns.join(" | "));
        println!("|---|{}", "---|".repeat(self.columns.len()));
        for (name, cells) in &self.rows {
            let cells = self.columns.iter().map(|column| match cells.get(column) {
                Some(value) if *value >= 100.0 => format!("{value:.0}"),
                Some(value) if *value >= 10.0 => format!("{value:.1}"),
                Some(value) => format!("{value:.2}"),
                None => String::new(),
            });
            println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
        }
    }
}
