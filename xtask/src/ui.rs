//! What people read: colours on a terminal only, aligned tables, one line a step.

use std::io::IsTerminal as _;
use std::time::Duration;

/// How a piece of text is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As it should be.
    Good,
    /// To be mended.
    Bad,
    /// Worth knowing.
    Note,
    /// A heading.
    Strong,
}

/// `text` in its colour when standard output is a terminal and `NO_COLOR` is not set.
pub(crate) fn paint(tone: Tone, text: &str) -> String {
    let coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if !coloured {
        return text.into();
    }
    let code = match tone {
        Tone::Good => "32",
        Tone::Bad => "31",
        Tone::Note => "33",
        Tone::Strong => "1",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Announces a step that takes a while.
pub(crate) fn step(what: &str) {
    eprintln!("==> {what}");
}

/// Prints rows under headings, columns as wide as their widest cell; the last one runs on.
/// The tone colours a row's first cell.
pub(crate) fn table<const N: usize>(headings: [&str; N], rows: &[(Tone, [String; N])]) {
    let mut widths = headings.map(|heading| heading.chars().count());
    for (_, row) in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |tone: Tone, all: bool, cells: [&str; N]| {
        let mut line = String::new();
        for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let width = if index + 1 == N { 0 } else { width };
            let padded = format!("{cell:<width$}");
            let painted = if all || index == 0 {
                paint(tone, &padded)
            } else {
                padded
            };
            line.push_str(&painted);
            line.push_str("  ");
        }
        println!("{}", line.trim_end());
    };
    line(Tone::Strong, true, headings);
    for (tone, row) in rows {
        line(*tone, false, row.each_ref().map(String::as_str));
    }
}

/// `75 s` as `1m15s`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds / 60 {
        0 => format!("{:.1}s", duration.as_secs_f64()),
        minutes => format!("{minutes}m{:02}s", seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_say_them() {
        assert_eq!(duration(Duration::from_millis(1250)), "1.2s");
        assert_eq!(duration(Duration::from_secs(75)), "1m15s");
        assert_eq!(duration(Duration::from_secs(3600)), "60m00s");
    }
}
