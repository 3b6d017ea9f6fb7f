//! `lustre_client` as fixtures say.

use super::*;
use crate::sources::samples::golden;

#[test]
fn fixtures_are_read_as_they_say() {
    golden::check("lustre_client", |config| {
        Box::new(Llite::new(&Params::new(config)))
    });
}
