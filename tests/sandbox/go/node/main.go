// One real Kubernetes node on this machine for the tests: kubelet, containerd, runc, CNI, CoreDNS,
// and kube-proxy if iptables is installed. They run in separate network, PID and mount namespaces.
// Killing one process ends all of them.
//
//	node wire            holds the network between the nodes of a cluster
//	node keep CONFIG     starts a node, and removes its remains when standard input ends
//	node init CONFIG     runs as process 1 of the namespaces
//	node run CONFIG      starts the node's programs
//	node runtime …       calls runc for containerd
//	node images FOLDER TOOLBOX
//	                     writes the images
//	node image ROOT NAME FILE
//	                     writes an image of a whole file system
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
)

// Config is the file that the sandbox writes, with ports, folders and binaries.
type Config struct {
	// Name of the Node object.
	Name string `json:"name"`
	// Index determines the node's addresses; see address.
	Index int `json:"index"`
	// Folder of the node: logs, images, sockets, and all files of the kubelet and containerd.
	Folder string `json:"folder"`
	// Binaries by name.
	Binaries map[string]string `json:"binaries"`
	// Wire is the pid of the process that holds the network between the nodes.
	Wire int `json:"wire"`
	// APIPort is the API server's port, the same inside and outside of the node.
	APIPort int `json:"api_port"`
	// Authority is the file with the API server's CA certificate.
	Authority string `json:"authority"`
	// Tokens of the kubelet and of the node's other programs.
	NodeToken  string `json:"node_token"`
	AdminToken string `json:"admin_token"`
	// Cgroup is the parent of all containers' cgroups.
	Cgroup string `json:"cgroup"`
	// Labels of the node, in the format of the kubelet's option --node-labels.
	Labels string `json:"labels"`
	// Resource is the name that the device plugin registers, and Devices are the ids of its
	// devices.
	Resource string   `json:"resource"`
	Devices  []string `json:"devices"`
	// Claims are the ids of devices for dynamic resource allocation, and Product is their name.
	Claims  []string `json:"claims"`
	Product string   `json:"product"`
	// Disk is the size in MiB of a separate file system for files of pods, or 0 for the machine's.
	Disk int `json:"disk"`
	// Images are archives that containerd loads before the kubelet starts.
	Images []string `json:"images"`
	// Leave keeps the folder as FOLDER.left for inspection after the node has ended.
	Leave bool `json:"leave"`
}

func (c Config) file(name string) string { return filepath.Join(c.Folder, name) }

// address is the node's address. Like the network of its pods, it is easy to recognize in a log.
func (c Config) address() string  { return fmt.Sprintf("10.77.0.%d", c.Index+1) }
func podNetwork(index int) string { return fmt.Sprintf("10.77.%d.0/24", index+1) }
func podGateway(index int) string { return fmt.Sprintf("10.77.%d.1", index+1) }

// Maximum number of nodes of a cluster.
const maxNodes = 16

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	if len(os.Args) < 2 {
		log.Fatal("usage: node wire|keep|init|run|runtime|images|image …")
	}
	switch os.Args[1] {
	case "wire":
		wire()
	case "keep":
		keep(read(os.Args[2]), os.Args[2])
	case "init":
		initialize(read(os.Args[2]), os.Args[2])
	case "run":
		run(read(os.Args[2]))
	case "images":
		writeImages(os.Args[2], os.Args[3])
	case "image":
		writeImage(os.Args[2], os.Args[3], os.Args[4])
	case "runtime":
		callRunc(os.Args[2], os.Args[3:])
	default:
		log.Fatalf("unknown command %q", os.Args[1])
	}
}

func read(path string) Config {
	text, err := os.ReadFile(path)
	must(err)
	var config Config
	must(json.Unmarshal(text, &config))
	return config
}

// must ends this process and with it the node, because an incomplete node would fail tests in
// misleading places.
func must(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}
