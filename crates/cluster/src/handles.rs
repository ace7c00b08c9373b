//! Groups the methods of a connection by what they are about, so that each file names the part of
//! the API it uses. A handle borrows the connection and is as cheap as a reference.

use crate::Connection;

macro_rules! handles {
    ($($(#[$doc:meta])* $accessor:ident => $handle:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy)]
            pub struct $handle<'c>(pub(crate) &'c Connection);
        )*

        impl Connection {
            $($(#[$doc])* pub fn $accessor(&self) -> $handle<'_> {
                $handle(self)
            })*
        }
    };
}

handles! {
    /// The administrator's namespace `gpuctl-system` and what it publishes.
    site => SiteApi;
    /// Namespaces and whether they are isolated.
    namespaces => NamespacesApi;
    /// What the API server serves, and what the user may do.
    discovery => DiscoveryApi;
    /// Prometheus and GPU exporters inside the cluster.
    metrics => MetricsApi;
    /// Nodes and their labels.
    nodes => NodesApi;
    /// Pools of nodes.
    pools => PoolsApi;
    /// Devices and claims of dynamic resource allocation.
    devices => DevicesApi;
    /// Nodes, pods and devices, counted together.
    inventory => InventoryApi;
    /// Jobs with their pods and owned objects.
    jobs => JobsApi;
    /// Events of jobs, nodes and schedulers.
    events => EventsApi;
    /// Volume claims and their classes.
    storage => StorageApi;
    /// Addresses and autoscalers of services.
    services => ServicesApi;
    /// Queues, admission and groups of pods.
    queues => QueuesApi;
    /// Resource quotas.
    quotas => QuotasApi;
    /// Logs of containers.
    logs => LogsApi;
    /// Commands in containers and forwarded ports.
    sessions => SessionsApi;
    /// Workloads of any origin and their owners.
    workloads => WorkloadsApi;
    /// Objects that are checked, created, changed and deleted.
    writes => WritesApi;
}
