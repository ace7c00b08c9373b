// Config files of the node's programs. Comments give the reason for settings that are not obvious.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

const containerdSocket = "/run/containerd/containerd.sock"

// The sandbox image. writeImages packs the toolbox under this name.
const pause = "registry.k8s.io/pause:3.10.1"

type object = map[string]any

func writeFiles(config Config) {
	write := func(name string, text any) {
		data, isText := text.(string)
		if !isText {
			encoded, err := json.MarshalIndent(text, "", " ")
			must(err)
			data = string(encoded)
		}
		must(os.WriteFile(config.file(name), []byte(data), 0o600))
	}
	must(os.MkdirAll(config.file("cni"), 0o755))
	self, err := os.Executable()
	must(err)
	// BinaryName in containerd's options is a single path without arguments, so it needs a wrapper.
	wrapper := fmt.Sprintf("#!/bin/sh\nexec '%s' runtime '%s' \"$@\"\n", self, config.Binaries["runc"])
	must(os.WriteFile(config.file("runtime"), []byte(wrapper), 0o755))
	write("containerd.toml", containerd(config))
	write("cni/10-bridge.conflist", object{"cniVersion": "1.0.0", "name": "pods", "plugins": []object{{
		"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "ipMasq": false,
		"ipam": object{
			"type": "host-local", "dataDir": config.file("cni-data"),
			"ranges": [][]object{{{"subnet": podNetwork(config.Index), "gateway": podGateway(config.Index)}}},
			"routes": []object{{"dst": "0.0.0.0/0"}},
		},
	}}})
	write("kubelet.yaml", object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		// Some machines that run these tests still have cgroup v1.
		"failCgroupV1": false, "cgroupDriver": "cgroupfs", "cgroupRoot": "/" + config.Cgroup, "enforceNodeAllocatable": []string{"pods"},
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"authentication":           object{"anonymous": object{"enabled": true}, "webhook": object{"enabled": false}},
		"authorization":            object{"mode": "AlwaysAllow"},
		"address":                  config.address(), "port": 10250, "healthzPort": 0,
		"clusterDNS": []string{config.address()}, "clusterDomain": "cluster.local", "resolvConf": config.file("resolv.conf"),
		"nodeStatusUpdateFrequency": "5s", "failSwapOn": false, "volumePluginDir": config.file("tmp"),
		// By default the node uses the machine's disk, which may be nearly full. A threshold in
		// percent would keep pods off the node although there is enough space.
		"evictionHard":                object{"memory.available": "100Mi", "nodefs.available": "1Mi", "imagefs.available": "1Mi"},
		"imageGCHighThresholdPercent": 100, "logging": object{"verbosity": 2},
	})
	write("node.kubeconfig", kubeconfig(config, config.NodeToken))
	write("admin.kubeconfig", kubeconfig(config, config.AdminToken))
	write("kube-proxy.yaml", object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "iptables",
		"clusterCIDR": "10.77.0.0/16", "hostnameOverride": config.Name, "bindAddress": config.address(),
		"healthzBindAddress": config.address() + ":10256", "metricsBindAddress": config.address() + ":10249",
		"clientConnection": object{"kubeconfig": config.file("admin.kubeconfig")},
		// Zero leaves the kernel's settings unchanged. They apply to the whole machine.
		"conntrack": object{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	})
	write("Corefile", fmt.Sprintf(`.:53 {
  bind %s
  errors
  kubernetes cluster.local in-addr.arpa {
    endpoint https://127.0.0.1:%d
    kubeconfig %s
    pods insecure
    ttl 5
  }
  cache 5
}
`, config.address(), config.APIPort, config.file("admin.kubeconfig")))
}

func containerd(config Config) string {
	return fmt.Sprintf(`version = 3
root = '%[1]s/containerd'
state = '/run/containerd/state'
disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.snapshotter.v1.btrfs', 'io.containerd.snapshotter.v1.zfs', 'io.containerd.snapshotter.v1.devmapper', 'io.containerd.snapshotter.v1.blockfile', 'io.containerd.snapshotter.v1.erofs', 'io.containerd.tracing.processor.v1.otlp', 'io.containerd.internal.v1.tracing']
[grpc]
  address = '%[2]s'
[ttrpc]
  address = '%[2]s.ttrpc'
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '%[3]s'
[plugins.'io.containerd.cri.v1.runtime']
  # A negative oom_score_adj needs CAP_SYS_RESOURCE, which virtual machines often lack.
  restrict_oom_score_adj = true
  cdi_spec_dirs = ['/run/cdi']
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['%[4]s']
    conf_dir = '%[1]s/cni'
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = 'runc'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = 'io.containerd.runc.v2'
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = '%[1]s/runtime'
        SystemdCgroup = false
`, config.Folder, containerdSocket, pause, filepath.Dir(config.Binaries["bridge"]))
}

func kubeconfig(config Config, token string) object {
	return object{
		"apiVersion": "v1", "kind": "Config", "current-context": "node",
		"clusters": []object{{"name": "node", "cluster": object{
			"server": fmt.Sprintf("https://127.0.0.1:%d", config.APIPort), "certificate-authority": config.Authority}}},
		"users":    []object{{"name": "node", "user": object{"token": token}}},
		"contexts": []object{{"name": "node", "context": object{"cluster": "node", "user": "node"}}},
	}
}
