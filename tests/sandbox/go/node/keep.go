// The outside of a node: starts its namespaces, connects them to the wire, and cleans up on a
// signal or when its parent process has ended.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// wire keeps a bridge in its network namespace until it is killed.
func wire() {
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "wire0"}}
	must(netlink.LinkAdd(bridge))
	must(netlink.LinkSetUp(bridge))
	// An empty select would end the program: Go's runtime reports it as a deadlock.
	for {
		time.Sleep(time.Hour)
	}
}

func keep(config Config, path string) {
	makeCgroups(config.Cgroup)
	self, err := os.Executable()
	must(err)
	command := exec.Command("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc",
		"--propagation", "private", self, "init", path)
	command.Stdout, command.Stderr, command.Dir = os.Stderr, os.Stderr, config.Folder
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(command.Start())
	inside := child(command.Process.Pid)
	join(config, inside)

	ended := make(chan string, 2)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() { ended <- fmt.Sprintf("signal %v", <-signals) }()
	go func() { io.Copy(io.Discard, os.Stdin); ended <- "standard input ended" }()
	go func() { ended <- fmt.Sprintf("the namespaces ended: %v", command.Wait()) }()
	log.Println(<-ended)
	// The kernel kills all processes of a PID namespace when its process 1 ends.
	syscall.Kill(inside, syscall.SIGKILL)
	command.Process.Kill()
	removeCgroups(config.Cgroup)
	// The mounts ended with the namespace, so the folder contains only the node's own files.
	if config.Leave {
		must(os.RemoveAll(config.Folder + ".left"))
		must(os.Rename(config.Folder, config.Folder+".left"))
	} else {
		must(os.RemoveAll(config.Folder))
	}
}

// child waits for the only child of a process.
func child(parent int) int {
	file := fmt.Sprintf("/proc/%d/task/%d/children", parent, parent)
	for range 1000 {
		text, err := os.ReadFile(file)
		must(err)
		if number, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			return number
		}
		time.Sleep(5 * time.Millisecond)
	}
	log.Fatal("unshare did not start a process")
	return 0
}

// join creates the node's `eth0`, whose other end is on the wire.
func join(config Config, inside int) {
	untilApart(inside)
	untilApart(config.Wire)
	handle, err := netns.GetFromPid(config.Wire)
	must(err)
	defer handle.Close()
	there, err := netlink.NewHandleAt(handle)
	must(err)
	defer there.Close()
	name := fmt.Sprintf("node%d", config.Index)
	must(there.LinkAdd(&netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: name},
		PeerName:      "eth0",
		PeerNamespace: netlink.NsPid(inside),
	}))
	link, err := there.LinkByName(name)
	must(err)
	var bridge netlink.Link
	for range 1000 {
		// A wire that has just started may have no bridge yet.
		if bridge, err = there.LinkByName("wire0"); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	must(err)
	must(there.LinkSetMaster(link, bridge))
	must(there.LinkSetUp(link))
}

// untilApart waits until a process that has just started has left this process's network namespace.
func untilApart(process int) {
	own, err := os.Readlink("/proc/self/ns/net")
	must(err)
	for range 1000 {
		if its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", process)); err == nil && its != own {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	log.Fatalf("process %d did not get its own network namespace", process)
}

// trees lists the cgroup hierarchies: one in version 2, one per controller in version 1.
func trees() []string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return []string{"/sys/fs/cgroup"}
	}
	found, err := filepath.Glob("/sys/fs/cgroup/*")
	must(err)
	var trees []string
	for _, tree := range found {
		info, err := os.Lstat(tree)
		if err == nil && info.IsDir() && filepath.Base(tree) != "unified" {
			trees = append(trees, tree)
		}
	}
	return trees
}

func makeCgroups(name string) {
	for _, tree := range trees() {
		if controllers, err := os.ReadFile(filepath.Join(tree, "cgroup.controllers")); err == nil {
			for _, controller := range strings.Fields(string(controllers)) {
				// Ignores errors: the kubelet does not need a controller that cannot be delegated,
				// and it reports a missing one that it needs.
				os.WriteFile(filepath.Join(tree, "cgroup.subtree_control"), []byte("+"+controller), 0)
			}
		}
		group := filepath.Join(tree, name)
		must(os.MkdirAll(group, 0o755))
		// A new cpuset group of cgroup v1 accepts no process until cpus and mems are set.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if text, err := os.ReadFile(filepath.Join(tree, file)); err == nil {
				must(os.WriteFile(filepath.Join(group, file), text, 0))
			}
		}
	}
}

func removeCgroups(name string) {
	// On a machine with both versions, the runtime also creates groups in the version 2 hierarchy.
	all, _ := filepath.Glob("/sys/fs/cgroup/*")
	for _, tree := range append(all, "/sys/fs/cgroup") {
		var groups []string
		filepath.WalkDir(filepath.Join(tree, name), func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				groups = append(groups, path)
			}
			return nil
		})
		sort.Sort(sort.Reverse(sort.StringSlice(groups)))
		for _, group := range groups {
			// A group is busy until its killed processes have exited.
			for range 100 {
				if err := os.Remove(group); err == nil || os.IsNotExist(err) {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
}
