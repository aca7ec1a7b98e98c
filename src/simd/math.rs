//! Vectorisable element functions.
