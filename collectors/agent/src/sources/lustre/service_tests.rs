//! `lustre_service` as fixtures say.

use super::*;
use crate::sources::samples::golden;

#[test]
fn fixtures_are_read_as_they_say() {
    golden::check("lustre_service", |config| {
        Box::new(Service::new(&Params::new(config)))
    });
}
