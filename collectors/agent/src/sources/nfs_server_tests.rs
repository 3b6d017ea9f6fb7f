//! The NFS server's figures.

use super::*;
use crate::sources::samples::golden;

#[test]
fn fixtures_are_read_as_they_say() {
    golden::check("nfs_server", |config| Box::new(NfsServer::new(config)));
}

#[test]
fn a_line_that_is_cut_or_comes_twice_is_an_error_and_the_rest_is_told() {
    for (text, values, errors) in [
        ("rc 1 2 3\nio 4 5\n", 5, 0),
        ("rc 1 2 3\nio 4\n", 3, 1),
        ("rc 1 2 3\nio 4 5", 3, 1),
        ("rc 1 2 3\nrc 1 2 3\nunknown x\n\n", 3, 1),
        ("proc3 3 1 2\nrc 1 2 3\n", 3, 1),
        ("proc3 2 1 2\n", 2, 0),
        ("proc4ops 4 0 0 0 9\nth 8 0 0.5\n", 2, 0),
        ("proc4ops 4 0 0 0 -9\n", 0, 1),
        ("", 0, 0),
    ] {
        let mut found = Found::default();
        parse(text.as_bytes(), "n1", &mut found);
        let count = found.readings.first().map_or(0, |r| r.values.len());
        assert_eq!((count, found.errors), (values, errors), "{text:?}");
    }
    let mut found = Found::default();
    parse(b"rc 1 2 3\nio 4", "n1", &mut found);
    let error = found.first_error.unwrap();
    assert!(
        error.contains("line 2") && error.contains("`io`") && error.contains("cat /proc"),
        "{error}"
    );
}
