//! Files of more than 400 lines, which the narrower page of 100 columns brought to light. The list only
//! becomes shorter.

pub const LONG: &[&str] = &[];
