//! The machine as a whole.

use super::*;
use crate::sources::samples::golden;

#[test]
fn fixtures_are_read_as_they_say() {
    golden::check("node", |config| Box::new(Node::new(config)));
}
