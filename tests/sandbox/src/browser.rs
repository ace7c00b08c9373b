//! A real headless Chromium, which opens the pages that gpuctl writes. It is downloaded once, as an
//! npm package, and controlled through the Chrome DevTools Protocol.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use crate::binaries::cache_folder;

/// The npm package that contains the browser. npm verifies its digest.
const PACKAGE: &str = "@sparticuz/chromium@153.0.0";

/// Decompresses the package's Brotli files (the browser and its libraries) with Node.js, which has
/// Brotli built in.
const UNPACK: &str = "const z=require('zlib'),f=require('fs');for(const n of ['chromium','al2023.tar','swiftshader.tar'])\
f.writeFileSync(n,z.brotliDecompressSync(f.readFileSync('package/bin/'+n+'.br')));";

/// A running browser. It ends when this value is dropped.
pub struct Browser {
    child: Child,
    port: u16,
    profile: PathBuf,
}

/// Downloads the browser if necessary and returns its folder. Errors name the missing requirement.
pub fn ready() -> Result<PathBuf> {
    let folder = cache_folder()?.join(PACKAGE.replace(['/', '@'], "-").trim_matches('-'));
    if folder.join("ready").exists() {
        return Ok(folder);
    }
    fs::create_dir_all(&folder)?;
    let run = |program: &str, arguments: &[&str]| -> Result<String> {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(&folder)
            .stderr(Stdio::piped())
            .output()
            .with_context(|| {
                format!("the browser is an npm package, but there is no `{program}` in PATH")
            })?;
        ensure!(
            output.status.success(),
            "{program} failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let packed = run("npm", &["pack", "--silent", PACKAGE])?;
    let packed = packed
        .lines()
        .last()
        .context("npm did not print a file name")?;
    run("tar", &["xzf", packed])?;
    run("node", &["-e", UNPACK])?;
    run("tar", &["xf", "al2023.tar"])?;
    run("tar", &["xf", "swiftshader.tar"])?;
    run("chmod", &["+x", "chromium"])?;
    for archive in [packed, "al2023.tar", "swiftshader.tar"] {
        fs::remove_file(folder.join(archive))?;
    }
    fs::remove_dir_all(folder.join("package"))?;
    fs::write(folder.join("ready"), "")?;
    Ok(folder)
}

impl Browser {
    /// Starts the browser with a temporary profile.
    pub fn start() -> Result<Self> {
        let folder = ready()?;
        let profile = std::env::temp_dir().join(format!("gpuctl-browser-{}", std::process::id()));
        fs::create_dir_all(&profile)?;
        let libraries = format!("{}:{}", folder.join("lib").display(), folder.display());
        let child = Command::new(folder.join("chromium"))
            .env("LD_LIBRARY_PATH", libraries)
            .args([
                "--headless",
                "--no-sandbox",
                "--no-zygote",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ])
            .args(["--remote-debugging-port=0", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the browser")?;
        let mut browser = Self {
            child,
            port: 0,
            profile,
        };
        let end = Instant::now() + Duration::from_secs(60);
        // The browser writes this file once it is listening.
        while browser.port == 0 {
            let port_file =
                fs::read_to_string(browser.profile.join("DevToolsActivePort")).unwrap_or_default();
            browser.port = port_file
                .lines()
                .next()
                .and_then(|line| line.parse().ok())
                .unwrap_or(0);
            ensure!(
                Instant::now() < end,
                "the browser did not listen within 60 s"
            );
            thread::sleep(Duration::from_millis(100));
        }
        Ok(browser)
    }

    /// Opens a file and returns the value of a JavaScript expression, plus the page's network
    /// requests, exceptions and log entries. A correct page has none of these.
    pub fn open(&self, page: &Path, expression: &str) -> Result<(Value, Vec<Value>)> {
        let mut tab = self.tab(page)?;
        let value = tab.evaluate(expression)?;
        let reported = [
            "Network.requestWillBeSent",
            "Runtime.exceptionThrown",
            "Log.entryAdded",
        ];
        tab.events
            .retain(|message| reported.iter().any(|method| message["method"] == *method));
        Ok((value, tab.events))
    }

    /// Opens a file in a new tab, and waits until it is complete.
    pub fn tab(&self, page: &Path) -> Result<Tab> {
        let target: Value = serde_json::from_str(&self.put("/json/new?about:blank")?)?;
        let address = target["webSocketDebuggerUrl"]
            .as_str()
            .context("the browser did not return a debugger address")?;
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let (socket, _) =
            tungstenite::client(address, stream).context("the browser does not answer")?;
        let mut tab = Tab {
            socket,
            number: 0,
            events: Vec::new(),
        };
        for domain in [
            "Page.enable",
            "Network.enable",
            "Runtime.enable",
            "Log.enable",
        ] {
            tab.call(domain, json!({}))?;
        }
        let url = format!("file://{}", page.display());
        tab.call("Page.navigate", json!({"url": url}))?;
        let end = Instant::now() + Duration::from_secs(20);
        let is_complete = "document.readyState === 'complete' && location.protocol === 'file:'";
        while tab.evaluate(is_complete)? != true {
            ensure!(
                Instant::now() < end,
                "the page was not complete within 20 s"
            );
            thread::sleep(Duration::from_millis(50));
        }
        Ok(tab)
    }

    fn put(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        write!(
            stream,
            "PUT {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n",
            self.port
        )?;
        // The browser keeps the connection open despite `Connection: close`.
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            ensure!(
                reader.read_line(&mut line)? > 0,
                "the browser did not answer"
            );
            if let Some((_, number)) = line
                .split_once(':')
                .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            {
                length = number.trim().parse()?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        Ok(String::from_utf8(body)?)
    }
}

/// An open page.
pub struct Tab {
    socket: WebSocket<TcpStream>,
    number: u64,
    /// Messages from the browser that answer no call.
    events: Vec<Value>,
}

impl Tab {
    /// Shows the page with this width in CSS pixels, on a screen or as it is printed.
    pub fn resize(&mut self, width: u32, is_print: bool) -> Result<()> {
        let media = if is_print { "print" } else { "screen" };
        self.call("Emulation.setEmulatedMedia", json!({"media": media}))?;
        let size = json!({"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        Ok(())
    }

    /// Returns the value of a JavaScript expression.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let parameters = json!({"expression": expression, "returnByValue": true});
        let value = self.call("Runtime.evaluate", parameters)?;
        if !value["exceptionDetails"].is_null() {
            bail!("{value:#}");
        }
        Ok(value["result"]["value"].clone())
    }

    fn call(&mut self, method: &str, parameters: Value) -> Result<Value> {
        self.number += 1;
        let request = json!({"id": self.number, "method": method, "params": parameters});
        self.socket.send(Message::text(request.to_string()))?;
        loop {
            let Message::Text(text) = self.socket.read()? else {
                continue;
            };
            let message: Value = serde_json::from_str(&text)?;
            if message["id"] == self.number {
                return Ok(message["result"].clone());
            }
            self.events.push(message);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.profile);
    }
}
