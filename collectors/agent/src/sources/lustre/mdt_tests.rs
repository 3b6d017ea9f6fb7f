//! `lustre_mdt` as fixtures say.

use super::*;
use crate::sources::samples::golden;

#[test]
fn fixtures_are_read_as_they_say() {
    golden::check("lustre_mdt", |config| {
        Box::new(Mdt::new(&Params::new(config)))
    });
}
