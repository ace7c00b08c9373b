//! Parses YAML into a tree that contains the position of every key and value.
//!
//! Refuses aliases and limits size and depth, so that no file can exhaust memory.

use serde_saphyr::granit_parser::{
    ErrorKind, Event, Options, Parser, ScalarStyle, ScanError, Span as RawSpan,
};

use super::tabs::indenting_tabs;
use super::unquoted::{quoted, unquoted_colon};
use gpuctl_core::error::{FilePosition, Problem};

/// Maximum nesting depth. No valid document comes close to it.
const DEPTH: usize = 32;
/// Maximum number of values in one document.
const NODES: usize = 10_000;
/// Maximum number of values in one file. A tree of this size takes about 100 MB.
const FILE_NODES: usize = 1_000_000;
/// Maximum size of a document, which is stored in an annotation. Kubernetes limits the total size
/// of an object's annotations to 262,144 bytes, so this leaves space for other annotations.
pub(super) const DOCUMENT_BYTES: usize = 200 * 1024;

/// A value and its position.
#[derive(Clone, Debug)]
pub(super) struct YamlNode {
    pub at: FilePosition,
    pub value: YamlValue,
}

#[derive(Clone, Debug)]
pub(super) enum YamlValue {
    Null,
    /// Text or a number. `plain` is false for quoted text, which is never a number or a boolean.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<YamlNode>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub key: String,
    pub key_at: FilePosition,
    pub value: YamlNode,
}

/// One document of a file.
#[derive(Clone, Debug)]
pub(super) struct YamlDocument {
    pub root: YamlNode,
    /// Source text of the document, with comments.
    pub source: String,
}

impl YamlNode {
    /// Describes the type of the value for messages.
    pub(super) fn description(&self) -> &'static str {
        match self.value {
            YamlValue::Null => "nothing",
            YamlValue::Scalar { .. } => "a single value",
            YamlValue::List(_) => "a list",
            YamlValue::Map(_) => "a map",
        }
    }
}

/// Reads the documents of `text` and adds syntax errors to `problems`. Skips empty documents.
pub(super) fn read(text: &str, problems: &mut Vec<Problem>) -> Vec<YamlDocument> {
    let tabs = indenting_tabs(text);
    let mut builder = Builder {
        parser: None,
        text,
        nodes: 0,
        file_nodes: 0,
        depth: 0,
        blocks: Vec::new(),
        problems,
    };
    let (trees, failed) = builder.documents();
    let blocks = std::mem::take(&mut builder.blocks);
    for (line, column) in tabs {
        let inside_text = blocks
            .iter()
            .any(|(first, last)| *first < line && line <= *last);
        if !inside_text && failed.is_none_or(|position: FilePosition| line <= position.line) {
            // The parser reports a tab as a different syntax error at the same position. Replace
            // that error by a clearer message.
            problems.retain(|problem| failed.is_none_or(|position| problem.at != position));
            problems.push(Problem::error(
                FilePosition {
                    line,
                    column,
                    width: 1,
                },
                "this line is indented with a tab, but YAML allows only spaces",
                "replace the tab with spaces",
            ));
        }
    }
    trees
}

struct Builder<'t, 'p> {
    parser: Option<YamlEvents<'t>>,
    text: &'t str,
    /// Number of values in the current document and in the whole file.
    nodes: usize,
    file_nodes: usize,
    depth: usize,
    /// First and last lines of scalars with several lines, which may contain tabs.
    blocks: Vec<(usize, usize)>,
    problems: &'p mut Vec<Problem>,
}

type YamlEvents<'t> =
    std::iter::Peekable<Box<dyn Iterator<Item = Result<(Event<'t>, RawSpan), ScanError>> + 't>>;

/// Error that stops reading at this position. It has already been reported as a problem.
struct StopReading(FilePosition);

impl<'t> Builder<'t, '_> {
    fn documents(&mut self) -> (Vec<YamlDocument>, Option<FilePosition>) {
        let mut options = Options::default();
        options.set_emit_comments(false);
        (options.flow_nesting_limit, options.block_nesting_limit) = (DEPTH, DEPTH);
        // Without this option, the parser fails at the mask `***` before the field's reader can
        // explain it.
        options.emit_unresolved_aliases = true;
        let parser = Parser::new_from_str_with_options(self.text, options);
        self.parser = Some((Box::new(parser) as Box<dyn Iterator<Item = _>>).peekable());
        let mut trees = Vec::new();
        loop {
            match self.document() {
                Ok(Some(tree)) => trees.push(tree),
                Ok(None) => return (trees, None),
                Err(StopReading(position)) => return (trees, Some(position)),
            }
        }
    }

    /// Reads the next document that is not empty.
    fn document(&mut self) -> Result<Option<YamlDocument>, StopReading> {
        loop {
            let Some((event, span)) = self.next()? else {
                return Ok(None);
            };
            let Event::DocumentStart(explicit, _) = event else {
                continue;
            };
            let start = if explicit {
                byte(span.end.byte_offset())
            } else {
                0
            };
            self.nodes = 0;
            let root = self.node()?;
            let mut end = self.text.len();
            while let Some((event, _)) = self.next()? {
                if matches!(event, Event::DocumentEnd) {
                    break;
                }
            }
            if let Some(Ok((Event::DocumentStart(true, _), span))) =
                self.parser.as_mut().and_then(|events| events.peek())
            {
                end = byte(span.start.byte_offset());
            }
            let source = self
                .text
                .get(start..end)
                .unwrap_or_default()
                .trim_start_matches(['\n', '\r', ' '])
                .to_owned();
            if source.len() > DOCUMENT_BYTES {
                let message = format!(
                    "the document is {} KiB; the limit is {} KiB",
                    source.len() / 1024,
                    DOCUMENT_BYTES / 1024
                );
                return Err(self.stop(root.at, message, "move large text into `files:`"));
            }
            if !matches!(root.value, YamlValue::Null) {
                return Ok(Some(YamlDocument { root, source }));
            }
        }
    }

    fn next(&mut self) -> Result<Option<(Event<'t>, RawSpan)>, StopReading> {
        match self.parser.as_mut().and_then(Iterator::next) {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(error)) => Err(self.syntax(&error)),
        }
    }

    fn node(&mut self) -> Result<YamlNode, StopReading> {
        let Some((event, span)) = self.next()? else {
            return Ok(YamlNode {
                at: FilePosition::default(),
                value: YamlValue::Null,
            });
        };
        let at = position(&span);
        self.count(at)?;
        let value = match event {
            Event::Scalar(text, style, _, _) => {
                if span.end.line() > span.start.line() {
                    self.blocks.push((span.start.line(), span.end.line()));
                }
                let plain = style == ScalarStyle::Plain;
                // The null values of the core schema (YAML 1.2, section 10.3.2).
                if plain && matches!(text.as_ref(), "" | "~" | "null" | "Null" | "NULL") {
                    YamlValue::Null
                } else {
                    YamlValue::Scalar {
                        text: text.into_owned(),
                        plain,
                    }
                }
            }
            Event::SequenceStart(..) => {
                self.enter(at)?;
                let mut items = Vec::new();
                while !self.is_at_end(&Event::SequenceEnd)? {
                    items.push(self.node()?);
                }
                YamlValue::List(items)
            }
            Event::MappingStart(..) => {
                self.enter(at)?;
                YamlValue::Map(self.entries()?)
            }
            // gpuctl prints `***` for a secret, which YAML parses as an alias. Pass it on as text,
            // so that the field's reader can explain it.
            Event::UnresolvedAlias(name) if name == "**" => YamlValue::Scalar {
                text: "***".to_owned(),
                plain: true,
            },
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                return Err(self.stop(
                    at,
                    "aliases (`*name`) are not supported",
                    "write out the value",
                ));
            }
            _ => YamlValue::Null,
        };
        Ok(YamlNode { at, value })
    }

    /// Counts a value. Fails if the document or the file has too many.
    fn count(&mut self, at: FilePosition) -> Result<(), StopReading> {
        self.nodes += 1;
        self.file_nodes += 1;
        if self.nodes > NODES {
            let message = format!("the document has more than {NODES} values");
            return Err(self.stop(at, message, "move large text into `files:`"));
        }
        if self.file_nodes > FILE_NODES {
            let message = format!("the file has more than {FILE_NODES} values");
            return Err(self.stop(at, message, "split the file"));
        }
        Ok(())
    }

    /// Reads the entries of a map up to its end. Reports keys that occur twice.
    fn entries(&mut self) -> Result<Vec<Entry>, StopReading> {
        let mut entries: Vec<Entry> = Vec::new();
        while !self.is_at_end(&Event::MappingEnd)? {
            let entry = self.entry()?;
            if let Some(first) = entries.iter().find(|other| other.key == entry.key) {
                self.problems.push(Problem::error(
                    entry.key_at,
                    format!(
                        "`{}` appears twice, first on line {}",
                        entry.key, first.key_at.line
                    ),
                    "keep one of them",
                ));
            } else {
                entries.push(entry);
            }
        }
        Ok(entries)
    }

    fn entry(&mut self) -> Result<Entry, StopReading> {
        let key = self.node()?;
        let text = match key.value {
            YamlValue::Scalar { text, .. } => text,
            YamlValue::Null => "null".to_owned(),
            YamlValue::List(_) | YamlValue::Map(_) => {
                return Err(self.stop(key.at, "a key must be one word", "quote it"));
            }
        };
        Ok(Entry {
            key: text,
            key_at: key.at,
            value: self.node()?,
        })
    }

    fn enter(&mut self, at: FilePosition) -> Result<(), StopReading> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.too_deep(at));
        }
        Ok(())
    }

    fn too_deep(&mut self, at: FilePosition) -> StopReading {
        self.stop(
            at,
            format!("nested more than {DEPTH} levels deep"),
            "close the open brackets",
        )
    }

    /// Consumes the next event if it ends the current collection.
    fn is_at_end(&mut self, end: &Event<'_>) -> Result<bool, StopReading> {
        let is_end = match self.parser.as_mut().and_then(|events| events.peek()) {
            Some(Ok((event, _))) => std::mem::discriminant(event) == std::mem::discriminant(end),
            Some(Err(_)) => false,
            None => true,
        };
        if is_end {
            self.depth -= 1;
            self.next()?;
        }
        Ok(is_end)
    }

    fn stop(&mut self, at: FilePosition, message: impl Into<String>, note: &str) -> StopReading {
        self.problems.push(Problem::error(at, message, note));
        StopReading(at)
    }

    fn syntax(&mut self, error: &ScanError) -> StopReading {
        let marker = error.marker();
        let at = FilePosition {
            line: marker.line().max(1),
            column: marker.col() + 1,
            width: 1,
        };
        let line = self.text.lines().nth(at.line - 1).unwrap_or_default();
        let character = line.chars().nth(at.column - 1);
        // Users copy YAML from chats together with the backticks of a Markdown code block.
        let tick = line
            .chars()
            .position(|c| c == '`')
            .filter(|_| character != Some('\t'));
        if let Some(tick) = tick {
            let at = FilePosition {
                column: tick + 1,
                ..at
            };
            return self.stop(
                at,
                "stray backtick: a value must not begin or end with one",
                "remove the `",
            );
        }
        if *error.kind() == ErrorKind::RecursionLimitExceeded {
            return self.too_deep(at);
        }
        if let Some((value, column)) = unquoted_colon(line, at.column) {
            return self.stop(
                FilePosition { column, ..at },
                "invalid YAML: a value that contains `: ` must be quoted",
                &format!("write {}", quoted(value)),
            );
        }
        let text = error.info().replace('\n', " ");
        let text = text.strip_suffix('.').unwrap_or(&text).to_owned();
        self.stop(
            at,
            format!("invalid YAML: {text}"),
            "check the indentation and brackets here and in the lines above",
        )
    }
}

fn byte(offset: Option<usize>) -> usize {
    offset.expect("events of a string have byte offsets")
}

fn position(span: &RawSpan) -> FilePosition {
    let width = if span.end.line() == span.start.line() {
        span.end.col().saturating_sub(span.start.col())
    } else {
        1
    };
    FilePosition {
        line: span.start.line(),
        column: span.start.col() + 1,
        width: width.max(1),
    }
}
