//! Hostile messages to a running supervisor, and its ConfigMap after an interrupted or tampered submission.
