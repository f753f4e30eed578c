//! The demo as a person starts it, and what is left of it afterwards: nothing.

#[macro_use]
#[path = "../../edge-userspace/tests/skip/mod.rs"]
mod skip;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

/// A demo that runs, printing JSON lines.
struct Demo {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Demo {
    fn start(program: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn run(arguments: &[&str]) -> Self {
        let arguments = [&["run", "--json"], arguments].concat();
        Self::start(env!("CARGO_BIN_EXE_xtask"), &arguments)
    }

    /// The next line whose `event` is this.
    fn next(&mut self, event: &str) -> serde_json::Value {
        for line in &mut self.lines {
            let line = line.unwrap();
            let value: serde_json::Value = serde_json::from_str(&line).expect(&line);
            if value["event"] == event {
                return value;
            }
        }
        panic!("no {event:?} before the end: {:?}", self.child.wait());
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for the end; gives how it ended, after a look at what it has left behind.
    fn end(mut self) -> ExitStatus {
        for line in &mut self.lines {
            line.unwrap();
        }
        let status = self.child.wait().unwrap();
        assert_eq!(left_by(self.child.id()), [""; 0]);
        status
    }
}

/// A test that fails leaves no demo running either.
impl Drop for Demo {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal("TERM");
            let _ = self.child.wait();
        }
    }
}

/// Namespaces, directories and processes of the demo with this pid.
fn left_by(pid: u32) -> Vec<String> {
    let name = format!("edge-demo-{pid}-");
    let mut left = Vec::new();
    for directory in [Path::new("/run/netns"), &std::env::temp_dir()] {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&name) {
                left.push(entry.path().display().to_string());
            }
        }
    }
    // The daemons and the clients have the directory's name among their arguments.
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(mut file) = std::fs::File::open(entry.path().join("cmdline")) else {
            continue;
        };
        let mut arguments = Vec::new();
        let _ = file.read_to_end(&mut arguments);
        let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
        if arguments.contains(&name) {
            left.push(arguments);
        }
    }
    left
}

/// Every row of a whole run, which must have ended well.
fn rows(mut demo: Demo) -> Vec<serde_json::Value> {
    let mut rows = Vec::new();
    for line in &mut demo.lines {
        let line = line.unwrap();
        let value: serde_json::Value = serde_json::from_str(&line).expect(&line);
        assert_ne!(value["event"], "skipped", "{line}");
        if value["event"] == "row" {
            assert_eq!(value["as_expected"], true, "{line}");
            rows.push(value);
        }
    }
    assert!(demo.end().success());
    rows
}

/// How many rows were decided by this half.
fn decided_by(rows: &[serde_json::Value], half: &str) -> usize {
    rows.iter().filter(|row| row["decided_by"] == half).count()
}

#[test]
fn every_row_is_as_expected_with_the_kernel_half() {
    needs_kernel!();
    let rows = rows(Demo::run(&["--once"]));
    let refused = decided_by(&rows, "kernel");
    assert!(refused >= 15, "five reasons, three libraries: {refused}");
    assert!(rows.len() - refused >= 15);
}

#[test]
fn clients_see_the_same_without_it() {
    needs_kernel!();
    let rows = rows(Demo::run(&["--once", "--no-xdp"]));
    assert_eq!(decided_by(&rows, "kernel"), 0);
}

#[test]
fn without_privileges_it_runs_on_loopback_and_says_so_first() {
    needs_kernel!();
    // Root without a single capability is nobody in particular.
    let strip = ["--bounding-set=-all", "--inh-caps=-all"];
    let demo = [env!("CARGO_BIN_EXE_xtask"), "run", "--json", "--once"];
    let mut demo = Demo::start("setpriv", &[&strip[..], &demo[..]].concat());
    let first = demo.next("note");
    let first = first["text"].as_str().unwrap();
    assert!(first.contains("userspace only"), "{first}");
    assert!(first.contains("not permitted"), "{first}");
    let rows = rows(demo);
    assert_eq!(decided_by(&rows, "kernel"), 0);
}

#[test]
fn a_signal_amid_the_table_leaves_nothing() {
    needs_kernel!();
    for signal in ["INT", "TERM", "HUP"] {
        let mut demo = Demo::run(&[]);
        demo.next("row");
        assert_ne!(left_by(demo.child.id()), [""; 0], "nothing to take down");
        demo.signal(signal);
        assert_eq!(demo.end().code(), Some(1), "half a table proves nothing");
    }
}

#[test]
fn a_signal_after_the_table_is_the_ordinary_end() {
    needs_kernel!();
    let mut demo = Demo::run(&[]);
    demo.next("end");
    demo.signal("INT");
    assert!(demo.end().success());
}

#[test]
fn the_next_run_sweeps_up_after_one_that_was_killed() {
    needs_kernel!();
    let mut demo = Demo::run(&[]);
    demo.next("row");
    let pid = demo.child.id();
    demo.signal("KILL");
    demo.child.wait().unwrap();
    assert_ne!(left_by(pid), [""; 0]);
    let mut next = Demo::run(&[]);
    next.next("row");
    assert_eq!(left_by(pid), [""; 0]);
    next.signal("INT");
    next.end();
}
