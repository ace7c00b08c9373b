//! Times of the stages between the submission of a job and its first step.

use jiff::{SignedDuration, Timestamp};

use super::event::Event;
use super::job::Job;

/// Times of a job's start-up. A stage that a job with several pods has not completed in all of them
/// has no time, and the time of the others is that of the last pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Startup {
    pub created_at: Option<Timestamp>,
    /// When its queue admitted the job.
    pub admitted_at: Option<Timestamp>,
    /// When the first pod of the current attempt was created.
    pub pods_created_at: Option<Timestamp>,
    pub scheduled_at: Option<Timestamp>,
    /// The slowest pull of an image that an event records.
    pub pull: Option<ImagePull>,
    pub started_at: Option<Timestamp>,
    /// Time of the first log line that mentions a step.
    pub first_step_at: Option<Timestamp>,
}

/// How long the kubelet pulled an image, and the size of the image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImagePull {
    pub seconds: f64,
    /// Compressed size in bytes. Kubelets report it since Kubernetes 1.30.
    pub bytes: Option<u64>,
}

impl Startup {
    /// Collects the times of the current pods.
    pub fn new(job: &Job, events: &[Event], first_step_at: Option<Timestamp>) -> Self {
        let pods = job.current_pods();
        // The last of all times, or `None` if one is missing.
        let last_of = |times: Vec<Option<Timestamp>>| {
            let all: Option<Vec<Timestamp>> = times.into_iter().collect();
            all.and_then(|times| times.into_iter().max())
        };
        let is_complete = pods.len() >= job.pods_wanted as usize;
        let started_at = last_of(pods.iter().map(|pod| pod.started_at).collect());
        let scheduled_at = last_of(pods.iter().map(|pod| pod.scheduled_at).collect());
        let is_current = |event: &&Event| {
            let name = event.object.strip_prefix("Pod/");
            pods.iter().any(|pod| Some(pod.name.as_str()) == name)
        };
        let pulls = events
            .iter()
            .filter(is_current)
            .filter(|event| event.reason == "Pulled")
            .filter_map(|event| ImagePull::from_message(&event.message));
        Self {
            created_at: job.created_at,
            admitted_at: job.resumed_at.filter(|_| job.queue.is_some()),
            pods_created_at: pods.iter().filter_map(|pod| pod.created_at).min(),
            scheduled_at: scheduled_at.filter(|_| is_complete),
            pull: pulls.max_by(|a, b| a.seconds.total_cmp(&b.seconds)),
            started_at: started_at.filter(|_| is_complete),
            first_step_at,
        }
    }
}

impl ImagePull {
    /// Parses the kubelet's message (pkg/kubelet/images/image_manager.go): `Successfully pulled
    /// image "NAME" in 1.2s (3.4s including waiting). Image size: 123 bytes.` Versions before 1.30
    /// report no size. Returns `None` for an image that the node already had.
    fn from_message(message: &str) -> Option<Self> {
        let (_, rest) = message
            .strip_prefix("Successfully pulled image \"")?
            .split_once("\" in ")?;
        let duration = rest.split(' ').next()?.trim_end_matches('.');
        let seconds = duration.parse::<SignedDuration>().ok()?.as_secs_f64();
        let bytes = rest
            .split_once("Image size: ")
            .and_then(|(_, size)| size.split_once(" bytes")?.0.parse().ok());
        Some(Self { seconds, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Pod;

    #[test]
    fn pulls_have_durations_and_sizes() {
        let pull =
            |message: &str| ImagePull::from_message(message).map(|pull| (pull.seconds, pull.bytes));
        let message = "Successfully pulled image \"a/b:1.2\" in 1m2.5s (2m3s including waiting). \
                       Image size: 4200000000 bytes.";
        assert_eq!(pull(message), Some((62.5, Some(4_200_000_000))));
        let short = "Successfully pulled image \"x\" in 845.3ms (845.3ms including waiting)";
        assert_eq!(pull(short), Some((0.8453, None)));
        assert_eq!(
            pull("Successfully pulled image \"x\" in 4.5s."),
            Some((4.5, None))
        );
        for other in [
            "Container image \"x\" already present on machine",
            "Successfully pulled image \"x\"",
            "Successfully pulled image \"x\" in a while",
        ] {
            assert_eq!(pull(other), None, "{other}");
        }
    }

    #[test]
    fn a_stage_ends_when_the_last_pod_completes_it() {
        let at = |second| Timestamp::from_second(second).ok();
        let pod = |rank, scheduled, started| Pod {
            name: format!("t-{rank}"),
            rank: Some(rank),
            created_at: at(10),
            scheduled_at: scheduled,
            started_at: started,
            ..Pod::default()
        };
        let mut job = Job {
            created_at: at(0),
            resumed_at: at(8),
            queue: Some("q".to_owned()),
            pods_wanted: 2,
            pods: vec![pod(0, at(11), at(20)), pod(1, at(12), None)],
            ..Job::default()
        };
        let event = |object: &str, seconds: u32| Event {
            at: at(15),
            warning: false,
            reason: "Pulled".to_owned(),
            message: format!("Successfully pulled image \"x\" in {seconds}s"),
            object: object.to_owned(),
            count: 1,
            version: 0,
        };
        let events = [
            event("Pod/t-0", 3),
            event("Pod/t-1", 5),
            event("Pod/old", 9),
        ];
        let startup = Startup::new(&job, &events, None);
        assert_eq!(
            (
                startup.admitted_at,
                startup.pods_created_at,
                startup.scheduled_at,
                startup.started_at
            ),
            (at(8), at(10), at(12), None)
        );
        assert_eq!(startup.pull.map(|pull| pull.seconds), Some(5.0));
        job.pods[1].started_at = at(31);
        assert_eq!(Startup::new(&job, &events, None).started_at, at(31));
        // A pod that does not exist yet has not started.
        job.pods_wanted = 3;
        let startup = Startup::new(&job, &events, None);
        assert_eq!((startup.scheduled_at, startup.started_at), (None, None));
        // Without a queue, resuming the job is no admission.
        job.queue = None;
        assert_eq!(Startup::new(&job, &[], None).admitted_at, None);
    }
}
