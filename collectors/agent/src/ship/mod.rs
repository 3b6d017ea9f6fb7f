//! From events to the server: batches, the spool on disk, the lumberjack client.

pub mod acks;
pub mod batch;
mod certificates;
pub mod connect;
pub mod entry;
pub mod lumberjack;
pub mod overflow;
pub mod reader;
pub mod recovery;
pub mod shared;
pub mod spool;
mod spool_dir;
mod tls;
mod writer;
