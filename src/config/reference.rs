//! Generates the settings reference from the table of keys.

use crate::config::KEYS;

const OPENING: &str = "# Configuration

A flag overrides the environment, the environment overrides the config file, and the config file
overrides the default. The file is `gpuctl/config.yaml` in your config folder (`~/.config` on
Linux), or the one that `--config FILE` names. `gpuctl config view --show-origin` shows the origin
of each value. It masks secrets: it omits user names, passwords and query strings from URLs, the
paths of `ai.api_url` and `control.api_url`, the values of headers, and the arguments of
`prometheus.token_command`.
`gpuctl config set KEY VALUE` writes a value and keeps the file's comments. `gpuctl config get KEY`
prints a value, and `gpuctl config unset KEY` removes it from the file. Before its first request, a
command warns about unknown keys and suggests the nearest one. A running `gpuctl score --watch`
reloads its file when it changes, and ignores the change if the file is invalid.

Config files of the GPU utilization monitor work unchanged: `prometheus`, `scoring`, `thresholds`,
`scheduler`, `ai` and `control` have its names, units and defaults. `THRESHOLD`, `INTERVAL` and
`LOG_LEVEL` are such common names that only `score` reads them. No setting replaces `--execute`:
without that flag gpuctl never calls a control system.

The config file can run programs and name files with credentials. If other users own or can write
to the file, or a folder on its path, gpuctl reacts like ssh. It refuses to use
`prometheus.token_command`, `prometheus.aws_region` and all files with credentials, refuses to write
to the cluster, and prints a command that fixes the problem, such as `chmod go-w FILE`. It uses the
other settings with a warning. The file must be a regular file, or a symbolic link to one.
`--config` also accepts a device, such as `/dev/null`, and a shell pipe, such as `<(…)`, but not a
named pipe.

gpuctl creates its folders with mode 0700, and sets that mode before it writes into its cache, state
or config folder. It ignores a cache or state folder owned by another user. The config file may be a
symbolic link if you own the link and the file.

If a key in or near `safety` is unknown, misspelled or invalid, gpuctl refuses every write;
`GPUCTL_READ_ONLY=0` takes precedence over the file. [Scripts](scripts.md) describes what
read-only mode prevents.

Durations are `30s`, `5m`, `2h`, or a number of seconds; `prometheus.time_window_min` is in minutes.
Paths are relative to the config file's folder.

| Key | Default | Environment | Flag | Meaning |
|---|---|---|---|---|
";

/// Renders the whole reference as Markdown.
pub(crate) fn text() -> String {
    let mut text = OPENING.to_owned();
    for key in &KEYS {
        let code = |text: &str| {
            if text.is_empty() {
                String::new()
            } else {
                format!("`{text}`")
            }
        };
        let variables: Vec<String> = key.variables.iter().map(|name| code(name)).collect();
        let flags: Vec<String> = key.flag.split(", ").map(code).collect();
        let cells = [
            code(key.name),
            code(key.default),
            variables.join(", "),
            flags.join(", "),
            match key.remark {
                "" => key.description.to_owned(),
                remark => format!("{}; {remark}", key.description),
            },
        ];
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}
