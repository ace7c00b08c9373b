//! Compares a job with the site's limits. If several scopes set a limit, the most specific one
//! applies: pool, then kind, then all.

use super::defaults_document::{Defaults, SiteDefaults};
use super::document::JobDocument;
use gpuctl_core::error::{FilePosition, Problem};
use gpuctl_core::model::values::quantity;

/// Reports every limit that the job exceeds. The problem has the position of the field if it is
/// known, or else of the job's name.
pub fn over_limits(job: &JobDocument, site: &SiteDefaults) -> Vec<Problem> {
    let pool = job.resources.pool.as_ref().map(|pool| pool.value.as_str());
    let mut check = LimitCheck {
        job,
        scopes: site.scopes(job.kind, pool),
        problems: Vec::new(),
    };
    check.gpus();
    check.counts();
    check.amounts();
    check.run_time();
    check.problems
}

/// Compares one job with the limits of its scopes.
struct LimitCheck<'a> {
    job: &'a JobDocument,
    /// Scopes of the job, the most specific first.
    scopes: Vec<(String, &'a Defaults)>,
    problems: Vec<Problem>,
}

impl LimitCheck<'_> {
    /// Returns the most specific limit and its scope.
    fn nearest<T>(&self, field: impl Fn(&Defaults) -> Option<T>) -> Option<(String, T)> {
        self.scopes
            .iter()
            .find_map(|(scope, set)| Some((scope.clone(), field(set)?)))
    }

    fn exceeded(&mut self, at: Option<FilePosition>, scope: &str, requested: &str, limit: &str) {
        let message = format!("{requested}; the site allows {limit} (defaults, {scope})");
        self.problems.push(Problem::error(
            at.unwrap_or(self.job.name.at),
            message,
            "request less; `gpuctl get defaults` lists the limits",
        ));
    }

    fn gpus(&mut self) {
        let (resources, pods) = (&self.job.resources, pods(self.job));
        let Some((scope, limit)) = self.nearest(|set| set.limits.gpu) else {
            return;
        };
        let total = u64::from(resources.gpu) * u64::from(pods);
        if total > u64::from(limit) {
            let described = if pods > 1 {
                format!("{} GPUs × {pods} pods = {total} GPUs", resources.gpu)
            } else {
                format!("{total} GPUs")
            };
            self.exceeded(
                resources.gpu_at,
                &scope,
                &described,
                &format!("{limit} GPUs a job"),
            );
        }
    }

    /// Checks the numbers of replicas and nodes.
    fn counts(&mut self) {
        let counted = [
            (
                replicas(self.job),
                "replicas",
                self.nearest(|set| set.limits.replicas)
                    .filter(|_| self.job.kind.serves()),
            ),
            (
                self.job.resources.node_count,
                "nodes",
                self.nearest(|set| set.limits.node_count),
            ),
        ];
        for (count, unit, limit) in counted {
            let Some((scope, max)) = limit.filter(|(_, max)| count > *max) else {
                continue;
            };
            let unit = if count == 1 {
                unit.trim_end_matches('s')
            } else {
                unit
            };
            self.exceeded(None, &scope, &format!("{count} {unit}"), &max.to_string());
        }
    }

    /// Checks CPU and memory per pod.
    fn amounts(&mut self) {
        let cpu = self.nearest(|set| set.limits.cpu.clone());
        let memory = self.nearest(|set| set.limits.memory.clone());
        for (field, requested, limit) in [
            ("cpu", &self.job.resources.cpu, cpu),
            ("memory", &self.job.resources.memory, memory),
        ] {
            let (Some(requested), Some((scope, max))) = (requested, limit) else {
                continue;
            };
            if quantity::milli(requested) > quantity::milli(&max) {
                self.exceeded(
                    None,
                    &scope,
                    &format!("`{field}` is {requested} per pod"),
                    &max,
                );
            }
        }
    }

    fn run_time(&mut self) {
        if let (Some(requested), Some((scope, limit))) = (
            self.job.training.max_runtime,
            self.nearest(|set| set.limits.max_runtime),
        ) && requested > limit
        {
            self.exceeded(
                None,
                &scope,
                &format!("`max_runtime` of {}", quantity::duration_text(requested)),
                &quantity::duration_text(limit),
            );
        }
    }
}

/// Returns the highest number of pods that the job can have.
fn pods(job: &JobDocument) -> u32 {
    replicas(job) * job.resources.node_count
}

fn replicas(job: &JobDocument) -> u32 {
    if !job.kind.serves() {
        return 1;
    }
    let scaled = job
        .autoscaling
        .as_ref()
        .filter(|scaling| scaling.enabled)
        .map(|scaling| scaling.max_replicas);
    scaled
        .into_iter()
        .chain(job.service.as_ref().map(|service| service.replicas))
        .max()
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::super::{Document, parse};
    use super::*;

    fn problems_of(job: &str, site: &str) -> Vec<String> {
        let read = |text: &str| {
            parse("", &format!("version: v1\n{text}"))
                .unwrap_or_else(|problems| panic!("{:?}", problems.list))
                .documents
                .remove(0)
        };
        match (
            read(&format!("environment: {{image: a}}\n{job}")),
            read(&format!("kind: defaults\n{site}")),
        ) {
            (Document::Job(job), Document::Defaults(site)) => over_limits(&job, &site)
                .into_iter()
                .map(|problem| format!("{}: {}", problem.at.line, problem.message))
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_exceeded_limit_is_reported_with_its_scope() {
        let site = "all: {limits: {gpu: 8, node_count: 2, cpu: 16, memory: 64Gi, max_runtime: 1d}}\npools: {big: {limits: {gpu: 32}}}\n";
        let job = |pool: &str| {
            format!(
                "kind: training\njob: {{name: t, max_runtime: 25h}}\nresources:\n  gpu: 8\n  node_count: 3\n  cpu: 16500m\n  memory: 65Gi\n{pool}"
            )
        };
        assert_eq!(
            problems_of(&job(""), site),
            [
                "6: 8 GPUs × 3 pods = 24 GPUs; the site allows 8 GPUs a job (defaults, all)",
                "4: 3 nodes; the site allows 2 (defaults, all)",
                "4: `cpu` is 16500m per pod; the site allows 16 (defaults, all)",
                "4: `memory` is 65Gi per pod; the site allows 64Gi (defaults, all)",
                "4: `max_runtime` of 25h; the site allows 1d (defaults, all)",
            ]
        );
        assert!(
            problems_of(&job("  pool: big\n"), site)
                .iter()
                .all(|line| !line.contains("GPUs"))
        );
    }

    #[test]
    fn a_service_counts_with_its_maximum_of_replicas() {
        let site = "kinds: {inference: {limits: {replicas: 4, gpu: 8}}}\n";
        let job = |max_replicas: u32| {
            format!(
                "kind: inference\njob: {{name: s}}\nresources: {{gpu: 2, cpu: 4}}\nservice: {{port: 80, replicas: 2}}\nautoscaling: {{maxReplicas: {max_replicas}, targetCPUUtilization: 60}}\n"
            )
        };
        assert_eq!(problems_of(&job(4), site), [""; 0]);
        assert_eq!(
            problems_of(&job(5), site),
            [
                "5: 2 GPUs × 5 pods = 10 GPUs; the site allows 8 GPUs a job (defaults, kind inference)",
                "4: 5 replicas; the site allows 4 (defaults, kind inference)",
            ]
        );
    }
}
