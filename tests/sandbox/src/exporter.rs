//! Simulates GPU metrics in the formats of real exporters. The caller describes the devices, so
//! tests can compare gpuctl's output with known values.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context, Result};

/// A simulated device or MIG instance.
#[derive(Clone, Debug, Default)]
pub struct Gpu {
    pub node: String,
    pub index: u32,
    pub uuid: String,
    /// The model name as NVIDIA's driver reports it.
    pub model: String,
    /// Pods that hold the device, as (namespace, pod, container). A shared device has several.
    pub pods: Vec<(String, String, String)>,
    /// MIG profile and instance.
    pub instance: Option<(String, u32)>,
    /// In percent.
    pub utilization: f64,
    /// Memory utilization (`MEM_COPY_UTIL` in DCGM), in percent.
    pub memory_copy: f64,
    pub used_mib: u64,
    pub free_mib: u64,
    pub watts: f64,
    pub limit_watts: f64,
    pub celsius: f64,
    /// Number of the last XID error, or 0.
    pub xid: u32,
    /// Whether the exporter omits the device.
    pub silent: bool,
    /// Timestamp of the samples in Unix milliseconds. Defaults to the time of the scrape.
    pub sampled_at: Option<i64>,
}

/// Which exporter to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Released dcgm-exporter, with the label `Hostname`.
    Dcgm,
    /// dcgm-exporter's main branch, with the label `hostname` and with fields that administrators
    /// often add: profiling and limits.
    DcgmNew,
    /// dcgm-exporter without Kubernetes, so without pod labels.
    DcgmPodless,
    Amd,
    /// AMD's exporter with the metric prefix of its example configuration.
    AmdPrefixed,
    /// `nvidia_gpu_*` metrics, which predate DCGM.
    Legacy,
}

impl Dialect {
    pub const ALL: &[Self] = &[
        Self::Dcgm,
        Self::DcgmNew,
        Self::DcgmPodless,
        Self::Amd,
        Self::AmdPrefixed,
        Self::Legacy,
    ];

    /// Path segment after `/metrics/`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dcgm => "dcgm",
            Self::DcgmNew => "dcgm-new",
            Self::DcgmPodless => "dcgm-podless",
            Self::Amd => "amd",
            Self::AmdPrefixed => "amd-prefixed",
            Self::Legacy => "legacy",
        }
    }

    /// Values that this exporter does not measure, and that tests ignore: `memory_copy`, `power` or
    /// `temperature`.
    pub fn lacks(self) -> &'static [&'static str] {
        match self {
            Self::Dcgm | Self::DcgmNew | Self::DcgmPodless | Self::Amd | Self::AmdPrefixed => &[],
            Self::Legacy => &["memory_copy"],
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Fleet {
    pub gpus: Vec<Gpu>,
    /// Adds an invalid sample for each valid one.
    pub garbage: bool,
    /// Exports devices in reverse order.
    pub reversed: bool,
    /// Additional lines in every dialect, such as metrics of node-exporter, the kubelet or a
    /// workload.
    pub extra: String,
}

/// A running exporter, which stops when the process ends.
#[derive(Clone)]
pub struct Exporter {
    port: u16,
    fleet: Arc<Mutex<Fleet>>,
}

impl Exporter {
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no free port on 127.0.0.1")?;
        let port = listener.local_addr()?.port();
        let fleet = Arc::new(Mutex::new(Fleet::default()));
        let shared = Arc::clone(&fleet);
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(&stream);
                let mut first = String::new();
                let _ = reader.read_line(&mut first);
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                    line.clear();
                }
                let path = first.split(' ').nth(1).unwrap_or_default();
                let name = path.strip_prefix("/metrics/").unwrap_or("dcgm");
                let dialect = Dialect::ALL
                    .iter()
                    .copied()
                    .find(|dialect| dialect.name() == name);
                let fleet = shared.lock().expect("no holder panics").clone();
                let body =
                    dialect.map_or_else(|| fleet.extra.clone(), |dialect| text(&fleet, dialect));
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                // A scraper that has disconnected does not need a response.
                let _ = stream.write_all((head + &body).as_bytes());
            }
        });
        Ok(Self { port, fleet })
    }

    /// `host:port`, as a scrape target.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Changes the exported devices and options.
    pub fn change(&self, change: impl FnOnce(&mut Fleet)) {
        change(&mut self.fleet.lock().expect("no holder panics"));
    }
}

/// A metric family: its name, and a function that returns its value for a device.
type Family = (String, fn(&Gpu) -> Option<String>);

fn text(fleet: &Fleet, dialect: Dialect) -> String {
    let mut text = String::new();
    for (name, value) in families(dialect) {
        let _ = writeln!(text, "# HELP {name} simulated\n# TYPE {name} gauge");
        let mut gpus: Vec<&Gpu> = fleet.gpus.iter().filter(|gpu| !gpu.silent).collect();
        if fleet.reversed {
            gpus.reverse();
        }
        for gpu in gpus {
            let Some(value) = value(gpu) else { continue };
            let at = gpu.sampled_at.map_or(String::new(), |at| format!(" {at}"));
            // A shared device has one sample per pod.
            let holders: Vec<Option<&(String, String, String)>> = match gpu.pods.as_slice() {
                [] => vec![None],
                pods => pods.iter().map(Some).collect(),
            };
            for holder in holders {
                let _ = writeln!(
                    text,
                    "{name}{{{}}} {value}{at}",
                    labels(gpu, holder, dialect)
                );
            }
            if fleet.garbage {
                let ghost = Gpu {
                    index: gpu.index + 100,
                    uuid: format!("{}-ghost", gpu.uuid),
                    ..gpu.clone()
                };
                let nonsense = if name.contains("UTIL") || name.contains("activity") {
                    "9223372036854775794"
                } else {
                    "NaN"
                };
                let _ = writeln!(
                    text,
                    "{name}{{{}}} {nonsense}",
                    labels(&ghost, gpu.pods.first(), dialect)
                );
            }
        }
    }
    text + &fleet.extra
}

fn families(dialect: Dialect) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    let mut add =
        |name: &str, value: fn(&Gpu) -> Option<String>| families.push((name.to_owned(), value));
    match dialect {
        Dialect::Dcgm | Dialect::DcgmNew | Dialect::DcgmPodless => {
            // DCGM has no GPU_UTIL for MIG instances.
            add("DCGM_FI_DEV_GPU_UTIL", |gpu| {
                gpu.instance
                    .is_none()
                    .then(|| format!("{}", gpu.utilization))
            });
            add("DCGM_FI_DEV_MEM_COPY_UTIL", |gpu| {
                gpu.instance
                    .is_none()
                    .then(|| format!("{}", gpu.memory_copy))
            });
            add("DCGM_FI_DEV_FB_USED", |gpu| Some(gpu.used_mib.to_string()));
            add("DCGM_FI_DEV_FB_FREE", |gpu| Some(gpu.free_mib.to_string()));
            add("DCGM_FI_DEV_POWER_USAGE", |gpu| {
                Some(format!("{:.6}", gpu.watts))
            });
            add("DCGM_FI_DEV_GPU_TEMP", |gpu| {
                Some(format!("{}", gpu.celsius))
            });
            add("DCGM_FI_DEV_XID_ERRORS", |gpu| Some(gpu.xid.to_string()));
            add("DCGM_FI_PROF_GR_ENGINE_ACTIVE", |gpu| {
                gpu.instance
                    .is_some()
                    .then(|| format!("{:.6}", gpu.utilization / 100.0))
            });
            if dialect == Dialect::DcgmNew {
                add("DCGM_FI_PROF_DRAM_ACTIVE", |gpu| {
                    Some(format!("{:.6}", gpu.memory_copy / 100.0))
                });
                add("DCGM_FI_DEV_FB_RESERVED", |_| Some("480".to_owned()));
                add("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", |gpu| {
                    Some(format!("{:.6}", gpu.limit_watts))
                });
                add("DCGM_FI_DEV_ROW_REMAP_FAILURE", |_| Some("0".to_owned()));
            }
        }
        Dialect::Amd | Dialect::AmdPrefixed => {
            let prefix = if dialect == Dialect::Amd { "" } else { "amd_" };
            let mut add = |name: &str, value: fn(&Gpu) -> Option<String>| {
                add(&format!("{prefix}{name}"), value)
            };
            add("gpu_gfx_activity", |gpu| {
                Some(format!("{}", gpu.utilization))
            });
            add("gpu_umc_activity", |gpu| {
                Some(format!("{}", gpu.memory_copy))
            });
            add("gpu_used_vram", |gpu| Some(gpu.used_mib.to_string()));
            add("gpu_free_vram", |gpu| Some(gpu.free_mib.to_string()));
            add("gpu_total_vram", |gpu| {
                Some((gpu.used_mib + gpu.free_mib).to_string())
            });
            add("gpu_package_power", |gpu| Some(format!("{}", gpu.watts)));
            add("gpu_junction_temperature", |gpu| {
                Some(format!("{}", gpu.celsius))
            });
            add("gpu_health", |gpu| {
                Some(if gpu.xid == 0 { "1" } else { "0" }.to_owned())
            });
        }
        Dialect::Legacy => {
            add("nvidia_gpu_duty_cycle", |gpu| {
                Some(format!("{}", gpu.utilization))
            });
            add("nvidia_gpu_memory_used_bytes", |gpu| {
                Some((gpu.used_mib << 20).to_string())
            });
            add("nvidia_gpu_memory_total_bytes", |gpu| {
                Some(((gpu.used_mib + gpu.free_mib) << 20).to_string())
            });
            add("nvidia_gpu_power_usage_milliwatts", |gpu| {
                Some(format!("{:.0}", gpu.watts * 1000.0))
            });
            add("nvidia_gpu_temperature_celsius", |gpu| {
                Some(format!("{}", gpu.celsius))
            });
        }
    }
    families
}

fn labels(gpu: &Gpu, holder: Option<&(String, String, String)>, dialect: Dialect) -> String {
    let Gpu {
        node,
        index,
        uuid,
        model,
        ..
    } = gpu;
    let (namespace, pod, container) = holder.map_or(("", "", ""), |(namespace, pod, container)| {
        (namespace.as_str(), pod.as_str(), container.as_str())
    });
    match dialect {
        Dialect::Dcgm | Dialect::DcgmNew | Dialect::DcgmPodless => {
            let host = if dialect == Dialect::DcgmNew {
                "hostname"
            } else {
                "Hostname"
            };
            let mut text = format!(
                "gpu=\"{index}\",UUID=\"{uuid}\",pci_bus_id=\"00000000:{index:02X}:00.0\",device=\"nvidia{index}\",modelName=\"{model}\""
            );
            if let Some((profile, instance)) = &gpu.instance {
                let _ = write!(text, ",GPU_I_PROFILE=\"{profile}\",GPU_I_ID=\"{instance}\"");
            }
            let _ = write!(
                text,
                ",{host}=\"{node}\",DCGM_FI_DRIVER_VERSION=\"570.124.06\""
            );
            if holder.is_some() && dialect != Dialect::DcgmPodless {
                let _ = write!(
                    text,
                    ",container=\"{container}\",namespace=\"{namespace}\",pod=\"{pod}\""
                );
            }
            text
        }
        // This exporter writes empty pod labels for a free device.
        Dialect::Amd | Dialect::AmdPrefixed => format!(
            "card_model=\"102-G30211-0C\",card_series=\"{model}\",container=\"{container}\",gpu_compute_partition_type=\"spx\",gpu_id=\"{index}\",gpu_memory_partition_type=\"nps1\",gpu_partition_id=\"0\",hostname=\"{node}\",job_id=\"\",namespace=\"{namespace}\",pod=\"{pod}\",serial_number=\"{uuid}\""
        ),
        Dialect::Legacy => {
            let mut text = format!(
                "minor_number=\"{index}\",uuid=\"{uuid}\",name=\"{model}\",node_name=\"{node}\""
            );
            if holder.is_some() {
                let _ = write!(
                    text,
                    ",container_name=\"{container}\",namespace_name=\"{namespace}\",pod_name=\"{pod}\""
                );
            }
            text
        }
    }
}
