//! Recognizes phases of a training without steps by their log lines: saving or loading a
//! checkpoint, compiling, evaluating, downloading or preparing data. The lines are those of
//! torchtitan, Megatron, verl, torchtune, DeepSpeed, Hugging Face, Lightning, NeMo, LLaMA-Factory,
//! axolotl and vLLM, which the tests contain.

use std::sync::LazyLock;

use regex::Regex;

use super::bars::is_training_bar;

/// A phase of a training without training steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPhase {
    Saving,
    Loading,
    Compiling,
    Evaluating,
    Downloading,
    PreparingData,
    /// A progress bar with a title that is not known to be of the training.
    OtherBar,
}

impl LogPhase {
    /// Continues a sentence after `has been`.
    pub fn doing(self) -> &'static str {
        match self {
            Self::Saving => "saving a checkpoint",
            Self::Loading => "loading a model or checkpoint",
            Self::Compiling => "compiling",
            Self::Evaluating => "evaluating",
            Self::Downloading => "downloading",
            Self::PreparingData => "preparing data",
            Self::OtherBar => "busy with something other than training steps",
        }
    }
}

/// The phase that a log line reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PhaseMark {
    /// The phase begins or continues.
    In(LogPhase),
    End,
}

/// Lines after which the next training step follows. Hugging Face's `Configuration saved in` is not
/// one of them, because the weights are saved after it.
const ENDS: &str = r#"(?ix)
    \bsuccessfully\ (?:saved|loaded)\b | \bfinished\ (?:saving|loading|staging)\b
  | \bscheduled\ async\ checkpoint\ save\b | \bcheckpoint\ \S+\ is\ ready\ now\b
  | \b(?:saving|loading)\b[^|%]*\b(?:took|completed?|finished|done)\b
  | \b(?:checkpoints?|snapshot)\ (?:was\ |has\ been\ |have\ been\ )?(?:saved|loaded)\b
  | \bweights\ (?:were\ |have\ been\ )?loaded\b
  | \bhas\ been\ saved\ successfully\b | \bcheckpoint\ save\b.*\bsave\ duration\b
  | \bmodel\ loading\ took\b | \bdone\ with\ (?:compiling|loading|building|saving)\b
  | \btorch\.compile\ takes\b | \bcompiling\b[^|]*\btakes\b | \bgraph\ capturing\ finished\b
  | \bcompil(?:ing|ation)\b[^|]*\b(?:took|completed?|finished|done)\b
  | \bvalidation\ loss\ at\b | ['"]eval_\w+['"]\s*:
  | \b(?:evaluation|validation|eval)\b[^|%]*\b(?:took|completed?|finished|done)\b
  | \bdownload\w*\b[^|%]*\b(?:took|completed?|finished|done)\b
"#;

/// Lines that announce a later phase, or deny one.
const DENIED: &str = r"(?ix)
    \b(?:not|no|without|skip(?:ping|ped|s)?|before|every|will|if|disabled?|next)\b
        [\w\x20]{0,20}\b(?:sav|load|compil|eval|validat|download)
  | \b(?:sav|load|compil|eval|validat|download)\w*\b[\w\x20]{0,20}
        \b(?:disabled|skipped|failed|every)\b
";

const SAVING: &str = r"(?ix)
    \b(?:saving|writing|dumping|staging|uploading|serializing|storing)\b[^|]{0,80}
        \b(?:checkpoints?|ckpt|models?|weights|states?|adapters?|optimizer|tokenizer|snapshot)
  | \b(?:saving|saved|writing)\b\s\S+\.(?:pt|pth|bin|ckpt|safetensors|distcp|nemo)\b
  | \bcheckpoint\ \S+\ is\ (?:about\ to\ be\ saved|begin\ to\ save)\b
  | \b(?:configuration|weights|tokenizer\ config\ file|special\ tokens\ file|chat\ template
        |tokenizer|processor)\ saved\ (?:in|to)\b
  | \bcheckpoint\ of\ size\b.*\bsaved\ to\b | \blocal_global_step_folder:
  | \bsaved\ (?:model|optim\w*|extra\w*|config\w*|hf_model)\b
  | \bgoing\ to\ be\ split\ in\ \d+\ checkpoint\ shards\b
  | \bsaving\ (?:final|trained|best|last|intermediate|full)\b | \bsave\ checkpoint\b
";

const LOADING: &str = r"(?ix)
    \b(?:loading|resuming|restoring|reading|instantiating|initializing)\b[^|]{0,80}
        \b(?:checkpoints?|ckpt|models?|weights?|states?|shards?|tokenizer|adapters?|optimizer
            |safetensors|pretrained|engine)\b
  | \bstart(?:ing)?\ to\ load\b | \bresum(?:ing|e)\b[^|]{0,20}\bfrom\b | \bload(?:ing)?\ checkpoint\b
";

const COMPILING: &str = r"(?ix)
    \bcompiling\b | \bautotun(?:e|ing)\b | \bcapturing\ (?:cuda\ ?)?graphs?\b | \bwarming\ up\b
  | \bcapturing\ cuda\ graph\b | \bbuilding\ (?:extension\ module|engine)\b
  | \bemitting\ ninja\ build\ file\b | \bstart(?:ing|ed)?\ (?:to\ compile|compilation)\b
";

const EVALUATING: &str = r"(?ix)
    \*{3,}\ ?running\ (?:evaluation|validation|prediction|test)
  | \b(?:evaluating|validating)\b | \btest_gen_batch\ meta\ info\b
  | ^\W*(?:\[[^\]]*\]\W*|\([^)]*\)\W*)*(?:validation|validate|eval(?:uation)?|val|test(?:ing)?
        |predict(?:ion|ing)?|sanity\ checking)\b[^|]{0,60}
        (?:\d+\s*/\s*\d+|\d{1,3}%\||\bdataloader\b)
  | [\[(](?:val|eval|valid|validation|evaluation|test)\w*[\])][^|]*\d{1,3}%\|
  | \b(?:running|starting|start|begin(?:ning)?)\ (?:the\ )?(?:evaluation|validation|eval)\b
  | \b(?:eval|val|valid|validation|validate|test)[\ _-](?:step|iter|iteration|batch)\b[\s:=\[\#]*\d
";

const DOWNLOADING: &str = r"(?ix)
    \b(?:downloading|fetching)\b
  | \d{1,3}%\|[^|]*\|\s*[\d.]+[kmgt]i?b?/[\d.]+[kmgt]i?b?\s*\[.*b/s
";

const PREPARING: &str = r"(?ix)
    \b(?:tokeniz|pack|preprocess|prefetch|shuffl)ing\b
  | \bgenerating\ \w+\ split\b | \brunning\ tokenizer\b | \bgrouping\ texts\b
  | \b(?:converting|applying|saving|loading|preparing|processing|building|creating|caching)\b
        [\w\x20,\x27-]{0,40}\b(?:data|datasets?|data-?loaders?|ind(?:ex|ices)|chat\ template)\b
  | ^\W*(?:map|filter|flatten\w*|truncat\w*|add\w*|extract\w*|cast\w*|drop\w*
        |resolving\ data\ files)\b[^|]*\d{1,3}%\|
";

/// Any tqdm bar.
const ANY_BAR: &str = r"\d{1,3}%\|[^|]*\|\s*[\d?.]";

struct Patterns {
    ends: Regex,
    denied: Regex,
    /// In order of precedence, because `Saving the dataset` does not save a checkpoint.
    phases: Vec<(LogPhase, Regex)>,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let regex = |text: &str| Regex::new(text).expect("the patterns are tested");
    let phases = [
        (LogPhase::PreparingData, PREPARING),
        (LogPhase::Evaluating, EVALUATING),
        (LogPhase::Saving, SAVING),
        (LogPhase::Compiling, COMPILING),
        (LogPhase::Downloading, DOWNLOADING),
        (LogPhase::Loading, LOADING),
        (LogPhase::OtherBar, ANY_BAR),
    ];
    Patterns {
        ends: regex(ENDS),
        denied: regex(DENIED),
        phases: phases.map(|(phase, text)| (phase, regex(text))).into(),
    }
});

/// Returns the phase that a line reports, or `None` for other lines.
pub(super) fn phase_mark(line: &str) -> Option<PhaseMark> {
    let patterns = &*PATTERNS;
    // A program can print after a bar without a new line, and a bar redraws itself.
    let part = line.rsplit('\r').find(|part| !part.trim().is_empty())?;
    let is_step = is_training_bar(part);
    let text = after_bar(part).filter(|_| is_step).unwrap_or(part);
    if is_step && text.len() == part.len() {
        return None;
    }
    if patterns.ends.is_match(text) {
        return Some(PhaseMark::End);
    }
    if patterns.denied.is_match(text) {
        return None;
    }
    let mut phases = patterns.phases.iter();
    let (phase, _) = phases.find(|(_, shape)| shape.is_match(text))?;
    Some(PhaseMark::In(*phase))
}

/// Returns the text after the brackets with times that end a bar.
fn after_bar(line: &str) -> Option<&str> {
    let bar = line.rfind("%|")?;
    let open = line[bar..].find('[')? + bar;
    let close = line[open..].find(']')? + open;
    Some(line[close + 1..].trim()).filter(|rest| !rest.is_empty())
}

#[cfg(test)]
mod tests;
