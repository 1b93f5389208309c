//! HorizontalPodAutoscaler: its two versions.

pub mod conversion;
