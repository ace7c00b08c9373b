//! `cargo sandbox`: a cluster for trying out gpuctl. Builds missing parts, starts the cluster in
//! the background, runs gpuctl's main commands on it, and leaves it running. `cargo sandbox status`
//! shows the cluster, and `cargo sandbox down` stops it.

mod tour;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use gpuctl_sandbox::binaries::{Binaries, Extras, cache_folder};
use gpuctl_sandbox::exporter::Exporter;
use gpuctl_sandbox::{Cluster, Hardware, Options, Persona, Tty, load, node_requirements, nodes};

const USAGE: &str = "usage: cargo sandbox [up] [--real-node] | down | status | picture LINE [KEYS …]
  up           build missing parts, start the cluster, show gpuctl on it (the default)
  --real-node  add a real node to the simulated ones; runs real containers; needs Linux, root and a C compiler
  down         stop the cluster
  status       show whether the cluster runs
  picture      run a shell command in a terminal of 110 × 28, press the keys with pauses of some seconds, and print the screen as SVG
GPUCTL_SANDBOX_RUNNING sets another folder for the cluster's files, so that several clusters can run at once";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        [] | ["up"] => up(false),
        ["--real-node"] | ["up", "--real-node"] => up(true),
        ["down"] => down(),
        ["status"] => status(),
        ["picture", line, keys @ ..] => picture(line, keys),
        ["keep", folder] => keep(Path::new(folder), false),
        ["keep", folder, "--real-node"] => keep(Path::new(folder), true),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sandbox: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a program's terminal screen as SVG.
fn picture(line: &str, keys: &[&str]) -> Result<()> {
    let kubeconfig = folder()?.join("admin.kubeconfig").display().to_string();
    let mut tty = Tty::start(line, (110, 28), &[("KUBECONFIG", &kubeconfig)]);
    // The pauses give the program time to draw, and live values time to change.
    for keys in keys {
        thread::sleep(Duration::from_secs(6));
        tty.press(keys);
    }
    thread::sleep(Duration::from_secs(6));
    print!("{}", tty.picture());
    Ok(())
}

fn folder() -> Result<PathBuf> {
    match std::env::var_os("GPUCTL_SANDBOX_RUNNING") {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => Ok(cache_folder()?.join("running")),
    }
}

/// PID of the background process that holds the cluster, if it is running.
fn keeper(folder: &Path) -> Option<String> {
    let pid = fs::read_to_string(folder.with_extension("pid"))
        .ok()?
        .trim()
        .to_owned();
    let alive = Command::new("kill")
        .args(["-0", &pid])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    alive.then_some(pid)
}

fn up(real_node: bool) -> Result<()> {
    let folder = folder()?;
    if keeper(&folder).is_some() && folder.join("ready").exists() {
        println!("the sandbox already runs; `cargo sandbox down` stops it");
        return print_access(&folder);
    }
    if let Some(unmet_requirement) = real_node
        .then(node_requirements::unmet_requirement)
        .flatten()
    {
        bail!("{unmet_requirement}");
    }
    Binaries::ready(Extras {
        real_node,
        ..Extras::default()
    })?;
    let gpuctl = tour::build_gpuctl()?;
    let start = Instant::now();
    let _ = fs::remove_file(folder.join("ready"));
    let log =
        fs::File::create(folder.with_extension("log")).context("cannot write the sandbox's log")?;
    let mut child = Command::new(std::env::current_exe()?)
        .arg("keep")
        .arg(&folder)
        .args(real_node.then_some("--real-node"))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
        .context("cannot start the sandbox in the background")?;
    fs::write(folder.with_extension("pid"), child.id().to_string())?;
    while !folder.join("ready").exists() {
        if child.try_wait()?.is_some() || start.elapsed() > Duration::from_secs(180) {
            let log = fs::read_to_string(folder.with_extension("log")).unwrap_or_default();
            bail!("the cluster did not start: {}", log.trim());
        }
        thread::sleep(Duration::from_millis(100));
    }
    println!(
        "cluster up in {:.1} s: 12 simulated nodes with A100, H100, A10, MIG and MI300X GPUs\n",
        start.elapsed().as_secs_f32()
    );
    let kubeconfig = folder.join("admin.kubeconfig");
    tour::show(&gpuctl, &kubeconfig)?;
    if real_node {
        tour::show_real(&gpuctl, &kubeconfig)?;
    }
    print_access(&folder)
}

fn print_access(folder: &Path) -> Result<()> {
    println!("{}", fs::read_to_string(folder.join("ready"))?);
    Ok(())
}

fn down() -> Result<()> {
    let folder = folder()?;
    let Some(pid) = keeper(&folder) else {
        println!("no sandbox runs");
        return Ok(());
    };
    // The children are in a separate process group, which is killed once the keeper has ended.
    Command::new("kill")
        .args(["-KILL", &pid])
        .status()
        .context("cannot stop the sandbox")?;
    // Wait until no child can write to the folder before removing it.
    thread::sleep(Duration::from_millis(300));
    let _ = fs::remove_file(folder.with_extension("pid"));
    // A real node cleans up after its cluster has ended.
    let end = Instant::now() + Duration::from_secs(20);
    while real_node_folder(&folder).exists() {
        if Instant::now() > end {
            bail!(
                "the real node did not stop; see {}",
                real_node_folder(&folder).display()
            );
        }
        thread::sleep(Duration::from_millis(100));
    }
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    println!("the sandbox is down");
    Ok(())
}

fn real_node_folder(folder: &Path) -> PathBuf {
    PathBuf::from(format!("{}-node-0", folder.display()))
}

fn status() -> Result<()> {
    let folder = folder()?;
    match keeper(&folder) {
        Some(pid) if folder.join("ready").exists() => {
            println!("the sandbox runs (process {pid})");
            print_access(&folder)
        }
        Some(pid) => {
            println!("the sandbox is starting (process {pid})");
            Ok(())
        }
        None => {
            println!("no sandbox runs; `cargo sandbox` starts one");
            Ok(())
        }
    }
}

/// Runs in the background: holds the cluster, and writes the simulated pods' logs and metrics.
fn keep(folder: &Path, real_node: bool) -> Result<()> {
    let exporter = Exporter::start()?;
    let exporters = vec![exporter.address()];
    let options = Options {
        folder: Some(folder.to_owned()),
        exporters,
        with_real_nodes: real_node,
        ..Options::default()
    };
    let cluster = Cluster::start(&options)?;
    cluster.add_nodes(&nodes::fleet());
    if real_node {
        cluster.add_real_node(&Hardware::gpus(4).in_pool("real"))?;
    }
    exporter.change(|fleet| fleet.extra = tour::machines());
    cluster.publish_prometheus("monitoring");
    cluster.forward("default", &[8000, 8888], tour::page()?);
    let kubeconfig = cluster.kubeconfig(Persona::Admin);
    let text = format!(
        "Prometheus: {}\nexport KUBECONFIG={}",
        cluster.prometheus(),
        kubeconfig.display()
    );
    fs::write(folder.join("ready"), text)?;
    thread::scope(|scope| {
        scope.spawn(|| load::play(&cluster, &exporter, &nodes::fleet()));
        tour::write_logs(&cluster)
    })
}
