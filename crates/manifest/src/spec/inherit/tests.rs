//! Tests which values a job inherits from the site's defaults.

use super::super::{Document, JobDocument, parse};
use super::*;

fn job(fields: &str) -> JobDocument {
    let text = format!("version: v1\nenvironment: {{image: a}}\n{fields}");
    match parse("job", &text)
        .unwrap_or_else(|problems| panic!("{:?}", problems.list))
        .documents
        .remove(0)
    {
        Document::Job(job) => *job,
        other => panic!("{other:?}"),
    }
}

fn site(text: &str) -> SiteDefaults {
    let text = format!("kind: defaults\nversion: v1\n{text}");
    match parse("site", &text)
        .unwrap_or_else(|problems| panic!("{:?}", problems.list))
        .documents
        .remove(0)
    {
        Document::Defaults(site) => *site,
        other => panic!("{other:?}"),
    }
}

fn inherited(job: &JobDocument) -> Vec<String> {
    let mark = |inherited: &Inherited| if inherited.replaced { " instead" } else { "" };
    job.site
        .inherited
        .iter()
        .map(|inherited| {
            format!(
                "{}={} ({}){}",
                inherited.field,
                inherited.value,
                inherited.scope,
                mark(inherited)
            )
        })
        .collect()
}

const SITE: &str = "
all: {queue: common, priority: low, env: {A: all, B: all}, shm: 8Gi, pool: shared, storage_class: slow, tolerations: [{key: x}]}
kinds: {training: {priority: medium, env: {B: kind}, keep_for: 7d}, notebook: {queue: books}}
pools: {big: {env: {B: pool, C: pool}, tolerations: [{key: x}, {key: y, value: z, effect: NoExecute}], node_selector: {zone: a}}}
";

#[test]
fn the_nearest_scope_wins_and_values_of_the_file_stay() {
    let mut training = job(
        "kind: training\njob: {name: t, priority: high}\nresources: {gpu: 1, pool: big}\nstorage: {workdirs: [{path: /d, size: 1Gi}, {path: /e, size: 1Gi, storageClass: own}]}\n",
    );
    inherit(&mut training, &site(SITE));
    assert_eq!(
        inherited(&training),
        [
            "job.queue=common (all)",
            "job.keep_for=7d (kind training)",
            "environment.env.B=pool (pool big)",
            "environment.env.C=pool (pool big)",
            "environment.env.A=all (all)",
            "resources.shm=8Gi (all)",
            "storage.workdirs[/d].storageClass=slow (all)",
            "tolerations.x=NoSchedule (pool big)",
            "tolerations.y=z=NoExecute (pool big)",
            "node_selector.zone=a (pool big)",
        ]
    );
    assert_eq!(
        training.training.keep_for,
        Some(Duration::from_secs(7 * 86_400))
    );
    let mut book = job("kind: notebook\njob: {name: n}\nenvironment: {image: b}\n"
        .replace("environment: {image: b}\n", "")
        .as_str());
    inherit(&mut book, &site(SITE));
    assert_eq!(book.queue.as_deref(), Some("books"));
    assert_eq!(
        book.resources.pool.map(|pool| pool.value).as_deref(),
        Some("shared")
    );
    assert!(book.training.keep_for.is_none());
}

#[test]
fn a_job_without_a_pool_gets_none_and_shared_memory_fits_its_memory() {
    let mut pool_less =
        job("kind: training\njob: {name: t}\nresources: {gpu: 1, pool: default, memory: 4Gi}\n");
    inherit(&mut pool_less, &site(SITE));
    assert!(
        pool_less.resources.pool.is_none() && pool_less.resources.shm.is_none(),
        "{:?}",
        inherited(&pool_less)
    );
    let mut memory_less = job("kind: compute\njob: {name: c}\nservice: {port: 80}\n");
    inherit(&mut memory_less, &site(SITE));
    assert!(memory_less.resources.shm.is_none());
}

#[test]
fn enforced_values_replace_those_of_the_file_and_are_reported() {
    let rules = site(
        "all: {queue: common, env: {HTTP_PROXY: 'http://p', API_TOKEN: abcdef}, labels: {site: b}, enforced: [queue, env, labels]}\npools: {big: {queue: large}}\n",
    );
    let mut enforced_job = job(
        "kind: training\njob: {name: t, queue: mine, labels: {site: a, mine: x}}\nresources: {gpu: 1, pool: big}\n",
    );
    enforced_job.env.push(super::super::EnvVariable {
        name: "HTTP_PROXY".to_owned(),
        value: EnvValue::Text(String::new()),
    });
    inherit(&mut enforced_job, &rules);
    assert_eq!(
        inherited(&enforced_job),
        [
            "job.queue=large (pool big) instead",
            "job.labels.site=b (all) instead",
            "environment.env.HTTP_PROXY=http://p (all) instead",
            "environment.env.API_TOKEN=••• (all)",
        ]
    );
    assert_eq!(
        enforced_job.labels,
        [
            ("site".to_owned(), "b".to_owned()),
            ("mine".to_owned(), "x".to_owned())
        ]
    );
}

#[test]
fn variables_that_change_programs_need_permission_of_the_site() {
    let text = "all: {env: {LD_PRELOAD: /x.so, PYTHONPATH: /p, TZ: UTC}, labels: {app: web, site: b}, annotations: {gpuctl/source: x}, enforced: [env]}\n";
    let mut denied = job("kind: training\njob: {name: t}\n");
    inherit(&mut denied, &site(text));
    assert_eq!(
        inherited(&denied),
        ["job.labels.site=b (all)", "environment.env.TZ=UTC (all)"]
    );
    assert_eq!(denied.site.withheld.len(), 4, "{:?}", denied.site.withheld);
    assert!(
        denied
            .site
            .withheld
            .iter()
            .any(|why| why.contains("`LD_PRELOAD`") && why.contains("allow_env"))
    );
    let mut allowed = job("kind: training\njob: {name: t}\n");
    inherit(
        &mut allowed,
        &site(&format!("allow_env: [LD_PRELOAD, 'PYTHON*']\n{text}")),
    );
    assert_eq!(allowed.env.len(), 3, "{:?}", inherited(&allowed));
    let mut partly_allowed = job("kind: training\njob: {name: t}\n");
    inherit(
        &mut partly_allowed,
        &site(&format!("allow_env: ['*', '']\n{text}")),
    );
    assert_eq!(
        partly_allowed.env.len(),
        1,
        "{:?}",
        inherited(&partly_allowed)
    );
}

#[test]
fn a_training_without_a_runtime_gets_the_maximum() {
    let rules = site("all: {limits: {max_runtime: 2d}}\n");
    let mut unlimited = job("kind: training\njob: {name: t}\n");
    inherit(&mut unlimited, &rules);
    assert_eq!(
        unlimited.training.max_runtime,
        Some(Duration::from_secs(172_800))
    );
    assert_eq!(
        inherited(&unlimited),
        ["job.max_runtime=2d, the site's limit (all)"]
    );
    let mut limited = job("kind: training\njob: {name: t, max_runtime: 1h}\n");
    inherit(&mut limited, &rules);
    assert_eq!(
        limited.training.max_runtime,
        Some(Duration::from_secs(3600))
    );
}
