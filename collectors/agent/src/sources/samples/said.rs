//! What is new about how a source's looks go is said, and only that.

use super::reading::Found;
use super::LOOK_AGAIN;
use crate::{info, log};

/// How the last look went, as far as it was said.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Said {
    #[default]
    Nothing,
    Absent,
    Failing,
}

impl Said {
    /// `is_empty`: the look found nothing; `place`: where it looked.
    pub fn say(
        &mut self,
        component: &'static str,
        place: impl Fn() -> String,
        found: &Found,
        is_empty: bool,
    ) {
        let before = *self;
        *self = match &found.first_error {
            Some(_) => Said::Failing,
            None if is_empty => Said::Absent,
            None => Said::Nothing,
        };
        match (&found.first_error, before == *self) {
            (_, true) => {}
            (Some(error), false) => {
                let more = match found.errors {
                    1 => String::new(),
                    n => format!(" (and {} more)", n - 1),
                };
                log::line(
                    "warning",
                    component,
                    format_args!("{component}: {error}{more}; what can be told is told, and it is tried again"),
                )
            }
            (None, false) if *self == Said::Absent => info!(
                "no component",
                "{component}: nothing there ({}); looked for again every {} s",
                place(),
                LOOK_AGAIN.as_secs()
            ),
            (None, false) => info!("component", "{component}: read without a fault"),
        }
    }
}
