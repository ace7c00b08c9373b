//! Folders and files of the user that somebody else can write.
