//! `gpuctl man`: prints manual pages, generated from the help texts and the exit codes in
//! `error.rs`.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_mangen::Man as Page;
use clap_mangen::roff::{Roff, roman};

use crate::cli::Cli;
use crate::cli::program::man::Man;
use crate::context::Context;
use gpuctl_core::error::{self, Error, ErrorName};
use gpuctl_local::files;

/// Generates all pages as pairs of file name and content.
pub(crate) fn pages() -> std::io::Result<Vec<(String, String)>> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add("gpuctl", &command, &mut pages)?;
    Ok(pages)
}

fn add(
    name: &str,
    command: &clap::Command,
    pages: &mut Vec<(String, String)>,
) -> std::io::Result<()> {
    let page = Page::new(command.clone().name(name.to_owned()).display_name(name))
        .title(name)
        .date("");
    let mut text = Vec::new();
    page.render(&mut text)?;
    if pages.is_empty() {
        exit_codes().to_writer(&mut text)?;
    }
    pages.push((
        format!("{name}.1"),
        String::from_utf8_lossy(&text).into_owned(),
    ));
    for subcommand in command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set() && subcommand.get_name() != "help")
    {
        add(
            &format!("{name}-{}", subcommand.get_name()),
            subcommand,
            pages,
        )?;
    }
    Ok(())
}

fn exit_codes() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for (code, sentence) in error::exit_codes() {
        roff.control("TP", []);
        roff.text([roman(code.to_string())]);
        roff.text([roman(sentence)]);
    }
    roff
}

pub(crate) async fn run(args: &Man, context: &Context) -> Result<ExitCode, Error> {
    let write_error = |error: std::io::Error| {
        Error::new(ErrorName::ManFailed, "cannot write the manual pages").cause(error.to_string())
    };
    let pages = pages().map_err(write_error)?;
    match &args.dir {
        None => context.terminal.print(&pages[0].1)?,
        Some(dir) => {
            for (name, text) in &pages {
                let result =
                    files::replace(&dir.join(name), text.as_bytes(), files::Purpose::Public);
                result.map_err(|error| Error::new(ErrorName::ManFailed, error))?;
            }
            context.terminal.note(&format!(
                "{} pages written to {}",
                pages.len(),
                dir.display()
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}
