//! What a full run puts into `docs/benchmarks.md`: tables, where two marks stand.

use std::path::Path;
use std::process::Command;

const END: &str = "<!-- its end -->\n";

/// When, on what, of which state.
#[must_use]
pub fn machine() -> String {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        text.unwrap_or_default()
    };
    let model = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("", |line| line.trim_start_matches([' ', '\t', ':']));
    format!(
        "{}, commit {}, Linux {}, {model}, load average {} in the end",
        said("date", &["--utc", "+%Y-%m-%d"]),
        said("git", &["rev-parse", "--short", "HEAD"]),
        release(&said("uname", &["-r"])),
        crate::daemon::load_average()
    )
}

/// The kernel's release without what who built it has put behind it.
fn release(uname: &str) -> &str {
    uname.split('-').next().unwrap_or_default()
}

/// Puts the tables of the bench of that name where its marks are; prints them when there are
/// none.
///
/// # Panics
/// When there is no room on the disk.
pub fn write(bench: &str, tables: &str) {
    let begin = format!("<!-- what cargo xtask bench {bench} writes -->\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks.md");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let marked = text.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some(format!("{before}{begin}\n{tables}\n{END}{after}"))
    });
    match marked {
        Some(text) => std::fs::write(&path, text).expect("room on the disk"),
        None => println!(
            "{}: the marks are gone; the tables:\n{tables}",
            path.display()
        ),
    }
}
