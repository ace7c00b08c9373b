//! Names that a shell would execute, completed in real shells.
