//! A pod of a workload, and sums over several pods: phases, first start, last end and first
//! problem.

use std::rc::Rc;

use jiff::Timestamp;

use super::job_pod::PodPhase;
use super::reading::PodKey;
use crate::model::values::units::GpuCount;

/// A pod of a workload. A cluster may have hundreds of thousands, so values that many pods have in
/// common are stored once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkPod {
    pub namespace: Rc<str>,
    pub name: Rc<str>,
    pub uid: Rc<str>,
    pub parent: Option<Rc<str>>,
    pub node: Option<Rc<str>>,
    pub phase: PodPhase,
    /// Number of devices that the pod requests.
    pub gpus: GpuCount,
    /// Name of the container that requests devices, or of the first container if none does.
    pub container: Rc<str>,
    pub created_at: Option<Timestamp>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Reason why a container does not start, such as `CrashLoopBackOff`. `None` while it is being
    /// created normally.
    pub trouble: Option<Rc<str>>,
}

impl WorkPod {
    pub fn ended(&self) -> bool {
        self.phase.has_ended()
    }

    pub fn key(&self) -> PodKey {
        (self.namespace.to_string(), self.name.to_string())
    }
}

/// Sums over several pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSums {
    /// One flag per phase, set if at least one pod is in that phase.
    phases: [bool; 5],
    /// True if at least one pod runs without a problem. The phase alone is not enough, because it
    /// remains `Running` in a crash loop.
    pub works: bool,
    /// First problem of a pod that has not terminated.
    pub trouble: Option<Rc<str>>,
    /// Start time of the first container.
    pub started_at: Option<Timestamp>,
    /// End time of the last container.
    pub ended_at: Option<Timestamp>,
}

impl PodSums {
    pub fn from_pods<'p>(pods: impl IntoIterator<Item = &'p WorkPod>) -> Self {
        let mut sums = Self::default();
        pods.into_iter().for_each(|pod| sums.add(pod));
        sums
    }

    pub fn add(&mut self, pod: &WorkPod) {
        let sums = Self {
            works: pod.phase == PodPhase::Running && pod.trouble.is_none(),
            trouble: pod.trouble.clone().filter(|_| !pod.ended()),
            started_at: pod.started_at,
            ended_at: pod.ended_at,
            ..Self::default()
        };
        self.merge(&sums);
        self.phases[pod.phase as usize] = true;
    }

    pub fn merge(&mut self, other: &Self) {
        self.phases
            .iter_mut()
            .zip(other.phases)
            .for_each(|(mine, new)| *mine |= new);
        self.works |= other.works;
        self.trouble = self.trouble.take().or_else(|| other.trouble.clone());
        self.started_at = self.started_at.into_iter().chain(other.started_at).min();
        self.ended_at = self.ended_at.max(other.ended_at);
    }

    pub fn has(&self, phase: PodPhase) -> bool {
        self.phases[phase as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_sums_equal_the_sum_of_all() {
        let at = |second| Timestamp::from_second(second).ok();
        let pod = |phase, trouble: Option<&str>, started, ended| WorkPod {
            phase,
            trouble: trouble.map(Into::into),
            started_at: started,
            ended_at: ended,
            ..WorkPod::default()
        };
        let pods = [
            pod(PodPhase::Succeeded, Some("Gone"), at(30), at(50)),
            pod(PodPhase::Running, Some("CrashLoopBackOff"), at(20), at(40)),
            pod(PodPhase::Pending, None, None, None),
        ];
        let mut sums = PodSums::from_pods(&pods[..1]);
        sums.merge(&PodSums::from_pods(&pods[1..]));
        assert_eq!(sums, PodSums::from_pods(&pods));
        // A terminated pod counts as having no problem, and a pod in a crash loop as not working.
        assert_eq!(
            (
                sums.trouble.as_deref(),
                sums.works,
                sums.has(PodPhase::Running)
            ),
            (Some("CrashLoopBackOff"), false, true)
        );
        assert_eq!(
            (sums.started_at, sums.ended_at, sums.has(PodPhase::Unknown)),
            (at(20), at(50), false)
        );
    }
}
