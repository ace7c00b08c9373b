//! The roles of persons: a viewer, a researcher and an operator.
