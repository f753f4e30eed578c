//! What a killed demo or a killed daemon may have left: network namespaces, interfaces, pins,
//! attached XDP programs.
//!
//! The demo calls everything of its own `edge-demo-PID…`. As long as a process with that
//! number is an xtask, the demo is running and nothing is left over. What a demo left harms
//! nobody; a program on an interface of the machine's own stands in a new daemon's way.

use super::Check;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PREFIX: &str = "edge-demo-";
/// Programs of ours, as the kernel lists them.
const PROGRAMS: &str = "edge_";

pub(super) fn checks() -> Vec<Check> {
    let proc = Path::new("/proc");
    vec![
        named(
            proc,
            "namespaces left",
            Path::new("/run/netns"),
            |name, _| format!("ip netns pids {name} | xargs -r kill; ip netns delete {name}"),
        ),
        named(
            proc,
            "interfaces left",
            Path::new("/sys/class/net"),
            |name, _| format!("ip link delete {name}"),
        ),
        named(proc, "pins left", Path::new("/sys/fs/bpf"), |_, path| {
            format!("rm -r {}", path.display())
        }),
        programs(proc, links()),
    ]
}

/// Entries of `folder` that a demo made which is not running any more.
fn named(
    proc: &Path,
    name: &'static str,
    folder: &Path,
    fix: impl Fn(&str, PathBuf) -> String,
) -> Check {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|name| name.starts_with(PREFIX)).collect();
    names.sort();
    let (running, left): (Vec<_>, Vec<_>) = names.iter().partition(|name| belongs(proc, name));
    if left.is_empty() {
        return match running.len() {
            0 => Check::good(name, "none"),
            count => Check::good(name, format!("none; {count} of a running demo")),
        };
    }
    let fixes: Vec<_> = left
        .iter()
        .map(|name| fix(name, folder.join(name)))
        .collect();
    let left: Vec<_> = left.into_iter().map(String::as_str).collect();
    Check::left(name, left.join(", "), fixes.join("; "))
}

/// Whether the demo that made `name` is running.
fn belongs(proc: &Path, name: &str) -> bool {
    let pid: String = name
        .trim_start_matches(PREFIX)
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    !pid.is_empty() && command_of(proc, &pid).as_deref() == Some("xtask")
}

fn command_of(proc: &Path, pid: &str) -> Option<String> {
    let name = fs::read_to_string(proc.join(pid).join("comm")).ok()?;
    Some(name.trim().to_owned())
}

/// All interfaces as `ip` lists them; `None` when it cannot.
fn links() -> Option<Vec<Value>> {
    let output = Command::new("ip")
        .args(["-json", "-details", "link", "show"])
        .output()
        .ok()?;
    serde_json::from_slice(&output.stdout).ok()
}

/// XDP programs of ours on an interface although no daemon is running.
fn programs(proc: &Path, links: Option<Vec<Value>>) -> Check {
    const NAME: &str = "XDP programs left";
    let Some(links) = links else {
        return Check::unchecked(NAME, "`ip -json -details link show` gave no list");
    };
    let ours: Vec<_> = links.iter().filter_map(attached).collect();
    let running = fs::read_dir(proc)
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| {
            let name = command_of(proc, &entry.file_name().to_string_lossy());
            matches!(name.as_deref(), Some("edge" | "xtask" | "edge-demo"))
                && !is_self(&entry.path())
        });
    let found = ours
        .iter()
        .map(|(link, program)| format!("{program} on {link}"));
    let found = found.collect::<Vec<_>>().join(", ");
    match (ours.is_empty(), running) {
        (true, _) => Check::good(NAME, "none"),
        (false, true) => Check::good(NAME, format!("{found}, of a running edge")),
        (false, false) => {
            let fixes = ours.iter().map(|(link, _)| {
                format!(
                    "for mode in xdp xdpdrv xdpgeneric; do ip link set dev {link} $mode off; done"
                )
            });
            let fixes = fixes.collect::<Vec<_>>().join("; ");
            // On an interface of a demo it is in nobody's way.
            if ours.iter().all(|(link, _)| link.starts_with(PREFIX)) {
                Check::left(NAME, found, fixes)
            } else {
                Check::bad(NAME, found, fixes)
            }
        }
    }
}

fn is_self(process: &Path) -> bool {
    process
        .file_name()
        .is_some_and(|pid| *pid == *std::process::id().to_string())
}

/// Interface and program, when one of ours is attached.
fn attached(link: &Value) -> Option<(String, String)> {
    let name = link.get("ifname")?.as_str()?;
    let xdp = link.get("xdp")?;
    // With programs in several modes at once only the list names them.
    let listed = xdp.get("attached").and_then(Value::as_array);
    let program = std::iter::once(xdp)
        .chain(listed.into_iter().flatten())
        .filter_map(|at| at.get("prog")?.get("name")?.as_str())
        .find(|program| program.starts_with(PROGRAMS))?;
    Some((name.into(), program.into()))
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (pid, command) in [("17", "xtask"), ("18", "bash")] {
            fs::create_dir_all(root.path().join("proc").join(pid)).unwrap();
            fs::write(
                root.path().join("proc").join(pid).join("comm"),
                format!("{command}\n"),
            )
            .unwrap();
        }
        fs::create_dir(root.path().join("netns")).unwrap();
        root
    }

    fn look(root: &Path) -> Check {
        named(
            &root.join("proc"),
            "namespaces left",
            &root.join("netns"),
            |name, _| format!("delete {name}"),
        )
    }

    #[test]
    fn a_killed_demos_namespaces_are_left_over_and_a_running_ones_are_not() {
        let root = machine();
        for name in ["edge-demo-17-client", "other"] {
            fs::write(root.path().join("netns").join(name), "").unwrap();
        }
        let check = look(root.path());
        assert_eq!(
            (check.state, &*check.found),
            (State::Good, "none; 1 of a running demo")
        );
        // 18 is alive but another program by now; 19 is gone; the last names nobody.
        for name in ["edge-demo-18-client", "edge-demo-19-server", "edge-demo-x"] {
            fs::write(root.path().join("netns").join(name), "").unwrap();
        }
        let check = look(root.path());
        assert_eq!(check.state, State::Left);
        assert_eq!(
            check.found,
            "edge-demo-18-client, edge-demo-19-server, edge-demo-x"
        );
        assert!(check.fix.unwrap().contains("delete edge-demo-19-server"));
    }

    #[test]
    fn a_program_without_a_daemon_is_left_over() {
        let links = |name: &str| {
            let link = format!(
                r#"[{{"ifname":"lo"}},{{"ifname":"eth0","xdp":{{"mode":2,"prog":{{"id":7,"name":"{name}"}}}}}}]"#
            );
            serde_json::from_str(&link).ok()
        };
        let root = machine();
        let idle = root.path().join("netns");
        let check = programs(&idle, links("edge_xdp"));
        assert_eq!(
            (check.state, &*check.found),
            (State::Bad, "edge_xdp on eth0")
        );
        let several = r#"[{"ifname":"eth1","xdp":{"mode":4,"attached":[
            {"mode":1,"prog":{"name":"other"}},{"mode":2,"prog":{"name":"edge_pass"}}]}}]"#;
        let check = programs(&idle, serde_json::from_str(several).ok());
        assert_eq!(check.found, "edge_pass on eth1");
        let demo = several.replace("eth1", "edge-demo-9-server");
        let check = programs(&idle, serde_json::from_str(&demo).ok());
        assert_eq!(check.state, State::Left);
        assert_eq!(programs(&idle, links("xdp_dispatcher")).state, State::Good);
        assert_eq!(
            programs(&root.path().join("proc"), links("edge_xdp")).state,
            State::Good
        );
        assert_eq!(programs(&idle, None).state, State::Unchecked);
    }
}
