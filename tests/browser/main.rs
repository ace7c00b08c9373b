//! Opens the page that `report -o html` writes in a real headless Chromium. The page must show its
//! plots and numbers, run no scripts and send no requests. `cargo reality` runs this test, because
//! npm must download the browser once.
#![expect(clippy::disallowed_methods, reason = "tests arrange files and clocks")]

use std::fmt::Write as _;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use gpuctl_sandbox::browser::Browser;
use gpuctl_sandbox::{Cluster, Options, Persona};
use serde_json::{Value, json};

const HOUR: i64 = 3600;

/// Returns two hours of samples for two pods. One pod has a label that contains HTML markup.
fn history(begin: i64) -> String {
    let mut text = String::new();
    let mut put = |series: String, value: &dyn Fn(i64) -> i64| {
        for at in (0..2 * HOUR).step_by(60) {
            writeln!(text, "{series} {} {}", value(at), begin + at).unwrap();
        }
    };
    put(
        "kube_node_status_capacity{node=\"n\",resource=\"nvidia_com_gpu\"}".to_owned(),
        &|_| 8,
    );
    for (pod, team, gpu) in [
        ("a", "<img src=x onerror=alert(1)>", 0),
        ("b", "research", 1),
    ] {
        let id = format!("namespace=\"ml\",pod=\"{pod}\",uid=\"u-{pod}\"");
        let labels = format!("{id},container=\"c\",node=\"n\",resource=\"nvidia_com_gpu\"");
        put(
            format!("kube_pod_container_resource_requests{{{labels}}}"),
            &|_| 1,
        );
        put(
            format!("kube_pod_status_phase{{{id},phase=\"Running\"}}"),
            &|_| 1,
        );
        put(
            format!("kube_pod_owner{{{id},owner_kind=\"Job\",owner_name=\"{pod}\"}}"),
            &|_| 1,
        );
        put(
            format!("kube_pod_labels{{{id},label_team=\"{team}\"}}"),
            &|_| 1,
        );
        put(
            format!("DCGM_FI_DEV_GPU_UTIL{{{id},Hostname=\"n\",gpu=\"{gpu}\",UUID=\"GPU-{gpu}\"}}"),
            &move |_| 25 + 50 * gpu,
        );
    }
    text + "# EOF\n"
}

#[test]
fn the_page_of_a_report_shows_plots_and_runs_no_script() {
    let cluster = Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"));
    let now = i64::try_from(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs(),
    )
    .unwrap();
    let begin = (now / HOUR - 4) * HOUR;
    let folder = cluster.folder();
    let file = folder.join("page.om");
    std::fs::write(&file, history(begin)).unwrap();
    let promtool = Command::new(cluster.binary("promtool"))
        .args(["tsdb", "create-blocks-from", "openmetrics"])
        .args([&file, &folder.join("page-tsdb")])
        .output()
        .unwrap();
    assert!(
        promtool.status.success(),
        "{}",
        String::from_utf8_lossy(&promtool.stderr)
    );
    let store = cluster.another_prometheus("page", &json!([])).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuctl"));
    command
        .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin))
        .env("GPUCTL_PROMETHEUS", &store);
    command.args([
        "report",
        "--by",
        "team",
        "-o",
        "html",
        "--start",
        &begin.to_string(),
        "--end",
        &(begin + 2 * HOUR).to_string(),
    ]);
    let page = folder.join("report.html");
    let report = command.output().unwrap();
    assert!(
        report.status.success(),
        "{}",
        String::from_utf8_lossy(&report.stderr)
    );
    std::fs::write(&page, report.stdout).unwrap();

    let browser = Browser::start().unwrap_or_else(|error| panic!("{error:#}"));
    let script = "({
        title: document.title,
        rows: [...document.querySelectorAll('#groups tbody tr')].map(row => [...row.cells].map(cell => cell.innerText)),
        plots: [...document.querySelectorAll('svg')].map(plot => {
            const box = plot.getBoundingClientRect();
            const bars = [...plot.querySelectorAll('rect')].map(bar => bar.getBBox().height).filter(height => height > 5);
            return {width: box.width, height: box.height, bars: bars.length, words: plot.textContent};
        }),
        scripts: document.scripts.length, images: document.images.length,
    })";
    let (content, requests) = browser
        .open(&page, script)
        .unwrap_or_else(|error| panic!("{error:#}"));
    let title = content["title"].as_str().unwrap();
    assert!(
        title.starts_with("GPU-hours by team in ") && title.contains(" to "),
        "{title}"
    );
    assert_eq!(
        (&content["scripts"], &content["images"]),
        (&json!(0), &json!(0)),
        "names are escaped"
    );
    let cells = |row: usize| content["rows"][row].as_array().unwrap().clone();
    assert_eq!(
        (
            cells(0)[0].clone(),
            cells(1)[0].clone(),
            cells(2)[0].clone()
        ),
        (
            json!("<img src=x onerror=alert(1)>"),
            json!("research"),
            json!("total")
        )
    );
    // GPU-hours held, used and wasted: each pod held one GPU for two hours, the first at 25 % and
    // the second at 75 %.
    assert_eq!(cells(0)[3..6], [json!("2.0"), json!("0.5"), json!("1.5")]);
    assert_eq!(cells(1)[3..6], [json!("2.0"), json!("1.5"), json!("0.5")]);
    assert_eq!(cells(2)[3..6], [json!("4.0"), json!("2.0"), json!("2.0")]);
    let plots = content["plots"].as_array().unwrap();
    assert_eq!(plots.len(), 2);
    for plot in plots {
        let size = (
            plot["width"].as_f64().unwrap(),
            plot["height"].as_f64().unwrap(),
        );
        assert!(size.0 > 300.0 && size.1 > 100.0, "{plot:#}");
        // Bars for used and wasted hours, of two groups or over two hours, plus the background.
        assert!(plot["bars"].as_u64().unwrap() >= 4, "{plot:#}");
        assert!(
            plot["words"].as_str().unwrap().contains("GPU-hours"),
            "{plot:#}"
        );
    }
    let outside: Vec<&Value> = requests
        .iter()
        .filter(|message| {
            !message["params"]["request"]["url"]
                .as_str()
                .is_some_and(|url| url.starts_with("file:"))
        })
        .collect();
    assert!(outside.is_empty(), "the page sends requests: {outside:#?}");
    assert!(requests.len() <= 1, "{requests:#?}");

    // Nothing is cut off on a phone, on a laptop, on a wide screen, or on A4 in print. 1031 and 703
    // pixels are 297 and 210 mm without margins of 12 mm, at 96 pixels per inch.
    let mut tab = browser
        .tab(&page)
        .unwrap_or_else(|error| panic!("{error:#}"));
    for (width, is_print) in [
        (600, false),
        (1000, false),
        (1400, false),
        (1031, true),
        (703, true),
    ] {
        tab.resize(width, is_print).unwrap();
        let cut = tab
            .evaluate(CUT_OFF)
            .unwrap_or_else(|error| panic!("{error:#}"));
        assert_eq!(cut, json!([]), "{width} pixels, print: {is_print}");
    }
}

/// Lists what extends beyond the page, and text that extends beyond its plot.
const CUT_OFF: &str = "(() => {
    const width = document.documentElement.clientWidth;
    const beyond = element => {
        const box = element.getBoundingClientRect();
        return box.width > 0 && (box.right > width + 0.5 || box.left < -0.5);
    };
    const clipped = element => element.scrollWidth > element.clientWidth + 1;
    const outside = text => {
        const [box, plot] = [text, text.closest('svg')].map(part => part.getBoundingClientRect());
        return box.right > plot.right + 0.5 || box.left < plot.left - 0.5
            || box.bottom > plot.bottom + 0.5 || box.top < plot.top - 0.5;
    };
    const all = selector => [...document.querySelectorAll(selector)];
    return [
        ...all('h1, h2, p, li, table, th, td, svg').filter(beyond),
        ...all('h1, h2, p, li, th, td').filter(clipped),
        ...all('svg text').filter(outside),
    ].map(element => element.tagName + ': ' + element.textContent);
})()";
