//! The members of the workspace, as Cargo sees them.

use std::path::Path;

use serde_json::Value;

/// A member.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its manifest, relative to the root.
    pub(crate) manifest: String,
    /// What it depends on.
    pub(crate) dependencies: Vec<Dependency>,
    /// Root files of its libraries and programs, relative to the workspace root.
    pub(crate) roots: Vec<String>,
}

/// A dependency of a member, by its package name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// The package that is depended on.
    pub(crate) name: String,
    /// What for.
    pub(crate) kind: Kind,
}

/// What a dependency is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The product itself.
    Normal,
    /// Tests only.
    Dev,
    /// Build scripts.
    Build,
}

impl Package {
    /// Asks Cargo for the members. Reads manifests only: nothing is resolved or downloaded.
    pub(crate) fn read_all(root: &Path) -> Result<Vec<Package>, String> {
        let output = crate::cargo(root)
            .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
            .output()
            .map_err(|error| format!("cannot run cargo: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("cargo metadata failed: {}", said.trim()));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("cargo metadata printed no JSON: {error}"))?;
        let base = format!("{}/", text(&metadata["workspace_root"]));
        Ok(array(&metadata["packages"]).map(|package| Package::from(package, &base)).collect())
    }

    fn from(package: &Value, base: &str) -> Package {
        let relative = |path: &Value| text(path).trim_start_matches(base).to_string();
        let is_root = |target: &&Value| {
            array(&target["kind"]).any(|kind| matches!(text(kind), "lib" | "bin" | "proc-macro"))
        };
        Package {
            name: text(&package["name"]).to_string(),
            manifest: relative(&package["manifest_path"]),
            dependencies: array(&package["dependencies"]).map(Dependency::from).collect(),
            roots: array(&package["targets"])
                .filter(is_root)
                .map(|target| relative(&target["src_path"]))
                .collect(),
        }
    }
}

impl From<&Value> for Dependency {
    fn from(dependency: &Value) -> Dependency {
        let kind = match text(&dependency["kind"]) {
            "dev" => Kind::Dev,
            "build" => Kind::Build,
            _ => Kind::Normal,
        };
        Dependency { name: text(&dependency["name"]).to_string(), kind }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn array(value: &Value) -> std::slice::Iter<'_, Value> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}
