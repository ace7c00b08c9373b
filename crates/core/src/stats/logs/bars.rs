//! Recognizes the progress bars of trainings.

use std::sync::LazyLock;

use regex::Regex;

/// A tqdm bar of a training: without a title, as of Hugging Face's Trainer, or with one such as
/// `Epoch 3`, `Steps`, `Training Progress` (verl) or `1|100|Loss: 0.5` (torchtune). Before the title,
/// launchers and loggers write ranks, times and levels. Bars with other titles show how far a
/// download, a data set or a checkpoint is.
pub(super) const BAR: &str = r"(?ix)^
    (?: \s+ | \x1b\[[\d;]*[a-z]
      | [\[(](?: [\d\s:.,/t+z-]+ | [^\])]*\b(?:pid|ip)=[^\])]*
            | (?:debug|info|warn(?:ing)?|stdout|stderr|[\w.]*(?:__|\.)[\w.]*)
            | (?:(?:default|local|global|rank|node|worker|proc(?:ess)?|gpu|cuda|host|epoch|steps?
                |iter|train(?:ing)?)[-_:\s]*\d*[\s,:/]*)+ )[\])]:?
      | <std(?:out|err)>:? | -\s | \d{4}-\d\d-\d\d[t\x20]\S+
      | (?:debug|info|warning)\b:? | (?:rank|node|worker)[-_]?\d+:
    )*
    (?: (?:global|epochs?|steps?|train|training|iter|iterations?|progress|loss)\b
      | [\d\s:/|,.\#=\[\]()-]
    )*
    (?:^|[\s:\]])(\d{1,3})%\|[^|]*\|\s*(?:\d|\?)";

/// Counts in tqdm's bar, which are more precise than its percentage.
const BAR_COUNTS: &str = r"\|\s*(\d+)/(\d+)\b";

static BARS: LazyLock<[Regex; 2]> = LazyLock::new(|| {
    [BAR, BAR_COUNTS].map(|shape| Regex::new(shape).expect("the patterns are tested"))
});

/// Whether the line is a bar of a training.
pub(super) fn is_training_bar(line: &str) -> bool {
    BARS[0].is_match(line)
}

/// Returns the done and all steps of a bar.
pub(super) fn bar_counts(line: &str) -> Option<(f64, f64)> {
    counts(&BARS[1], line)
}

/// Returns the two numbers that a pattern captures, of the last state of a redrawn line.
pub(super) fn counts(shape: &Regex, line: &str) -> Option<(f64, f64)> {
    let captures = line.rsplit('\r').find_map(|part| shape.captures(part))?;
    let number = |index: usize| captures.get(index)?.as_str().parse::<f64>().ok();
    number(1)
        .zip(number(2))
        .filter(|(done, total)| done <= total && *total > 0.0)
}
