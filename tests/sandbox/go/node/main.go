// One real Kubernetes node on this machine, for the tests: kubelet, containerd, runc, CNI, kube-proxy where iptables is, and
// CoreDNS, in network, PID and mount namespaces of its own. Killing one process ends all of it.
//
//	node wire            holds the network that joins the nodes of one cluster
//	node keep CONFIG     starts a node and takes away what is left of it when its standard input ends
//	node init CONFIG     is process 1 of the namespaces
//	node run CONFIG      starts the node's programs
//	node runtime …       calls runc, for containerd
//	node images FOLDER TOOLBOX
//	                     makes the images
//	node image ROOT NAME FILE
//	                     makes an image of a whole file system
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
)

// Config is written by the sandbox, which knows ports, folders and binaries.
type Config struct {
	// Name of the Node object.
	Name string `json:"name"`
	// Index gives the node its addresses; see address.
	Index int `json:"index"`
	// Folder of the node: logs, images, sockets, everything that kubelet and containerd write.
	Folder string `json:"folder"`
	// Binaries by name.
	Binaries map[string]string `json:"binaries"`
	// Wire is the process that holds the network between the nodes.
	Wire int `json:"wire"`
	// APIPort is where the API server answers, inside as outside.
	APIPort int `json:"api_port"`
	// Authority is the certificate file of the API server's CA.
	Authority string `json:"authority"`
	// Tokens of the kubelet and of what runs beside it.
	NodeToken  string `json:"node_token"`
	AdminToken string `json:"admin_token"`
	// Cgroup below which all containers run.
	Cgroup string `json:"cgroup"`
	// Labels of the node, as kubelet's option takes them.
	Labels string `json:"labels"`
	// Resource that the device plugin offers, with the devices' ids.
	Resource string   `json:"resource"`
	Devices  []string `json:"devices"`
	// Claims are devices that a driver of dynamic resource allocation offers, with the product's name.
	Claims  []string `json:"claims"`
	Product string   `json:"product"`
	// Disk is the size in MiB of a file system of its own for what pods write; 0 for the machine's.
	Disk int `json:"disk"`
	// Images are archives that are loaded before the kubelet starts.
	Images []string `json:"images"`
	// Leave says that the folder stays, as FOLDER.left, when the node has ended: to be looked at.
	Leave bool `json:"leave"`
}

func (c Config) file(name string) string { return filepath.Join(c.Folder, name) }

// address of the node, and the network of its pods: small numbers that a person recognizes in a log.
func (c Config) address() string  { return fmt.Sprintf("10.77.0.%d", c.Index+1) }
func podNetwork(index int) string { return fmt.Sprintf("10.77.%d.0/24", index+1) }
func podGateway(index int) string { return fmt.Sprintf("10.77.%d.1", index+1) }

// Highest number of nodes of one cluster.
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

// must ends this process, and with it the node: half a node would fail the tests somewhere else.
func must(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}
