//! Servers and files that answer without end: every command stays within its limits of memory and time.
