//! `gpuctl init`: prints or writes an example file.

use std::process::ExitCode;

use crate::cli::files::init::Init;
use crate::context::Context;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_local::files;
use gpuctl_manifest::spec::preset;
use gpuctl_view::files::starter::starter;

pub(crate) async fn run(args: &Init, context: &Context) -> Result<ExitCode, Error> {
    let preset = args
        .preset
        .as_deref()
        .and_then(preset::file)
        .map(ToOwned::to_owned);
    let text = preset.unwrap_or_else(|| starter(args.kind.as_deref().unwrap_or("training")));
    let Some(path) = &args.output else {
        context.terminal.print(&text)?;
        return Ok(ExitCode::SUCCESS);
    };
    let displayed_path = path.display();
    let written = match args.force {
        true => files::replace(path, text.as_bytes(), files::Purpose::Document).map(|()| true),
        // `false` means that the file exists. `init` never overwrites a file.
        false => files::create(path, text.as_bytes()),
    };
    if !written.map_err(|error| Error::new(ErrorName::FileNotWritten, error))? {
        let error = Error::new(
            ErrorName::AlreadyExists,
            format!("file `{displayed_path}` already exists"),
        );
        return Err(error.hint("choose another file, or use `--force` to overwrite this one"));
    }
    context.terminal.note(&format!(
        "wrote {displayed_path}; gpuctl validate -f {displayed_path}"
    ));
    Ok(ExitCode::SUCCESS)
}
