//! From events to the server: batches, the spool on disk, the lumberjack client.

pub mod batch;
pub mod entry;
pub mod lumberjack;
pub mod reader;
pub mod shared;
pub mod spool;
