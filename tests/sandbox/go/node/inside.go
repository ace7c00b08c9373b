// The inside of a node: process 1 of its namespaces, and its programs.
package main

import (
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// initialize prepares the mounts, then reaps every process whose parent has ended.
func initialize(config Config, path string) {
	// Programs keep their state in the usual folders, which here belong to the node.
	for _, place := range []string{"/run", "/var/lib", "/var/log"} {
		must(unix.Mount("tmpfs", place, "tmpfs", 0, "mode=755"))
	}
	if config.Disk > 0 {
		must(os.MkdirAll(config.file("kubelet"), 0o755))
		must(unix.Mount("tmpfs", config.file("kubelet"), "tmpfs", 0, fmt.Sprintf("mode=755,size=%dm", config.Disk)))
	}
	for place, folder := range map[string]string{"/var/lib/kubelet": "kubelet", "/var/log/pods": "pods", "/var/lib/gpuctl-sandbox": "data"} {
		must(os.MkdirAll(config.file(folder), 0o755))
		must(os.MkdirAll(place, 0o755))
		must(unix.Mount(config.file(folder), place, "", unix.MS_BIND, ""))
	}
	for _, place := range []string{"/run/containerd", "/run/netns", "/run/cdi", "/run/lock", "/var/lib/cni", "/var/log/containers"} {
		must(os.MkdirAll(place, 0o755))
	}
	resolver(config)
	settings(config)
	must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""))
	self, err := os.Executable()
	must(err)
	command := exec.Command(self, "run", path)
	command.Stdout, command.Stderr, command.Dir = os.Stderr, os.Stderr, config.Folder
	must(command.Start())
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		must(err)
		if pid == command.Process.Pid {
			log.Fatalf("the node's programs ended with %d", status.ExitStatus())
		}
	}
}

// resolver makes the node's CoreDNS the name server. The machine's name server is unreachable from
// here, and a query to it costs ten seconds for each image that does not exist.
func resolver(config Config) {
	text := []byte("nameserver " + config.address() + "\n")
	must(os.WriteFile(config.file("resolv.conf"), text, 0o644))
	target, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		// The symbolic link points into a folder that a tmpfs now covers.
		if target, err = os.Readlink("/etc/resolv.conf"); err != nil {
			return
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join("/etc", target)
		}
		must(os.MkdirAll(filepath.Dir(target), 0o755))
		must(os.WriteFile(target, text, 0o644))
		return
	}
	must(unix.Mount(config.file("resolv.conf"), target, "", unix.MS_BIND, ""))
}

// settings mounts files with the values that the kubelet expects over kernel settings. Otherwise
// the kubelet would write them, and they apply to the whole machine.
func settings(config Config) {
	for name, value := range map[string]string{
		"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
		"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
	} {
		place := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(place); err != nil {
			continue
		}
		file := config.file("setting-" + filepath.Base(name))
		must(os.WriteFile(file, []byte(value+"\n"), 0o644))
		must(unix.Mount(file, place, "", unix.MS_BIND, ""))
	}
}

// programs holds the programs of the node by name. Tests stop and freeze them.
type programs struct {
	config Config
	lock   sync.Mutex
	// arguments of the last start, by name
	arguments map[string][]string
	running   map[string]program
}

type program struct {
	process *os.Process
	ended   chan struct{}
}

func (p *programs) start(name string, arguments ...string) error {
	p.lock.Lock()
	defer p.lock.Unlock()
	if arguments == nil {
		arguments = p.arguments[name]
	}
	out, err := os.OpenFile(p.config.file(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	command := exec.Command(p.config.Binaries[name], arguments...)
	command.Stdout, command.Stderr, command.Dir = out, out, p.config.Folder
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	p.arguments[name], p.running[name] = arguments, program{command.Process, ended}
	go func() {
		err := command.Wait()
		log.Printf("%s ended: %v", name, err)
		close(ended)
	}()
	return nil
}

// stop kills a program and waits for its end, so that its ports are free.
func (p *programs) stop(name string) error {
	if err := p.signal(name, syscall.SIGKILL); err != nil {
		return err
	}
	p.lock.Lock()
	ended := p.running[name].ended
	p.lock.Unlock()
	<-ended
	return nil
}

func (p *programs) signal(name string, signal syscall.Signal) error {
	p.lock.Lock()
	defer p.lock.Unlock()
	program, ok := p.running[name]
	if !ok {
		return fmt.Errorf("unknown program %q", name)
	}
	return program.process.Signal(signal)
}

func run(config Config) {
	network(config)
	must(os.MkdirAll(config.file("tmp"), 0o755))
	must(os.Setenv("TMPDIR", config.file("tmp")))
	writeFiles(config)
	programs := &programs{config: config, arguments: map[string][]string{}, running: map[string]program{}}
	must(relay("tcp", fmt.Sprintf("127.0.0.1:%d", config.APIPort), "unix", config.file("api.sock")))
	must(relay("tcp", fmt.Sprintf("%s:%d", podGateway(config.Index), config.APIPort), "unix", config.file("api.sock")))
	must(serveConnect(config.file("in.sock")))
	must(programs.start("containerd", "--config", config.file("containerd.toml")))
	for range 600 {
		if connection, err := net.Dial("unix", containerdSocket); err == nil {
			connection.Close()
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, image := range config.Images {
		must(load(config, image))
	}
	must(programs.start("coredns", "-conf", config.file("Corefile")))
	must(programs.start("kubelet", "--config", config.file("kubelet.yaml"), "--kubeconfig", config.file("node.kubeconfig"),
		"--cert-dir", config.file("pki"), "--hostname-override", config.Name, "--node-ip", config.address(),
		"--node-labels", config.Labels))
	// Only addresses of Services need iptables. Pods and DNS work without it.
	if _, err := exec.LookPath("iptables"); err == nil && config.Binaries["kube-proxy"] != "" {
		must(programs.start("kube-proxy", "--config", config.file("kube-proxy.yaml")))
	}
	plugin := newDevicePlugin(config)
	go plugin.serve()
	if len(config.Claims) > 0 {
		startDriver(config)
	}
	must(serveControl(config, programs, plugin))
}

// network sets the node's address, the bridge of its pods, and routes to the other nodes.
func network(config Config) {
	lo, err := netlink.LinkByName("lo")
	must(err)
	must(netlink.LinkSetUp(lo))
	var eth netlink.Link
	for range 1000 {
		if eth, err = netlink.LinkByName("eth0"); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	must(err)
	address, err := netlink.ParseAddr(config.address() + "/24")
	must(err)
	must(netlink.AddrAdd(eth, address))
	must(netlink.LinkSetUp(eth))
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "cni0"}}
	must(netlink.LinkAdd(bridge))
	gateway, err := netlink.ParseAddr(podGateway(config.Index) + "/24")
	must(err)
	must(netlink.AddrAdd(bridge, gateway))
	must(netlink.LinkSetUp(bridge))
	for other := range maxNodes {
		if other == config.Index {
			continue
		}
		_, pods, err := net.ParseCIDR(podNetwork(other))
		must(err)
		must(netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Dst: pods, Gw: net.ParseIP(fmt.Sprintf("10.77.0.%d", other+1))}))
	}
	// The kernel needs a route to an address before kube-proxy's rules rewrite it. Any route works.
	_, all, _ := net.ParseCIDR("0.0.0.0/0")
	must(netlink.RouteAdd(&netlink.Route{LinkIndex: bridge.Attrs().Index, Dst: all, Src: net.ParseIP(config.address())}))
	for _, name := range []string{"net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables", "net/ipv4/conf/all/route_localnet"} {
		// The second file exists only if the kernel filters bridges (br_netfilter).
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte("1"), 0); err != nil {
			log.Println(err)
		}
	}
}

func load(config Config, image string) error {
	output, err := exec.Command(config.Binaries["ctr"], "-a", containerdSocket, "-n", "k8s.io", "images", "import", "--local", image).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %v: %s", image, err, output)
	}
	return nil
}
