//! `lustre_osc` as fixtures say.

use super::*;
use crate::sources::samples::golden;

#[test]
fn fixtures_are_read_as_they_say() {
    golden::check_members("lustre_osc", |config| {
        Box::new(Osc::new(&Params::new(config)))
    });
}
