//! Block devices: which are told, and what of them.

use super::*;
use crate::sources::samples::golden;

#[test]
fn fixtures_are_read_as_they_say() {
    golden::check("block_device", |config| Box::new(BlockDevice::new(config)));
}
