//! Crashes, editors, and files that are none.

use super::*;

#[test]
fn a_torn_last_line_is_waited_for_and_mended_by_the_next_writer() {
    let mut bench = Bench::new(&["a"]);
    let whole = bench.text();
    bench.append_raw(r#"{"revoke":"0011"#);
    assert_eq!(bench.follow().unwrap(), Found::Nothing);
    assert_eq!(writer::list(&bench.path()).unwrap().len(), 1);
    bench.write(&[put("b")]);
    assert!(bench.text().starts_with(&whole));
    assert!(!bench.text().contains("0011"));
    assert_eq!(bench.follow().unwrap(), Found::Appended(1));
    assert_eq!(bench.names(), "a b");
}

#[test]
fn a_whole_last_line_without_its_newline_is_kept_by_the_next_writer() {
    let mut bench = Bench::new(&["a"]);
    bench.append_raw(&format!(r#"{{"revoke":"{}"}}"#, id("a")));
    assert_eq!(bench.follow().unwrap(), Found::Nothing, "not finished yet");
    bench.write(&[put("b")]);
    assert_eq!(bench.follow().unwrap(), Found::Appended(2));
    assert_eq!(bench.names(), "a! b");
}

#[test]
fn a_crash_at_any_byte_of_an_append_loses_only_that_record() {
    let mut text = Default::default();
    put("b").write(&mut text);
    for cut in 0..text.len() {
        let mut bench = Bench::new(&["a"]);
        bench.append_raw(std::str::from_utf8(&text[..cut]).unwrap());
        assert_eq!(bench.follow().unwrap(), Found::Nothing, "cut at {cut}");
        bench.write(&[put("c")]);
        bench.follow().unwrap();
        // All but the newline is a whole record.
        let expected = if cut == text.len() - 1 {
            "a b c"
        } else {
            "a c"
        };
        assert_eq!(bench.names(), expected, "cut at {cut}");
    }
}

#[test]
fn a_batch_with_a_bad_line_is_refused_whole_until_the_file_is_mended() {
    let mut bench = Bench::new(&["a"]);
    let good = bench.text();
    bench.append_raw("{\"remove\":\"");
    bench.append_raw(&format!("{}\"}}\nnonsense\n", id("a")));
    let error = bench.follow().unwrap_err().to_string();
    let place = format!("{}:4: the line is no JSON", bench.path().display());
    assert!(error.starts_with(&place), "{error}");
    assert_eq!(bench.names(), "a", "the removal came in the same batch");
    assert_eq!(
        bench.follow().unwrap(),
        Found::Nothing,
        "not tried again unchanged"
    );
    bench.append_raw("{}\n");
    assert!(bench.follow().is_err(), "still there");
    // Mended by a new file.
    let mended = bench.directory.path().join("mended");
    fs::write(&mended, good).unwrap();
    fs::set_permissions(&mended, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&mended, bench.path()).unwrap();
    assert_eq!(bench.follow().unwrap(), Found::Replaced(1));
    bench.write(&[put("b")]);
    assert_eq!(bench.follow().unwrap(), Found::Appended(1));
    assert_eq!(bench.names(), "a b");
}

#[test]
fn a_bad_line_mended_in_place_is_read_when_the_file_is_quiet() {
    let mut bench = Bench::new(&["a"]);
    let good = bench.text();
    bench.append_raw("nonsense\n");
    assert!(bench.follow().is_err());
    let mut text = Default::default();
    put("b").write(&mut text);
    fs::write(bench.path(), good + std::str::from_utf8(&text).unwrap()).unwrap();
    bench.follow_until_quiet().unwrap();
    assert_eq!(bench.names(), "a b");
}

#[test]
fn a_file_that_is_being_rewritten_in_place_does_not_lose_keys_meanwhile() {
    let mut bench = Bench::new(&["a", "b"]);
    let text = bench.text();
    let half = text.match_indices('\n').nth(1).unwrap().0 + 1;
    fs::write(bench.path(), &text[..half]).unwrap();
    assert_eq!(bench.follow().unwrap(), Found::Nothing);
    assert_eq!(bench.names(), "a b");
    bench.append_raw(&text[half..]);
    bench.append_raw("\n");
    assert!(
        bench.follow_until_quiet().is_err(),
        "an empty line is no record"
    );
    assert_eq!(bench.names(), "a b");
}

#[test]
fn a_file_that_grew_by_being_rewritten_is_not_taken_for_one_that_was_appended_to() {
    let mut bench = Bench::new(&["a", "b"]);
    let header = bench.text().lines().next().unwrap().to_owned();
    // Lines of one length, so that the old end is the end of a line in the new text too.
    let mut text = zeroize::Zeroizing::new(header.into_bytes());
    text.push(b'\n');
    for name in ["a", "c", "d"] {
        put(name).write(&mut text);
    }
    fs::write(bench.path(), &text).unwrap();
    assert_eq!(bench.follow_until_quiet().unwrap(), Found::Replaced(3));
    assert_eq!(bench.names(), "a c d");
}

#[test]
fn a_vanished_store_is_an_error_and_its_return_is_read() {
    let mut bench = Bench::new(&["a"]);
    let away = bench.directory.path().join("away");
    fs::rename(bench.path(), &away).unwrap();
    assert!(matches!(bench.follow(), Err(Error::Missing(_))));
    assert_eq!(bench.names(), "a");
    fs::rename(&away, bench.path()).unwrap();
    assert_eq!(bench.follow_until_quiet().unwrap(), Found::Replaced(1));
}

#[test]
fn files_that_are_no_store_are_refused() {
    for text in [
        "",
        "\n",
        "{\"edge-key-store\":2}\n",
        "x\n",
        "{\"edge-key-store\":1}",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys.journal");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let error = Follower::new(&path, "demo")
            .follow(&Keyring::new(1))
            .unwrap_err();
        assert!(
            matches!(error, Error::Line { line: 1, .. }),
            "{text:?}: {error}"
        );
        assert!(Writer::open(&path).is_err(), "{text:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "untouched");
    }
}
