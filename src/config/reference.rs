//! Generates the reference of settings from the table of keys.

use crate::config::KEYS;

const OPENING: &str = "# Configuration

A setting comes from a flag, else from the environment, else from the config file, else from its
default. The file is `gpuctl/config.yaml` in your config folder (`~/.config` on Linux), or the one
that `--config FILE` names. `gpuctl config view --show-origin` says who gave each value, with
secrets masked: addresses without logins and queries, `ai.api_url` and `control.api_url` without
their path, values of headers not at all, and of `prometheus.token_command` only the program.
`gpuctl config set KEY VALUE` writes one and keeps the file's comments. Before its first request, a
command warns about unknown keys and names the nearest one. A running `gpuctl score --watch` reads
its file again when it changes; a file that is wrong then changes nothing.

A config file of the GPU utilization monitor works as it stands: `prometheus`, `scoring`,
`thresholds`, `scheduler`, `ai` and `control` have its names, units and defaults. `THRESHOLD`,
`INTERVAL` and `LOG_LEVEL` are such common names that only `score` acts on them. No setting stands
for `--execute`: without that flag a control system is never called.

The config file can run programs and name files with credentials. If others can write or own the
file, or a folder on the way to it, gpuctl does as ssh does: it refuses to use
`prometheus.token_command`, `prometheus.aws_region` and all files with credentials, refuses to write
to the cluster, and prints the command that repairs it, such as `chmod go-w FILE`. The other
settings are used with a warning. The file must be a regular file, or a symbolic link to one.
`--config` also takes a device, such as `/dev/null`, and a pipe of the shell, such as `<(…)`, but no
named pipe.

gpuctl creates its folders with mode 0700, and sets that mode before it writes into its cache, state
or config folder. It ignores a cache or state folder of another user. The config file may be a
symbolic link if you own the link and the file.

A key in or near `safety` that is unknown, misspelled or of the wrong form refuses every write;
`GPUCTL_READ_ONLY=0` takes precedence over the file. [Scripts](scripts.md) describes what the
read-only mode prevents.

Times are `30s`, `5m`, `2h`, or a number of seconds; `prometheus.time_window_min` is in minutes.
Files are meant from where the config file is.

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
                "" => key.meaning.to_owned(),
                remark => format!("{}; {remark}", key.meaning),
            },
        ];
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}
