//! The running kernel, and what this process may do with it.

use super::Check;
use crate::capabilities;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Verified from here on: `bpf_xdp_load_bytes`, `bpf_loop`, BPF links.
const LOWEST: [u32; 2] = [6, 1];
/// From here on BPF memory is charged to the memory cgroup, not to RLIMIT_MEMLOCK.
const NO_MEMLOCK: [u32; 2] = [5, 11];

pub(super) fn checks() -> Vec<Check> {
    let release = read("/proc/sys/kernel/osrelease");
    vec![
        version(&release),
        btf(Path::new("/sys/kernel/btf/vmlinux")),
        jit(&read("/proc/sys/net/core/bpf_jit_enable")),
        bpffs(&read("/proc/self/mounts")),
        socket_destroy(&build_options(&release)),
        capabilities(&read("/proc/self/status")),
        memlock(&read("/proc/self/limits"), &release),
    ]
}

fn version(release: &str) -> Check {
    const NAME: &str = "kernel";
    let [major, minor] = LOWEST;
    if numbers(release) >= LOWEST {
        Check::good(
            NAME,
            format!("{release}; {major}.{minor} or newer is needed"),
        )
    } else {
        let found = format!("{release}, but {major}.{minor} is needed");
        Check::bad(
            NAME,
            found,
            "apt-get install -y linux-image-amd64 && reboot",
        )
    }
}

fn btf(vmlinux: &Path) -> Check {
    const NAME: &str = "kernel BTF";
    match fs::metadata(vmlinux) {
        Ok(file) if file.len() > 0 => Check::good(
            NAME,
            format!("{} ({} bytes)", vmlinux.display(), file.len()),
        ),
        _ => Check::bad(
            NAME,
            format!(
                "{} is missing: the kernel has no CONFIG_DEBUG_INFO_BTF",
                vmlinux.display()
            ),
            "apt-get install -y linux-image-amd64 && reboot",
        ),
    }
}

fn jit(enable: &str) -> Check {
    const NAME: &str = "BPF JIT";
    match enable {
        "1" | "2" => Check::good(NAME, "on"),
        "" => Check::optional(
            NAME,
            "not readable by this user",
            "sudo -E cargo xtask doctor",
        ),
        _ => Check::optional(
            NAME,
            "off: programs are interpreted, many times slower",
            "sysctl -w net.core.bpf_jit_enable=1",
        ),
    }
}

fn bpffs(mounts: &str) -> Check {
    const NAME: &str = "bpffs";
    let mounted = mounts.lines().any(|mount| {
        let mut fields = mount.split(' ').skip(1);
        fields.next() == Some("/sys/fs/bpf") && fields.next() == Some("bpf")
    });
    if mounted {
        Check::good(NAME, "mounted on /sys/fs/bpf")
    } else {
        Check::bad(
            NAME,
            "not mounted on /sys/fs/bpf",
            "mount -t bpf bpf /sys/fs/bpf",
        )
    }
}

/// With it the daemon frees the sockets of refused clients that never acknowledge; without it
/// they wait for the kernel's own timeouts.
fn socket_destroy(options: &str) -> Check {
    const NAME: &str = "socket destroy";
    const OPTION: &str = "CONFIG_INET_DIAG_DESTROY";
    if options.lines().any(|line| line == format!("{OPTION}=y")) {
        Check::good(NAME, format!("{OPTION} is on"))
    } else if options.is_empty() {
        let found = format!(
            "cannot be told: neither /proc/config.gz nor /boot/config-*; {OPTION} frees the \
             sockets of refused clients that never acknowledge"
        );
        Check::optional(NAME, found, "modprobe configs")
    } else {
        let found = format!(
            "{OPTION} is off: sockets of refused clients that never acknowledge stay until the \
             kernel gives them up"
        );
        Check::optional(
            NAME,
            found,
            "apt-get install -y linux-image-amd64 && reboot",
        )
    }
}

/// What the running kernel was built with; empty when it does not tell.
fn build_options(release: &str) -> String {
    let file = Path::new("/boot").join(format!("config-{release}"));
    fs::read_to_string(file).unwrap_or_else(|_| {
        let unpacked = Command::new("zcat").arg("/proc/config.gz").output();
        unpacked.map_or_else(
            |_| String::new(),
            |output| String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    })
}

fn capabilities(status: &str) -> Check {
    const NAME: &str = "capabilities";
    let effective = capabilities::effective(status);
    let (have, lack): (Vec<_>, Vec<_>) = capabilities::NEEDED
        .iter()
        .partition(|(_, bit)| effective >> bit & 1 == 1);
    let names = |list: Vec<&(&'static str, u32)>| {
        list.into_iter()
            .map(|(name, _)| *name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    if lack.is_empty() {
        Check::good(NAME, names(have))
    } else {
        let found = format!("{} missing: everything runs in userspace only", names(lack));
        Check::bad(NAME, found, "sudo -E cargo xtask doctor")
    }
}

fn memlock(limits: &str, release: &str) -> Check {
    const NAME: &str = "memlock";
    let soft = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap_or("unknown");
    if soft == "unlimited" {
        Check::good(NAME, "unlimited")
    } else if numbers(release) >= NO_MEMLOCK {
        let found = format!("{soft} bytes; BPF maps are not counted against it since Linux 5.11");
        Check::good(NAME, found)
    } else {
        Check::bad(
            NAME,
            format!("{soft} bytes, too few for the maps"),
            "ulimit -l unlimited",
        )
    }
}

/// `6.18.44-fc` as numbers that compare.
fn numbers(release: &str) -> [u32; 2] {
    let mut parts = release
        .split(['.', '-'])
        .map(|part| part.parse().unwrap_or(0));
    [parts.next().unwrap_or(0), parts.next().unwrap_or(0)]
}

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn kernels_before_6_1_are_too_old() {
        for (release, state) in [
            ("6.1.0-32-cloud-amd64", State::Good),
            ("6.18.44-fc-v657", State::Good),
            ("10.0.0", State::Good),
            ("6.0.19", State::Bad),
            ("5.15.0-91-generic", State::Bad),
            ("", State::Bad),
        ] {
            assert_eq!(version(release).state, state, "{release}");
        }
    }

    #[test]
    fn a_missing_capability_is_named() {
        let good = capabilities("Name:\tx\nCapEff:\t000001fffeffffff\n");
        assert_eq!(good.state, State::Good);
        let lacking = capabilities("CapEff:\t0000008000001000\n");
        assert_eq!(lacking.state, State::Bad);
        assert!(
            lacking.found.starts_with("CAP_SYS_ADMIN missing"),
            "{}",
            lacking.found
        );
        assert_eq!(capabilities("").state, State::Bad);
    }

    #[test]
    fn only_a_bpf_file_system_on_its_place_counts() {
        assert_eq!(
            bpffs("bpf /sys/fs/bpf bpf rw,mode=700 0 0").state,
            State::Good
        );
        assert_eq!(
            bpffs("bpf /run/bpf bpf rw 0 0\ntmpfs /sys/fs/bpf tmpfs rw 0 0").state,
            State::Bad
        );
    }

    #[test]
    fn memlock_counts_on_old_kernels_only() {
        let limits = "Limit  Soft  Hard\nMax locked memory         8388608   8388608   bytes\n";
        assert_eq!(memlock(limits, "6.1.0").state, State::Good);
        assert_eq!(memlock(limits, "5.10.0").state, State::Bad);
        let limits = "Max locked memory         unlimited   unlimited   bytes\n";
        assert_eq!(memlock(limits, "5.10.0").state, State::Good);
    }

    #[test]
    fn an_absent_btf_is_bad() {
        assert_eq!(btf(Path::new("/nowhere/vmlinux")).state, State::Bad);
    }

    #[test]
    fn a_kernel_that_cannot_free_sockets_is_worth_a_note() {
        let state = |options| socket_destroy(options).state;
        assert_eq!(
            state("CONFIG_A=y\nCONFIG_INET_DIAG_DESTROY=y\n"),
            State::Good
        );
        assert_eq!(
            state("# CONFIG_INET_DIAG_DESTROY is not set\n"),
            State::Optional
        );
        assert_eq!(state(""), State::Optional);
    }

    #[test]
    fn an_interpreter_is_worth_a_note() {
        assert_eq!(jit("1").state, State::Good);
        assert_eq!(jit("0").state, State::Optional);
    }
}
