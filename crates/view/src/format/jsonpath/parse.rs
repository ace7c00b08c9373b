//! Parses templates. Positions in nested expressions, such as filters, refer to the entire
//! template.

use serde_json::Value;

use super::errors::JsonPathMistake;
use super::parse_text::{quoted, unquoted_end};
use super::syntax::{CompareOperator, ListSlice, ListSliceEnd, PathFilter, PathStep, TemplatePart};

/// Maximum nesting of `{range}` and filters, so that parsing cannot overflow the stack.
const DEEPEST: usize = 32;

/// Parses an entire template.
pub(super) fn template(text: &str) -> Result<Vec<TemplatePart>, JsonPathMistake> {
    let chars: Vec<char> = text.chars().collect();
    let mut parser = TemplateParser {
        chars: &chars,
        at: 0,
        depth: 0,
    };
    parser.parts(None)
}

struct TemplateParser<'t> {
    /// Characters of the template up to the end of the current expression.
    chars: &'t [char],
    at: usize,
    depth: usize,
}

fn mistake<T>(
    at: usize,
    message: impl Into<String>,
    hint: &'static str,
) -> Result<T, JsonPathMistake> {
    Err(JsonPathMistake {
        message: message.into(),
        position: at + 1,
        hint,
    })
}

fn is_terminator(c: char) -> bool {
    c.is_whitespace() || ".,[]$@{}".contains(c)
}

impl TemplateParser<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn looks_at(&self, text: &str) -> bool {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        text.chars().count() <= rest.len() && text.chars().zip(rest).all(|(a, b)| a == *b)
    }

    /// Returns a parser for the part of an expression between two positions.
    fn between(&self, start: usize, end: usize) -> TemplateParser<'_> {
        TemplateParser {
            chars: &self.chars[..end],
            at: start,
            depth: self.depth + 1,
        }
    }

    /// Parses text and expressions. `range` is the position of the `{range}` that `{end}` closes.
    fn parts(&mut self, range: Option<usize>) -> Result<Vec<TemplatePart>, JsonPathMistake> {
        if self.depth > DEEPEST {
            return mistake(self.at, "the template is nested too deeply", "");
        }
        let mut parts = Vec::new();
        loop {
            let start = self.at;
            while self.peek().is_some_and(|c| c != '{') {
                self.at += 1;
            }
            if self.at > start {
                let text: String = self.chars[start..self.at].iter().collect();
                parts.push(TemplatePart::Text(text.into()));
            }
            let opening = self.at;
            match (self.peek(), range) {
                (None, None) => return Ok(parts),
                (None, Some(range)) => return mistake(range, "`{range}` has no `{end}`", ""),
                _ => self.at += 1,
            }
            match self.keyword() {
                Some("range") => {
                    let over = self.steps(Some(opening))?;
                    self.depth += 1;
                    let body = self.parts(Some(opening))?;
                    self.depth -= 1;
                    parts.push(TemplatePart::Range { over, body });
                }
                Some(_) if range.is_none() => {
                    return mistake(opening, "`{end}` has no `{range}`", "");
                }
                Some(_) => {
                    self.steps(Some(opening))?;
                    return Ok(parts);
                }
                None => parts.push(TemplatePart::Expression(self.steps(Some(opening))?)),
            }
        }
    }

    /// Consumes `range` or `end` at the start of an expression.
    fn keyword(&mut self) -> Option<&'static str> {
        let start = self.at;
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
        for word in ["range", "end"] {
            let after = self.chars.get(self.at + word.len());
            if self.looks_at(word) && after.copied().is_some_and(is_terminator) {
                self.at += word.len();
                return Some(word);
            }
        }
        self.at = start;
        None
    }

    /// Parses the steps of an expression, up to the `}` that belongs to `opening`.
    fn steps(&mut self, opening: Option<usize>) -> Result<Vec<PathStep>, JsonPathMistake> {
        if self.depth > DEEPEST {
            return mistake(self.at, "the template is nested too deeply", "");
        }
        let mut steps = Vec::new();
        loop {
            let start = self.at;
            let Some(c) = self.peek() else {
                return match opening {
                    Some(opening) => mistake(opening, "`{` has no `}`", ""),
                    None => Ok(steps),
                };
            };
            match c {
                '}' if opening.is_some() => {
                    self.at += 1;
                    return Ok(steps);
                }
                ' ' | '\t' | '\n' | '\r' | '@' | '$' => self.at += 1,
                '[' if self.looks_at("[?(") => steps.push(self.filter()?),
                '[' => self.brackets(&mut steps)?,
                '.' if self.looks_at("..") => {
                    if steps.last() == Some(&PathStep::Descend) {
                        return mistake(start, "`..` is repeated", "");
                    }
                    self.at += 2;
                    steps.push(PathStep::Descend);
                    if self.peek().is_some_and(|c| c == '_' || c.is_alphanumeric()) {
                        steps.push(self.field());
                    }
                }
                '.' => {
                    self.at += 1;
                    steps.push(self.field());
                }
                '"' | '\'' => {
                    steps.push(PathStep::Literal(quoted(self.chars, &mut self.at)?.into()));
                }
                '+' | '-' | '0'..='9' => steps.push(self.number()?),
                c if c == '_' || c.is_alphabetic() => steps.push(self.word()?),
                c => return unexpected(start, c),
            }
        }
    }

    /// Parses a field name, where `\` escapes the next character.
    fn field(&mut self) -> PathStep {
        let mut name = String::new();
        while let Some(c) = self.peek().filter(|c| !is_terminator(*c)) {
            self.at += 1;
            match (c, self.peek()) {
                ('\\', Some(escaped)) => {
                    name.push(escaped);
                    self.at += 1;
                }
                ('\\', None) => {}
                _ => name.push(c),
            }
        }
        if name == "*" {
            PathStep::Wildcard
        } else {
            PathStep::Field(name)
        }
    }

    fn number(&mut self) -> Result<PathStep, JsonPathMistake> {
        let start = self.at;
        self.at += 1;
        while self.peek().is_some_and(|c| c == '.' || c.is_ascii_digit()) {
            self.at += 1;
        }
        let text: String = self.chars[start..self.at].iter().collect();
        let text = text.strip_prefix('+').unwrap_or(&text);
        let whole = || text.parse::<i64>().ok().map(Value::from);
        let fraction = || text.parse::<f64>().ok().map(Value::from);
        match whole().or_else(fraction) {
            Some(number) => Ok(PathStep::Literal(number)),
            None => mistake(start, format!("`{text}` is not a number"), ""),
        }
    }

    fn word(&mut self) -> Result<PathStep, JsonPathMistake> {
        let start = self.at;
        while self.peek().is_some_and(|c| c == '_' || c.is_alphanumeric()) {
            self.at += 1;
        }
        let word: String = self.chars[start..self.at].iter().collect();
        match word.as_str() {
            "true" => Ok(PathStep::Literal(true.into())),
            "false" => Ok(PathStep::Literal(false.into())),
            "range" | "end" => mistake(
                start,
                format!("`{word}` must be the first word of its braces"),
                "",
            ),
            _ => mistake(
                start,
                format!("unknown word `{word}`"),
                "fields begin with a dot, and text is quoted",
            ),
        }
    }

    /// Parses `[…]` except filters: indexes, slices, quoted fields and unions of them.
    fn brackets(&mut self, steps: &mut Vec<PathStep>) -> Result<(), JsonPathMistake> {
        let opening = self.at;
        let Some(closing) = unquoted_end(self.chars, opening + 1, |c| c == ']') else {
            return mistake(opening, "`[` has no `]`", "");
        };
        self.at = closing + 1;
        let (mut members, mut start) = (Vec::new(), opening + 1);
        while let Some(comma) = unquoted_end(&self.chars[..closing], start, |c| c == ',') {
            members.push(self.between(start, comma).member()?);
            start = comma + 1;
        }
        let last = self.between(start, closing).member()?;
        if members.is_empty() {
            steps.extend(last);
        } else {
            members.push(last);
            steps.push(PathStep::Union(members));
        }
        Ok(())
    }

    /// Parses one entry in brackets.
    fn member(&self) -> Result<Vec<PathStep>, JsonPathMistake> {
        let start = self.at;
        let text: String = self.chars[start..].iter().collect();
        let text = text.trim();
        let first = start
            + self.chars[start..]
                .iter()
                .take_while(|c| c.is_whitespace())
                .count();
        if text == "*" {
            return Ok(vec![PathStep::Slice(ListSlice {
                start: None,
                end: ListSliceEnd::Last,
                step: 1,
            })]);
        }
        let is_quoted =
            |quote: char| text.len() >= 2 && text.starts_with(quote) && text.ends_with(quote);
        if is_quoted('\'') || is_quoted('"') {
            // kubectl parses the quoted text as a path, so dots in names must be escaped.
            let end = first + text.chars().count() - 1;
            let mut path = self.between(first + 1, end);
            let mut steps = vec![path.field()];
            steps.extend(path.steps(None)?);
            return Ok(steps);
        }
        match slice(text) {
            Some(slice) if slice.step == 0 => {
                mistake(first, "the step of a slice must be at least 1", "")
            }
            Some(slice) => Ok(vec![PathStep::Slice(slice)]),
            None if text.is_empty() => mistake(
                first,
                "an index is missing",
                "`[*]` selects all entries, `[0]` the first",
            ),
            None => mistake(
                first,
                format!("`{text}` is not an index"),
                "quote the name of a field: ['NAME']",
            ),
        }
    }

    /// Parses `[?(…)]`.
    fn filter(&mut self) -> Result<PathStep, JsonPathMistake> {
        let (opening, start) = (self.at, self.at + "[?(".len());
        let Some(end) = unquoted_end(self.chars, start, |c| c == ')') else {
            return mistake(opening, "the filter has no `)`", "");
        };
        if self.chars.get(end + 1) != Some(&']') {
            return mistake(end + 1, "the filter has no `]`", "");
        }
        self.at = end + 2;
        let is_operator = |c: char| "!<>=".contains(c);
        let Some(operator) = unquoted_end(&self.chars[..end], start, is_operator) else {
            let left = self.between(start, end).steps(None)?;
            return Ok(PathStep::Filter(PathFilter {
                left,
                comparison: None,
            }));
        };
        let right = operator
            + self.chars[operator..end]
                .iter()
                .take_while(|c| is_operator(**c))
                .count();
        let word: String = self.chars[operator..right].iter().collect();
        let comparison = comparison(&word, self.chars.get(right), operator)?;
        let left = self.between(start, operator).steps(None)?;
        let right = self.between(right, end).steps(None)?;
        Ok(PathStep::Filter(PathFilter {
            left,
            comparison: Some((comparison, right)),
        }))
    }
}

fn unexpected<T>(at: usize, c: char) -> Result<T, JsonPathMistake> {
    let hint = match c {
        '&' | '|' => "kubectl's JSONPath has no `&&` and `||`; use -o json with jq",
        '*' => "a field or `[` must precede `*`, as in `.*` or `[*]`",
        '~' => NO_REGEX,
        _ => "",
    };
    mistake(at, format!("unexpected `{c}`"), hint)
}

const NO_REGEX: &str = "kubectl's JSONPath has no regular expressions; use -o json with jq";

fn comparison(
    word: &str,
    next: Option<&char>,
    at: usize,
) -> Result<CompareOperator, JsonPathMistake> {
    Ok(match word {
        "==" => CompareOperator::Equal,
        "!=" => CompareOperator::NotEqual,
        "<" => CompareOperator::Less,
        "<=" => CompareOperator::LessOrEqual,
        ">" => CompareOperator::Greater,
        ">=" => CompareOperator::GreaterOrEqual,
        "=" | "!" if next == Some(&'~') => {
            return mistake(at, format!("`{word}~` is not an operator"), NO_REGEX);
        }
        _ => {
            let hint = "operators are ==, !=, <, <=, > and >=";
            return mistake(at, format!("`{word}` is not an operator"), hint);
        }
    })
}

/// Parses `3`, `-1`, `1:`, `:-1` and `::2`.
fn slice(text: &str) -> Option<ListSlice> {
    let mut numbers = text.split(':');
    let mut number = || match numbers.next() {
        None => Some(None),
        Some("") => Some(Some(None)),
        Some(digits) => digits.parse::<i64>().ok().map(|number| Some(Some(number))),
    };
    let (start, end, step) = (number()?.flatten(), number()?, number()?.flatten());
    if numbers.next().is_some() || text.is_empty() {
        return None;
    }
    Some(ListSlice {
        start,
        end: match end {
            None => ListSliceEnd::AfterStart,
            Some(None) => ListSliceEnd::Last,
            Some(Some(end)) => ListSliceEnd::At(end),
        },
        // The caller rejects zero with its position.
        step: usize::try_from(step.unwrap_or(1)).unwrap_or(0),
    })
}
