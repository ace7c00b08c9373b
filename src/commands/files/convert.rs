//! `gpuctl convert`: translates job files of other tools, and reports what the translation omits.

use std::process::ExitCode;

use crate::cli::files::convert::Convert;
use crate::context::Context;
use crate::deploy::inputs;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_manifest::convert::{Converted, convert};
use gpuctl_manifest::spec;
use gpuctl_view::files::converted::ConvertedItem;
use gpuctl_view::{Format, document, yaml};

pub(crate) async fn run(args: &Convert, context: &Context) -> Result<ExitCode, Error> {
    let format = if args.output == "json" {
        Format::Json
    } else {
        Format::Table
    };
    context.terminal.set_format(format);
    let bytes = inputs::bytes(&args.file)?;
    let invalid = |message: String| Error::new(ErrorName::NotConvertible, message);
    let text = String::from_utf8(bytes)
        .map_err(|_| invalid(format!("`{}` is not a text file", args.file)))?;
    let found = convert(&text, args.image.as_deref()).map_err(|refused| {
        invalid(format!(
            "`{}` cannot be converted: {}",
            args.file, refused.message
        ))
        .hint(refused.hint)
    })?;
    for one in &found {
        one.omitted.iter().for_each(|lost| {
            context
                .terminal
                .warn(&format!("{}: not converted: {lost}", one.from));
        });
        // Report now what `create` would reject in the converted file later.
        match spec::parse(&one.from, &yaml(&one.document)) {
            Ok(_) => {}
            Err(problems) => problems.list.iter().for_each(|problem| {
                context.terminal.warn(&format!(
                    "{}: needs correction: {}",
                    one.from, problem.message
                ));
            }),
        }
    }
    let items: Vec<ConvertedItem<'_>> = found
        .iter()
        .map(
            |Converted {
                 from,
                 document,
                 lost,
             }| ConvertedItem {
                from,
                document,
                not_carried_over: lost,
            },
        )
        .collect();
    context
        .terminal
        .print(&document(format, &items).unwrap_or_else(|| as_yaml(&found)))?;
    Ok(ExitCode::SUCCESS)
}

fn as_yaml(found: &[Converted]) -> String {
    let one = |one: &Converted| {
        let mut text = format!("# from {}\n", one.from);
        one.omitted.iter().for_each(|lost| {
            text.push_str(&format!(
                "# not carried over: {}\n",
                lost.replace('\n', " ")
            ));
        });
        text + &yaml(&one.document)
    };
    found.iter().map(one).collect::<Vec<_>>().join("---\n")
}
