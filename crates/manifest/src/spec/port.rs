//! Finds the port that a command's program listens on: the value of a flag, or the program's
//! default.

use std::sync::LazyLock;

use regex::Regex;

use super::document::JobDocument;

/// Flags whose value is a port, or an address with a port. `--master_port` and similar flags do not
/// match, because they refer to ports of other ranks.
static FLAG: LazyLock<Regex> = LazyLock::new(|| {
    let port =
        r"--(?:(?:server|http|listen|web|rest|serve|ServerApp|NotebookApp|LabApp)[._-])?port";
    let address = r#"--?(?:bind|bind[_-]addr|addr|address|listen|b)[= ]"?[\w.\[\]:*-]*:"#;
    Regex::new(&format!(
        r#"(?:^|[\s"'])(?:{port}[= ]"?|{address})(\d{{1,5}})\b"#
    ))
    .expect("the pattern is tested")
});

/// Programs and their default ports.
const DEFAULTS: [(&str, u16); 8] = [
    ("jupyter", 8888),
    ("jupyter-lab", 8888),
    ("jupyter-notebook", 8888),
    ("start-notebook.sh", 8888),
    ("code-server", 8080),
    ("streamlit", 8501),
    ("tensorboard", 6006),
    ("marimo", 2718),
];

/// Returns the port in the command, or the default port of its program.
pub fn from_command(job: &JobDocument) -> Option<u16> {
    from_text(&job.line())
}

fn from_text(words: &str) -> Option<u16> {
    // With argparse and most other parsers, the last occurrence of a flag wins.
    let flag = FLAG
        .captures_iter(words)
        .last()
        .and_then(|captures| captures[1].parse().ok())
        .filter(|port| *port > 0);
    flag.or_else(|| {
        let positional = words
            .split_once("http.server ")
            .and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
        positional.or_else(|| {
            let program = |word: &str| {
                word.trim_start_matches("exec ")
                    .rsplit('/')
                    .next()
                    .unwrap_or_default()
                    .to_owned()
            };
            words.split_whitespace().map(program).find_map(|word| {
                DEFAULTS
                    .iter()
                    .find(|(name, _)| *name == word)
                    .map(|(_, port)| *port)
            })
        })
    })
}

/// Returns true if the command starts Jupyter without a flag for its listen address. Jupyter then
/// listens on localhost, which is not reachable from outside the pod.
pub fn listens_on_loopback(job: &JobDocument) -> bool {
    let words = job.line();
    words.split_whitespace().any(|word| {
        word.rsplit('/')
            .next()
            .unwrap_or_default()
            .starts_with("jupyter")
    }) && !["--ip", "App.ip", "--config"]
        .iter()
        .any(|flag| words.contains(flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_comes_from_the_program_arguments() {
        for (words, port) in [
            (
                "jupyter-lab --ip=0.0.0.0 --port=8888 --no-browser",
                Some(8888),
            ),
            ("jupyter lab --ServerApp.port 9999", Some(9999)),
            ("/opt/conda/bin/jupyter lab", Some(8888)),
            (
                "code-server --bind-addr 0.0.0.0:8443 --auth none",
                Some(8443),
            ),
            ("code-server", Some(8080)),
            ("streamlit run app.py --server.port=80", Some(80)),
            ("python -m http.server 9000", Some(9000)),
            ("gunicorn -b 0.0.0.0:7000 app", Some(7000)),
            (
                "sh -c 'pip install x && jupyter lab --port 8890'",
                Some(8890),
            ),
            ("torchrun --master_port 29500 serve.py", None),
            ("python serve.py --dist-init-addr a:5000", None),
            (
                "python -m vllm.entrypoints.openai.api_server --model x --port 8001",
                Some(8001),
            ),
            ("python train.py --export 5", None),
        ] {
            assert_eq!(from_text(words), port, "{words}");
        }
    }
}
