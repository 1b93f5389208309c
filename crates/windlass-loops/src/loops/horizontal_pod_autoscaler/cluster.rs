//! The requests of the autoscaler: metrics, and the scales of targets.

mod evaluate;
mod metrics;
mod target;

pub(super) use self::{
    evaluate::Source,
    target::{Scale, resource},
};
