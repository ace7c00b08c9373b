//! Recognizes secrets in the names of variables and flags, in text, and in URLs. Masks, redaction
//! and warnings all use these rules, so that no output shows a secret that another output hides.

mod argument_secrets;
#[cfg(test)]
mod everyday_tests;
mod name_words;
mod pair;
mod program_table;
mod secret_fields;
mod secret_headers;
mod secret_names;
mod secret_pairs;
mod secret_shapes;
mod secret_text;
mod secret_tools;
mod secret_values;
mod shown_url;
#[cfg(test)]
mod tests;

pub use argument_secrets::argument_secrets;
pub use secret_names::{Announcement, NameStrength, is_secret_name, is_secret_value, strength_of};
pub use secret_text::{scrubbed, secret_spans};
pub use shown_url::{shown_error, shown_origin, shown_url};
