//! A pod with the details that a workload needs, and sums over several pods. The sums include their
//! phases, the first start, the last end and the first problem.

use std::rc::Rc;

use jiff::Timestamp;

use super::job_pod::PodPhase;
use super::reading::PodKey;
use crate::model::values::units::GpuCount;

/// A pod with the details that a workload needs. A cluster may have hundreds of thousands, so
/// values that many pods have in common are shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkPod {
    pub namespace: Rc<str>,
    pub name: Rc<str>,
    pub uid: Rc<str>,
    pub parent: Option<Rc<str>>,
    pub node: Option<Rc<str>>,
    pub phase: PodPhase,
    /// The number of devices that it requests.
    pub gpus: GpuCount,
    /// The container that requests devices, or the first container if none does.
    pub container: Rc<str>,
    pub created_at: Option<Timestamp>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Why a container does not start, such as `CrashLoopBackOff`. `None` while it is just being
    /// created.
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
    /// One flag per phase, which is true if at least one pod is in that phase.
    phases: [bool; 5],
    /// True if at least one pod runs without a problem. The phase alone is not enough, because it
    /// stays `Running` in a crash loop.
    pub works: bool,
    /// The first problem that was added. Pods that have terminated are ignored.
    pub trouble: Option<Rc<str>>,
    /// When the first container started.
    pub started_at: Option<Timestamp>,
    /// When the last container terminated.
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
        // A terminated pod has no problem, and a pod in a crash loop does not work.
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
