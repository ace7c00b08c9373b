//! Launchers: torchrun, DeepSpeed, accelerate, MPI, Slurm, Ray, multiprocessing. They report which
//! process failed. Why it failed is in another line.

use crate::stats::logs::first_error::error::ErrorPattern;
use crate::stats::logs::first_error::error::Strength::{Cause, Killed, Logged, Lost, Summary};

pub(super) const PATTERNS: &[ErrorPattern] = &[
    // `torch/distributed/elastic/multiprocessing/api.py`; an exit code below 0 is a signal.
    (r"failed \(exitcode: -(?:4|7|8|9|11)\) local_rank: ", Killed),
    (r"failed \(exitcode: -?[0-9]+\) local_rank: ", Summary),
    // `torch/distributed/elastic/multiprocessing/errors/__init__.py`
    (r"\bChildFailedError\b", Summary),
    // `torch/distributed/elastic/agent/server/api.py`
    (r"Received Signals\.SIG(?:TERM|INT|HUP) death signal", Lost),
    (r"\bSignalException: Process [0-9]+ got signal: ", Lost),
    (
        r"\bRendezvous(?:Timeout|Connection|State|Closed)Error\b",
        Cause,
    ),
    (r"\bRendezvousGracefulExitError\b", Lost),
    (
        r"Worker group FAILED\b|Local worker group finished \(WorkerState\.FAILED\)",
        Summary,
    ),
    // `torch/multiprocessing/spawn.py`
    (
        r"ProcessExitedException: process [0-9]+ terminated with signal ",
        Killed,
    ),
    (
        r"\bProcessExitedException\b|\bProcessRaisedException\b",
        Summary,
    ),
    (
        r"^(?:-- )?Process [0-9]+ terminated with the following error",
        Summary,
    ),
    // `deepspeed/launcher/launch.py`
    (r"exits with return code = -(?:4|7|8|9|11)\b", Killed),
    (r"exits with return code = -?[0-9]+", Summary),
    // accelerate and everything else that runs a child with Python's `subprocess`.
    (
        r"CalledProcessError: .* died with <Signals\.SIG(?:KILL|SEGV|BUS|ILL|FPE)",
        Killed,
    ),
    (r"\bCalledProcessError\b", Summary),
    // Python's `multiprocessing` (`process.py`, `pool.py`), `multiprocess`.
    (
        r"^Process [\w.<>-]+(?:-[0-9]+|_[0-9]+)(?::[0-9]+)*:$",
        Summary,
    ),
    (
        r"\b_?RemoteTraceback\b|\bTraceback \(most recent call last\) from ",
        Summary,
    ),
    // Exception groups (PEP 654) hold the exceptions in question.
    (
        r"\b(?:Base)?ExceptionGroup: .*\([0-9]+ sub-exceptions?\)",
        Summary,
    ),
    // Ray (`ray/exceptions.py`): the exception of the task follows.
    (
        r"\bRayTaskError\b|\bTrainingFailedError\b|\bTuneError\b|\bWorkerGroupError\b",
        Summary,
    ),
    (
        r"\bOutOfMemoryError: Task was killed due to the node running low on memory",
        Cause,
    ),
    (
        r"\bRayActorError\b|\bActorDiedError\b|\bActorUnavailableError\b",
        Lost,
    ),
    (r"\bThe actor is dead because its \w+", Lost),
    (r"\bThe actor died unexpectedly\b", Lost),
    (
        r"\bWorkerCrashedError\b|\bNodeDiedError\b|\bOwnerDiedError\b|\bObjectLostError\b",
        Lost,
    ),
    (
        r"A worker died or was killed while executing a task by an unexpected system error",
        Lost,
    ),
    (
        r"Workers \(tasks / actors\) killed due to memory pressure",
        Killed,
    ),
    // Open MPI (`orte/tools/orterun/help-orterun.txt`), PRRTE (`help-prterun.txt`).
    (
        r"\b(?:mpirun|mpiexec|orterun|prterun|prte) noticed that process rank ",
        Killed,
    ),
    (
        r"\b(?:mpirun|mpiexec|orterun|prterun|prte) detected that one or more processes exited",
        Summary,
    ),
    (
        r"Primary job +terminated normally, but|Process name: \[\[?prterun",
        Summary,
    ),
    (r"There are not enough slots available in the system", Cause),
    (
        r"\b(?:ORTE|PRTE|PMIX|OPAL) (?:was unable to|ERROR: |has lost communication)",
        Logged,
    ),
    (r"\bMPI_ABORT was invoked on rank ", Summary),
    // MPICH (`src/mpi/init/abort.c`) and Hydra (`hydra/ui/utils/uiu.c`).
    (
        r"^Abort\([0-9]+\) on node [0-9]+ \(rank [0-9]+ in comm .*(?:Fatal error|MPI_ERR)",
        Cause,
    ),
    (
        r"^Abort\([0-9]+\) on node |application called MPI_Abort\(",
        Summary,
    ),
    (
        r"= +BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        Summary,
    ),
    (
        r"^YOUR APPLICATION TERMINATED WITH THE EXIT STRING: (?:Killed|Segmentation|Bus)",
        Killed,
    ),
    (r"\*\*\* An error occurred in MPI_\w+", Cause),
    (
        r"^\[[\w.-]+:[0-9]+\] Signal: (?:Segmentation|Bus|Illegal|Floating)",
        Killed,
    ),
    // Slurm (`slurmstepd`, `srun`).
    (
        r"slurmstepd: error: Detected [0-9]+ oom[_-]kill event",
        Killed,
    ),
    (
        r"slurmstepd: error: \*\*\* (?:STEP|JOB) .*(?:DUE TO|CANCELLED)",
        Killed,
    ),
    (
        r"srun: error: .*: (?:task|tasks) .*: (?:Killed|Segmentation fault|Bus error|Out Of Memory)",
        Killed,
    ),
    (
        r"srun: error: .*: (?:task|tasks) .*: (?:Exited|Terminated|Aborted)",
        Summary,
    ),
    (
        r"^srun: (?:Job step aborted|Terminating job step|launch/slurm)",
        Summary,
    ),
    // make, npm, Bazel and similar programs, which repeat an exit code.
    (r"^make(?:\[[0-9]+\])?: \*\*\* .*Error [0-9]+", Summary),
    (r"^npm (?:ERR!|error) ", Summary),
    (
        r"(?i)^(?:\S+ )?(?:process|command|subprocess|script|worker|child).{0,80}(?:exited|failed|returned|terminated) with (?:non-?zero )?(?:exit )?(?:code|status)[: =]*-?[1-9]",
        Summary,
    ),
    (r"^Error executing job with overrides", Summary),
    // Horovod (`horovod/common/exceptions.py`, `horovod/runner/gloo_run.py`).
    (r"\bHorovodInternalError\b|Horovod has been shut down", Lost),
    (
        r"^Process [0-9]+ exit with status code [1-9]|^Terminating remaining workers",
        Summary,
    ),
];
