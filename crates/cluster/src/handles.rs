//! Groups the methods of a connection by subject, so that each file shows which part of the API it
//! uses. A handle borrows the connection and is as cheap as a reference.

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
    /// The administrator's namespace `gpuctl-system` and the objects published in it.
    site => SiteApi;
    /// Namespaces and their isolation.
    namespaces => NamespacesApi;
    /// API groups that the server serves, and the user's permissions.
    discovery => DiscoveryApi;
    /// Prometheus and GPU exporters inside the cluster.
    metrics => MetricsApi;
    /// Nodes and their labels.
    nodes => NodesApi;
    /// Node pools.
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
    /// Queues, admission and pod groups.
    queues => QueuesApi;
    /// Resource quotas.
    quotas => QuotasApi;
    /// Logs of containers.
    logs => LogsApi;
    /// Exec sessions and port-forwards.
    sessions => SessionsApi;
    /// Workloads of any origin and their owners.
    workloads => WorkloadsApi;
    /// Checks, creates, changes and deletes objects.
    writes => WritesApi;
}
