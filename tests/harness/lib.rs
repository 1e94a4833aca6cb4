//! Tools of the tests.
