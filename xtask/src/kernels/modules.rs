//! The kernel modules that a guest loads, and the order that their dependencies ask for.
//! Debian's packages hold no `modules.dep`, so each module is asked itself.

use super::run;
use anyhow::Context as _;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the tests use; what a kernel has built in, or lacks, is not there to be loaded.
const WANTED: [&str; 5] = ["veth", "sch_netem", "8021q", "tcp_diag", "dummy"];

/// Copies the wanted modules and what they depend on into `target`, and tells their names in
/// the order of loading.
pub(super) fn gather(modules: &Path, target: &Path) -> anyhow::Result<Vec<String>> {
    let mut there = BTreeMap::new();
    list(&modules.join("kernel"), &mut there);
    let mut order = Vec::new();
    for wanted in WANTED {
        take(wanted, &there, target, &mut order)?;
    }
    Ok(order)
}

/// Every module below a folder, by the name that dependencies use.
fn list(folder: &Path, there: &mut BTreeMap<String, PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(&path, there);
        } else if let Some((name, _)) = entry.file_name().to_string_lossy().split_once(".ko") {
            there.insert(name.replace('-', "_"), path);
        }
    }
}

fn take(
    name: &str,
    there: &BTreeMap<String, PathBuf>,
    target: &Path,
    order: &mut Vec<String>,
) -> anyhow::Result<()> {
    let Some(path) = there.get(name) else {
        return Ok(());
    };
    if order.iter().any(|taken| taken == name) {
        return Ok(());
    }
    let copy = target.join(format!("{name}.ko"));
    unpack(path, &copy)?;
    for needed in depends(&fs::read(&copy)?) {
        take(&needed, there, target, order)?;
    }
    order.push(name.to_owned());
    Ok(())
}

/// A module as the kernel takes it, uncompressed.
fn unpack(module: &Path, copy: &Path) -> anyhow::Result<()> {
    let extension = module.extension().unwrap_or_default();
    let program = match extension.to_str() {
        Some("xz") => "xzcat",
        Some("zst") => "zstdcat",
        Some("gz") => "zcat",
        _ => {
            fs::copy(module, copy).with_context(|| module.display().to_string())?;
            return Ok(());
        }
    };
    // busybox has these but for zstd.
    let mut command = match super::which(program) {
        Some(program) => Command::new(program),
        None => {
            let mut busybox = Command::new("busybox");
            busybox.arg(program);
            busybox
        }
    };
    run(command.arg(module).stdout(fs::File::create(copy)?))
}

/// The modules that a module's `.modinfo` section names (kernel/module, MODULE_INFO).
fn depends(module: &[u8]) -> Vec<String> {
    const FIELD: &[u8] = b"\0depends=";
    let at = module.windows(FIELD.len()).position(|part| part == FIELD);
    let Some(at) = at else { return Vec::new() };
    let value = &module[at + FIELD.len()..];
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(0);
    let names = String::from_utf8_lossy(&value[..end]).into_owned();
    let names = names.split(',').filter(|name| !name.is_empty());
    names.map(|name| name.replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_names_what_it_depends_on() {
        let module = |value: &str| format!("ELF\0name=x\0depends={value}\0retpoline=Y\0");
        assert_eq!(depends(module("mrp,garp").as_bytes()), ["mrp", "garp"]);
        assert!(depends(module("").as_bytes()).is_empty());
        assert!(depends(b"no module").is_empty());
    }

    #[test]
    fn dependencies_come_first_and_what_is_not_there_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let net = folder.path().join("kernel/net");
        fs::create_dir_all(&net).unwrap();
        for (name, depends) in [("8021q", "mrp,garp"), ("garp", "mrp"), ("mrp", "")] {
            let module = format!("\0depends={depends}\0");
            fs::write(net.join(format!("{name}.ko")), module).unwrap();
        }
        let target = tempfile::tempdir().unwrap();
        let order = gather(folder.path(), target.path()).unwrap();
        assert_eq!(order, ["mrp", "garp", "8021q"]);
        assert!(target.path().join("garp.ko").exists());
    }
}
