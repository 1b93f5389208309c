//! Property tests of the collector as a whole.

mod model;
