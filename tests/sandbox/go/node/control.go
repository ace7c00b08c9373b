// The interface for tests: lists the devices of containers from the kubelet's PodResources API,
// which exporters use too, and injects faults.
package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// holder is the container that holds a device.
type holder struct {
	Device    string `json:"device"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
}

func serveControl(config Config, programs *programs, plugin *devicePlugin) error {
	answer := func(writer http.ResponseWriter, err error) {
		if err != nil {
			http.Error(writer, err.Error(), http.StatusInternalServerError)
		}
	}
	http.HandleFunc("POST /stop/{program}", func(writer http.ResponseWriter, request *http.Request) {
		answer(writer, programs.stop(request.PathValue("program")))
	})
	signals := map[string]syscall.Signal{"freeze": syscall.SIGSTOP, "thaw": syscall.SIGCONT}
	for verb, signal := range signals {
		http.HandleFunc("POST /"+verb+"/{program}", func(writer http.ResponseWriter, request *http.Request) {
			answer(writer, programs.signal(request.PathValue("program"), signal))
		})
	}
	http.HandleFunc("POST /start/{program}", func(writer http.ResponseWriter, request *http.Request) {
		answer(writer, programs.start(request.PathValue("program")))
	})
	http.HandleFunc("POST /health/{device}/{health}", func(writer http.ResponseWriter, request *http.Request) {
		answer(writer, plugin.setHealth(request.PathValue("device"), request.PathValue("health")))
	})
	http.HandleFunc("POST /load/{path...}", func(writer http.ResponseWriter, request *http.Request) {
		answer(writer, load(config, "/"+request.PathValue("path")))
	})
	http.HandleFunc("GET /holders", func(writer http.ResponseWriter, request *http.Request) {
		found, err := holders(request.Context())
		if err != nil {
			answer(writer, err)
			return
		}
		json.NewEncoder(writer).Encode(found)
	})
	listener, err := net.Listen("unix", config.file("control.sock"))
	if err != nil {
		return err
	}
	return http.Serve(listener, nil)
}

func holders(ctx context.Context) ([]holder, error) {
	connection, err := grpc.NewClient("unix:///var/lib/kubelet/pod-resources/kubelet.sock", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := resources.NewPodResourcesListerClient(connection).List(ctx, &resources.ListPodResourcesRequest{})
	if err != nil {
		return nil, err
	}
	found := []holder{}
	for _, pod := range list.PodResources {
		for _, container := range pod.Containers {
			ids := []string{}
			for _, devices := range container.Devices {
				ids = append(ids, devices.DeviceIds...)
			}
			for _, claim := range container.DynamicResources {
				for _, given := range claim.ClaimResources {
					ids = append(ids, given.DeviceName)
				}
			}
			for _, id := range ids {
				found = append(found, holder{id, pod.Namespace, pod.Name, container.Name})
			}
		}
	}
	return found, nil
}
