//! Compilers, the BPF toolchain, the prebuilt object, and the programs that the demo and the
//! tests start.

use super::{Check, State};
use crate::cargo;
use crate::clients;
use crate::peers;
use crate::references;
use crate::tool::{CI_TOOLS, OPTIONAL_TOOLS, PEER_TOOLS, TOOLS, Tool};
use edge_ebpf_builder::{Missing, Prebuilt, Search, Sources};
use std::process::Command;

pub(super) fn checks() -> anyhow::Result<Vec<Check>> {
    let mut checks = vec![host_compiler()?];
    checks.extend(TOOLS.iter().map(required));
    checks.extend(bpf_toolchain());
    checks.push(prebuilt());
    let optional_tools = CI_TOOLS.iter().chain(&OPTIONAL_TOOLS).chain(&PEER_TOOLS);
    checks.extend(optional_tools.map(optional));
    checks.push(reference_tokenizers());
    checks.push(sdks());
    checks.push(gateways());
    Ok(checks)
}

fn gateways() -> Check {
    const NAME: &str = "proxies and gateways";
    match peers::found() {
        Ok(found) => Check::good(NAME, found),
        Err(why) => Check::optional(NAME, format!("{why}; {}", peers::PURPOSE), peers::FIX),
    }
}

fn sdks() -> Check {
    const NAME: &str = "official SDKs";
    match clients::found() {
        Ok(found) => Check::good(NAME, found),
        Err(why) => Check::optional(NAME, format!("{why}; {}", clients::PURPOSE), clients::FIX),
    }
}

fn reference_tokenizers() -> Check {
    const NAME: &str = "reference tokenizers";
    match references::found() {
        Ok(found) => Check::good(NAME, found),
        Err(why) => Check::optional(
            NAME,
            format!("{why}; {}", references::PURPOSE),
            references::FIX,
        ),
    }
}

fn host_compiler() -> anyhow::Result<Check> {
    const NAME: &str = "host compiler";
    const FIX: &str = "rustup update stable && rustup default stable";
    let metadata = cargo::metadata()?;
    let needed = metadata
        .packages
        .iter()
        .filter_map(|package| package.rust_version.as_deref());
    let needed = needed
        .max_by_key(|version| numbers(version))
        .unwrap_or("1.0");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = match Command::new(&rustc).arg("--version").output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Ok(Check::bad(NAME, said, FIX));
        }
        Err(error) => {
            return Ok(Check::bad(
                NAME,
                format!("{}: {error}", rustc.display()),
                FIX,
            ));
        }
    };
    let here = said.split_whitespace().nth(1).unwrap_or_default();
    Ok(if numbers(here) >= numbers(needed) {
        Check::good(NAME, format!("{said}; {needed} or newer is needed"))
    } else {
        Check::bad(NAME, format!("{said}, but {needed} is needed"), FIX)
    })
}

/// `1.89` and `1.95.0-nightly` as numbers that compare.
fn numbers(version: &str) -> [u32; 2] {
    let mut parts = version
        .split(['.', '-'])
        .map(|part| part.parse().unwrap_or(0));
    [parts.next().unwrap_or(0), parts.next().unwrap_or(0)]
}

fn bpf_toolchain() -> Vec<Check> {
    let found = Search::from_env().examine();
    let check = |name: &'static str, part: Option<Result<String, Missing>>| match part {
        Some(Ok(found)) => Check::good(name, found),
        Some(Err(missing)) => Check::bad(name, missing.to_string(), missing.fix()),
        None => Check::unchecked(name, "a part before it is missing"),
    };
    vec![
        check("BPF compiler", Some(found.compiler)),
        check("core for BPF", found.core),
        check("BPF linker", Some(found.linker)),
        check("LLVM match", found.llvm),
    ]
}

fn prebuilt() -> Check {
    const NAME: &str = "prebuilt object";
    const FIX: &str = "cargo xtask build-ebpf";
    let workspace = crate::workspace();
    match (Sources::read(&workspace), Prebuilt::read(&workspace)) {
        (Err(error), _) => Check::bad(NAME, error.to_string(), "cargo metadata --format-version 1"),
        (_, Err(error)) => Check::bad(NAME, error.to_string(), FIX),
        (Ok(sources), Ok(prebuilt)) if sources.sha256 == prebuilt.provenance.source_sha256 => {
            Check::good(
                NAME,
                format!("of these sources ({} bytes)", prebuilt.object.len()),
            )
        }
        // With the toolchain at hand the build script makes a fresh one.
        _ => Check::optional(NAME, "of other sources; builds make a fresh one", FIX),
    }
}

fn required(tool: &Tool) -> Check {
    match tool.version() {
        Ok(version) => Check::good(tool.name, version),
        Err(why) => Check::bad(tool.name, format!("{why}; {}", tool.purpose), tool.fix()),
    }
}

fn optional(tool: &Tool) -> Check {
    let check = required(tool);
    match check.state {
        State::Bad => Check {
            state: State::Optional,
            ..check
        },
        _ => check,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert!(numbers("1.95.0") > numbers("1.89"));
        assert!(numbers("1.100.0") > numbers("1.89"));
        assert!(numbers("1.89.0-nightly") >= numbers("1.89"));
        assert!(numbers("1.9.0") < numbers("1.89"));
        assert_eq!(numbers(""), [0, 0]);
    }
}
