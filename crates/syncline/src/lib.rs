//! syncline.
