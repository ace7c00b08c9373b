//! Canary secrets in every input, searched for in every output.
