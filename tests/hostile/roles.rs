//! Every command with exactly the role that `auth check --emit-role` prints, on a real API server.
