//! Looks at each part and asks it what it is.

use super::{Examination, LlvmVersion, Missing, Toolchain, Versions, Way};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where to look.
#[derive(Clone, Debug)]
pub struct Search {
    /// Prefix of Debian's compiler: `/usr`.
    pub debian_prefix: PathBuf,
    /// Whether this system has Debian's packages, so that fixes name them.
    pub is_debian: bool,
    /// The `rustup` command, when there is one.
    pub rustup: Option<PathBuf>,
    /// Directories to look for bpf-linker in, in order.
    pub linker_dirs: Vec<PathBuf>,
}

impl Search {
    /// The usual places: `/usr`, `rustup` and bpf-linker on the `PATH`, cargo's bin directory.
    #[must_use]
    pub fn from_env() -> Self {
        let mut linker_dirs: Vec<PathBuf> =
            std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
        let rustup = linker_dirs
            .iter()
            .map(|dir| dir.join("rustup"))
            .find(|p| p.is_file());
        let cargo_home = std::env::var_os("CARGO_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
        linker_dirs.extend(cargo_home.map(|home| home.join("bin")));
        Self {
            debian_prefix: "/usr".into(),
            is_debian: Path::new("/etc/debian_version").exists(),
            rustup,
            linker_dirs,
        }
    }

    /// Looks at every part.
    #[must_use]
    pub fn examine(&self) -> Examination {
        let debian = self.examine_way(Way::Debian);
        if debian.toolchain.is_some() {
            return debian;
        }
        let rustup = self.examine_way(Way::Rustup);
        if rustup.toolchain.is_some() || !self.is_debian {
            rustup
        } else {
            debian
        }
    }

    fn examine_way(&self, way: Way) -> Examination {
        let compiler = self.compiler(way);
        let llvm = compiler.as_ref().ok().map(|found| found.llvm);
        let linker = self.linker(llvm, way);
        let core = compiler.as_ref().ok().map(|found| found.core(way));
        let agreed = match (&compiler, &linker) {
            (Ok(compiler), Ok(linker)) => Some(linker.agrees(compiler.llvm, way)),
            _ => None,
        };
        let toolchain = match (&compiler, &core, &linker, &agreed) {
            (Ok(compiler), Some(Ok(_)), Ok(linker), Some(Ok(_))) => Some(Toolchain {
                way,
                rustc: compiler.rustc.clone(),
                cargo: compiler.cargo.clone(),
                sysroot: compiler.sysroot.clone(),
                linker: linker.path.clone(),
                versions: Versions {
                    rustc: compiler.release.clone(),
                    rustc_commit: compiler.commit.clone(),
                    llvm: compiler.llvm.to_string(),
                    bpf_linker: linker.release.clone(),
                    core: way.core().into(),
                },
            }),
            _ => None,
        };
        Examination {
            way,
            compiler: compiler.map(|found| found.describe()),
            core,
            linker: linker.map(|found| found.describe()),
            llvm: agreed,
            compiler_llvm: llvm,
            toolchain,
        }
    }

    fn compiler(&self, way: Way) -> Result<Compiler, Missing> {
        let debian = self.debian_prefix.join("bin/rustc");
        let rustc = match way {
            Way::Debian => Some(debian.clone()).filter(|rustc| rustc.is_file()),
            Way::Rustup => self.rustup.as_deref().and_then(nightly_rustc),
        }
        .ok_or(Missing::Compiler { debian, way })?;
        let cargo = rustc.with_file_name("cargo");
        if !cargo.is_file() {
            return Err(Missing::Cargo { rustc, cargo, way });
        }
        let unreadable = |said: String| Missing::CompilerUnreadable {
            rustc: rustc.clone(),
            said,
            way,
        };
        let said = output(&rustc, ["-vV"]).map_err(unreadable)?;
        let field = |name: &str| {
            said.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                .map(str::trim)
        };
        let (Some(release), Some(llvm)) = (
            field("release"),
            field("LLVM version").and_then(LlvmVersion::parse),
        ) else {
            return Err(unreadable(one_line(&said)));
        };
        let sysroot = output(&rustc, ["--print", "sysroot"]).map_err(unreadable)?;
        Ok(Compiler {
            release: release.into(),
            commit: field("commit-hash").unwrap_or("unknown").into(),
            llvm,
            sysroot: sysroot.trim().into(),
            cargo,
            rustc,
        })
    }

    fn linker(&self, llvm: Option<LlvmVersion>, way: Way) -> Result<Linker, Missing> {
        let path = self
            .linker_dirs
            .iter()
            .map(|dir| dir.join("bpf-linker"))
            .find(|path| path.is_file())
            .ok_or(Missing::Linker { llvm, way })?;
        let unreadable = |said: String| Missing::LinkerUnreadable {
            linker: path.clone(),
            said,
            llvm,
            way,
        };
        let version = output(&path, ["--version"]).map_err(unreadable)?;
        let release = version
            .trim()
            .strip_prefix("bpf-linker ")
            .map(str::to_owned);
        // bpf-linker's own --version does not name its LLVM, but LLVM's command-line parser
        // answers --version before anything is read or written: the word of the very library
        // that it runs with, whether linked statically or not.
        let said = output(
            &path,
            [
                "--llvm-args=--version",
                "--output",
                "/dev/null",
                "/dev/null",
            ],
        )
        .map_err(unreadable)?;
        let linker_llvm = said
            .lines()
            .find_map(|line| LlvmVersion::parse(line.split_once("LLVM version ")?.1));
        match (release, linker_llvm) {
            (Some(release), Some(llvm)) => Ok(Linker {
                path,
                release,
                llvm,
            }),
            _ => Err(unreadable(one_line(&format!("{version} {said}")))),
        }
    }
}

struct Compiler {
    rustc: PathBuf,
    cargo: PathBuf,
    sysroot: PathBuf,
    release: String,
    commit: String,
    llvm: LlvmVersion,
}

impl Compiler {
    fn describe(&self) -> String {
        format!(
            "rustc {} ({}), LLVM {}",
            self.release,
            self.rustc.display(),
            self.llvm
        )
    }

    fn core(&self, way: Way) -> Result<String, Missing> {
        let rustlib = self.sysroot.join("lib/rustlib");
        let (looked_in, found) = match way {
            Way::Debian => {
                let lib = rustlib.join(crate::TARGET).join("lib");
                let found = std::fs::read_dir(&lib).is_ok_and(|files| {
                    files.flatten().any(|file| {
                        let name = file.file_name().to_string_lossy().into_owned();
                        name.starts_with("libcore-") && name.ends_with(".rlib")
                    })
                });
                (lib, found)
            }
            Way::Rustup => {
                let library = rustlib.join("src/rust/library");
                let found = library.join("core/src/lib.rs").is_file();
                (library, found)
            }
        };
        if found {
            Ok(format!("{} ({})", way.core(), looked_in.display()))
        } else {
            Err(Missing::Core {
                rustc: self.rustc.clone(),
                looked_in,
                way,
            })
        }
    }
}

struct Linker {
    path: PathBuf,
    release: String,
    llvm: LlvmVersion,
}

impl Linker {
    fn describe(&self) -> String {
        format!(
            "bpf-linker {} ({}), LLVM {}",
            self.release,
            self.path.display(),
            self.llvm
        )
    }

    fn agrees(&self, llvm: LlvmVersion, way: Way) -> Result<String, Missing> {
        if self.llvm == llvm {
            Ok(format!("LLVM {llvm} in both"))
        } else {
            Err(Missing::LlvmMismatch {
                linker: self.path.clone(),
                linker_llvm: self.llvm,
                llvm,
                way,
            })
        }
    }
}

/// The nightly's own rustc. Asked of rustup without letting it install anything.
fn nightly_rustc(rustup: &Path) -> Option<PathBuf> {
    let said = Command::new(rustup)
        .args(["which", "--toolchain", "nightly", "rustc"])
        .env("RUSTUP_AUTO_INSTALL", "0")
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let path = PathBuf::from(String::from_utf8(said.stdout).ok()?.trim());
    path.is_file().then_some(path)
}

/// What a command says on both streams, or why it failed, as one line.
fn output<S: AsRef<OsStr>, const N: usize>(program: &Path, args: [S; N]) -> Result<String, String> {
    let output = Command::new(program)
        .args(args)
        .output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() {
        Ok(said)
    } else {
        Err(format!("{}: {}", output.status, one_line(&said)))
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(200)
        .collect()
}
