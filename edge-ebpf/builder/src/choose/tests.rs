//! The order, and that nothing stale is ever taken.

use super::*;
use crate::{Versions, Way, test_workspace as fixture};

fn toolchain(release: &str) -> Toolchain {
    Toolchain {
        way: Way::Debian,
        rustc: "/nowhere/rustc".into(),
        cargo: "/nowhere/cargo".into(),
        sysroot: "/nowhere".into(),
        linker: "/nowhere/bpf-linker".into(),
        versions: Versions {
            rustc: release.into(),
            rustc_commit: "ac68faa20c58cbcc".into(),
            llvm: "22.1.8".into(),
            bpf_linker: "0.13.0".into(),
            core: "precompiled".into(),
        },
    }
}

fn missing() -> Result<Toolchain, Vec<Missing>> {
    Err(vec![Missing::Linker {
        llvm: None,
        way: Way::Debian,
    }])
}

/// A workspace whose prebuilt object, `section` by name, was made by rustc 1.96.0.
fn with_prebuilt(section: &str) -> tempfile::TempDir {
    let workspace = fixture::workspace();
    let object = fixture::object(section);
    let sources = Sources::read(workspace.path()).unwrap().sha256;
    let provenance = Provenance::new(&object, &sources, &toolchain("1.96.0").versions);
    Prebuilt { object, provenance }
        .write(workspace.path())
        .unwrap();
    workspace
}

fn edit_source(workspace: &Path) {
    std::fs::write(workspace.join("edge-ebpf/src/main.rs"), "// edited").unwrap();
}

fn never(_: &Toolchain) -> Result<Vec<u8>, BuildError> {
    panic!("no fresh build was called for")
}

fn fresh(_: &Toolchain) -> Result<Vec<u8>, BuildError> {
    Ok(fixture::object("fresh"))
}

#[test]
fn a_named_object_comes_before_everything() {
    let workspace = with_prebuilt("prebuilt");
    let path = workspace.path().join("named.o");
    fixture::write(&path, &fixture::object("named"));
    let wishes = Wishes {
        object: Some(path.clone()),
        prebuilt_only: true,
    };
    let choice = choose_with(workspace.path(), &wishes, Ok(toolchain("1.96.0")), never).unwrap();
    assert_eq!(
        (choice.origin, choice.object),
        (Origin::Given, fixture::object("named"))
    );
    assert_eq!(choice.watch, [path]);
}

#[test]
fn a_named_file_that_is_no_object_is_refused() {
    let workspace = with_prebuilt("prebuilt");
    let path = workspace.path().join("Cargo.toml");
    for object in [path, workspace.path().join("absent.o")] {
        let wishes = Wishes {
            object: Some(object.clone()),
            prebuilt_only: false,
        };
        let error = choose_with(workspace.path(), &wishes, missing(), never).unwrap_err();
        assert!(
            matches!(&error, ChooseError::Given { path, .. } if *path == object),
            "{error}"
        );
    }
}

#[test]
fn a_complete_toolchain_builds_afresh() {
    let workspace = with_prebuilt("prebuilt");
    edit_source(workspace.path());
    let choice = choose_with(
        workspace.path(),
        &Wishes::default(),
        Ok(toolchain("1.96.0")),
        fresh,
    )
    .unwrap();
    assert_eq!(
        (choice.origin, choice.object),
        (Origin::Fresh, fixture::object("fresh"))
    );
    assert!(
        choice.provenance.starts_with("fresh, object "),
        "{}",
        choice.provenance
    );
}

#[test]
fn other_tools_build_afresh_though_the_sources_are_the_same() {
    let workspace = with_prebuilt("prebuilt");
    let choice = choose_with(
        workspace.path(),
        &Wishes::default(),
        Ok(toolchain("1.97.0")),
        fresh,
    )
    .unwrap();
    assert_eq!(choice.origin, Origin::Fresh);
}

#[test]
fn the_prebuilt_stands_in_for_what_would_come_out_the_same() {
    let workspace = with_prebuilt("prebuilt");
    let choice = choose_with(
        workspace.path(),
        &Wishes::default(),
        Ok(toolchain("1.96.0")),
        never,
    )
    .unwrap();
    assert_eq!(
        (choice.origin, choice.object),
        (Origin::Prebuilt, fixture::object("prebuilt"))
    );
    for file in [
        "edge-ebpf/prebuilt/edge-ebpf.o",
        "edge-common/src",
        "Cargo.lock",
    ] {
        assert!(
            choice.watch.contains(&workspace.path().join(file)),
            "{file}"
        );
    }
    assert!(
        choice.watch.iter().all(|path| path.exists()),
        "{:?}",
        choice.watch
    );
}

#[test]
fn the_prebuilt_of_these_sources_serves_without_a_toolchain() {
    let workspace = with_prebuilt("prebuilt");
    for (wishes, found) in [
        (Wishes::default(), missing()),
        (
            Wishes {
                object: None,
                prebuilt_only: true,
            },
            Ok(toolchain("1.97.0")),
        ),
    ] {
        let choice = choose_with(workspace.path(), &wishes, found, never).unwrap();
        assert_eq!(choice.origin, Origin::Prebuilt);
        assert!(
            choice.provenance.contains("rustc 1.96.0 (ac68faa20)"),
            "{}",
            choice.provenance
        );
    }
}

#[test]
fn a_stale_object_is_never_taken() {
    let workspace = with_prebuilt("prebuilt");
    edit_source(workspace.path());
    let error = choose_with(workspace.path(), &Wishes::default(), missing(), never).unwrap_err();
    assert!(matches!(error, ChooseError::Stale { .. }), "{error}");
    let said = error.to_string();
    for part in [
        "stale",
        "bpf-linker",
        "cargo xtask setup",
        "cargo xtask build-ebpf",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let wishes = Wishes {
        object: None,
        prebuilt_only: true,
    };
    let error = choose_with(workspace.path(), &wishes, Ok(toolchain("1.96.0")), never);
    assert!(matches!(error, Err(ChooseError::Stale { .. })));
}

#[test]
fn an_altered_or_absent_object_is_never_taken() {
    let workspace = with_prebuilt("prebuilt");
    let path = Prebuilt::object_path(workspace.path());
    std::fs::write(&path, fixture::object("altered")).unwrap();
    let take = || choose_with(workspace.path(), &Wishes::default(), missing(), never);
    assert!(matches!(
        take(),
        Err(ChooseError::Nothing {
            prebuilt: PrebuiltError::Altered { .. },
            ..
        })
    ));
    std::fs::remove_file(&path).unwrap();
    let said = take().unwrap_err().to_string();
    assert!(
        said.contains("edge-ebpf.o") && said.contains("cargo xtask setup"),
        "{said}"
    );
}

#[test]
fn a_build_that_fails_is_an_error_and_names_the_way_round() {
    let workspace = with_prebuilt("prebuilt");
    let fail = |_: &Toolchain| {
        Err(BuildError::Start {
            cargo: "/nowhere/cargo".into(),
            error: std::io::Error::from(std::io::ErrorKind::NotFound),
        })
    };
    let attempt = |release| {
        choose_with(
            workspace.path(),
            &Wishes::default(),
            Ok(toolchain(release)),
            fail,
        )
        .unwrap_err()
        .to_string()
    };
    assert!(attempt("1.97.0").contains("EDGE_EBPF_PREBUILT=1"));
    edit_source(workspace.path());
    assert!(!attempt("1.96.0").contains("EDGE_EBPF_PREBUILT"));
}
