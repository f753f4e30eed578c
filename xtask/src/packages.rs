//! Python and npm packages of others, in a folder of the build directory: nothing of the
//! system changes. Which ones, and in which versions, two lists of the workspace say.

use crate::ui;
use anyhow::{Context as _, bail};
use std::path::PathBuf;
use std::process::Command;

/// A Python environment `venv` and npm packages `npm` in one folder.
pub(crate) struct Packages {
    /// Where they are.
    pub(crate) folder: PathBuf,
    /// `name==version` on each line, if there are any of Python.
    pub(crate) requirements: Option<PathBuf>,
    /// With `dependencies` in single versions, if there are any of npm.
    pub(crate) package: Option<PathBuf>,
}

impl Packages {
    /// Installs what is not there in its version.
    ///
    /// # Errors
    /// What could not be brought, and by which command.
    pub(crate) fn install(&self) -> anyhow::Result<()> {
        let folder = &self.folder;
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        if let (Some(requirements), Err(why)) = (&self.requirements, self.python()) {
            ui::step(&format!(
                "Python packages into {} ({why})",
                folder.display()
            ));
            let venv = folder.join("venv");
            demand(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
            let pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"];
            let mut command = Command::new(venv.join("bin/python"));
            command.args(pip).args(["install", "--requirement"]);
            demand(command.arg(requirements))?;
        }
        if let (Some(package), Err(why)) = (&self.package, self.npm()) {
            ui::step(&format!("npm packages into {} ({why})", folder.display()));
            let npm = folder.join("npm");
            std::fs::create_dir_all(&npm)?;
            std::fs::copy(package, npm.join("package.json"))?;
            let quiet = ["install", "--no-audit", "--no-fund", "--ignore-scripts"];
            demand(Command::new("npm").args(quiet).current_dir(&npm))?;
        }
        Ok(())
    }

    /// What is there; or what is not.
    pub(crate) fn found(&self) -> Result<String, String> {
        let found = [self.python()?, self.npm()?];
        let found: Vec<_> = found.into_iter().filter(|list| !list.is_empty()).collect();
        Ok(found.join(", "))
    }

    /// The Python packages, if all are there as the list says.
    fn python(&self) -> Result<String, String> {
        let Some(path) = &self.requirements else {
            return Ok(String::new());
        };
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let wanted: Vec<_> = text
            .lines()
            .filter_map(|line| line.split_once("=="))
            // `name[extra]` asks for more than the package, whose name is what stands before.
            .map(|(name, version)| (name.split('[').next().unwrap_or(name), version))
            .collect();
        let script = "import sys, importlib.metadata as m\n\
            for name in sys.argv[1:]: print(m.version(name))";
        let names = wanted.iter().map(|(name, _)| name);
        let output = Command::new(self.folder.join("venv/bin/python"))
            .args(["-c", script])
            .args(names)
            .output()
            .map_err(|_| format!("no Python environment in {}", self.folder.display()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let found: Vec<_> = said.lines().collect();
        for (index, (name, version)) in wanted.iter().enumerate() {
            if found.get(index) != Some(version) {
                return Err(format!("{name} {version} is not installed for Python"));
            }
        }
        let all: Vec<_> = wanted.iter().map(|(n, v)| format!("{n} {v}")).collect();
        Ok(all.join(", "))
    }

    /// The npm packages, if all are there as the list says.
    fn npm(&self) -> Result<String, String> {
        let read = |path: &PathBuf| -> Result<serde_json::Value, String> {
            let text =
                std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
        };
        let Some(package) = &self.package else {
            return Ok(String::new());
        };
        let wanted = read(package)?;
        let wanted = wanted["dependencies"].as_object();
        let mut all = Vec::new();
        for (name, version) in wanted.into_iter().flatten() {
            let path = self.folder.join("npm/node_modules").join(name);
            let package = read(&path.join("package.json"))?;
            if package["version"] != *version {
                return Err(format!("{name} is not {version}"));
            }
            all.push(format!("{name} {}", version.as_str().unwrap_or_default()));
        }
        Ok(all.join(", "))
    }
}

/// Runs it; its failure is an error that names it.
pub(crate) fn demand(command: &mut Command) -> anyhow::Result<()> {
    let status = command
        .status()
        .with_context(|| format!("{:?}", command.get_program()))?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}
