//! Archives of a hostile container that `cp` unpacks.
