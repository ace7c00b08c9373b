//! Job files that try to upload other files of the machine.
