//! `gpuctl convert`: translates job files of other tools, and lists the parts that have no
//! translation.

use std::process::ExitCode;

use crate::cli::files::convert::Convert;
use crate::context::Context;
use crate::deploy::inputs;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_manifest::convert::{Converted, convert};
use gpuctl_manifest::spec;
use gpuctl_view::files::converted::{ConvertedItem, ConvertedList};
use gpuctl_view::{Format, document, yaml};

pub(crate) async fn run(args: &Convert, context: &Context) -> Result<ExitCode, Error> {
    let format = if args.output == "json" {
        Format::Json
    } else {
        Format::Table
    };
    context.terminal.set_format(format);
    let bytes = inputs::read_bytes(&args.file)?;
    let invalid = |message: String| Error::new(ErrorName::NotConvertible, message);
    let text = String::from_utf8(bytes)
        .map_err(|_| invalid(format!("`{}` is not a text file", args.file)))?;
    let converted = convert(&text, args.image.as_deref()).map_err(|refusal| {
        invalid(format!(
            "cannot convert `{}`: {}",
            args.file, refusal.message
        ))
        .hint(refusal.hint)
    })?;
    for item in &converted {
        item.omitted.iter().for_each(|lost| {
            context
                .terminal
                .warn(&format!("{}: not converted: {lost}", item.from));
        });
        // Report problems of the converted file here, before `create` reads it.
        match spec::parse(&item.from, &yaml(&item.document)) {
            Ok(_) => {}
            Err(problems) => problems.list.iter().for_each(|problem| {
                context.terminal.warn(&format!(
                    "{}: needs correction: {}",
                    item.from, problem.message
                ));
            }),
        }
    }
    let items: Vec<ConvertedItem<'_>> = converted
        .iter()
        .map(
            |Converted {
                 from,
                 document,
                 omitted,
             }| ConvertedItem {
                from,
                document,
                not_carried_over: omitted,
            },
        )
        .collect();
    context.terminal.print(
        &document(format, &ConvertedList::from(items)).unwrap_or_else(|| as_yaml(&converted)),
    )?;
    Ok(ExitCode::SUCCESS)
}

fn as_yaml(converted: &[Converted]) -> String {
    let to_yaml = |item: &Converted| {
        let mut text = format!("# from {}\n", item.from);
        item.omitted.iter().for_each(|lost| {
            text.push_str(&format!(
                "# not carried over: {}\n",
                lost.replace('\n', " ")
            ));
        });
        text + &yaml(&item.document)
    };
    converted
        .iter()
        .map(to_yaml)
        .collect::<Vec<_>>()
        .join("---\n")
}
