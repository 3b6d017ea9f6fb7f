//! `lustre_ost` as fixtures say.

use super::*;
use crate::sources::samples::golden;

#[test]
fn fixtures_are_read_as_they_say() {
    golden::check("lustre_ost", |config| {
        Box::new(Ost::new(&Params::new(config)))
    });
}
