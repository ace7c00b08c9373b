// The GPUs of a node: a device plugin for the kubelet. The devices are only ids. As with the
// vendor's plugin, a container gets the ids of its devices in NVIDIA_VISIBLE_DEVICES.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

type devicePlugin struct {
	api.UnimplementedDevicePluginServer
	config Config
	lock   sync.Mutex
	health map[string]string
	// changed is closed and replaced when a device's health changes.
	changed chan struct{}
}

func newDevicePlugin(config Config) *devicePlugin {
	plugin := &devicePlugin{config: config, health: map[string]string{}, changed: make(chan struct{})}
	for _, id := range config.Devices {
		plugin.health[id] = api.Healthy
	}
	return plugin
}

func (p *devicePlugin) setHealth(id, health string) error {
	p.lock.Lock()
	defer p.lock.Unlock()
	if _, ok := p.health[id]; !ok {
		return fmt.Errorf("no device has the id %q", id)
	}
	p.health[id] = health
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

// serve registers the plugin, again after each restart of the kubelet. A starting kubelet empties
// the folder, so a missing socket means that it has restarted.
func (p *devicePlugin) serve() {
	if len(p.config.Devices) == 0 {
		return
	}
	socket := filepath.Join(api.DevicePluginPath, "sandbox.sock")
	for {
		if _, err := os.Stat(api.KubeletSocket); err == nil {
			server := grpc.NewServer()
			api.RegisterDevicePluginServer(server, p)
			os.Remove(socket)
			listener, err := net.Listen("unix", socket)
			must(err)
			go server.Serve(listener)
			if err := p.register(); err != nil {
				log.Printf("cannot register the device plugin with the kubelet: %v", err)
			} else {
				for {
					if _, err := os.Stat(socket); err != nil {
						break
					}
					time.Sleep(200 * time.Millisecond)
				}
			}
			server.Stop()
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (p *devicePlugin) register() error {
	connection, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: "sandbox.sock", ResourceName: p.config.Resource, Options: &api.DevicePluginOptions{},
	})
	return err
}

func (p *devicePlugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *devicePlugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	for {
		p.lock.Lock()
		var devices []*api.Device
		for _, id := range p.config.Devices {
			devices = append(devices, &api.Device{ID: id, Health: p.health[id]})
		}
		changed := p.changed
		p.lock.Unlock()
		if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (p *devicePlugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")},
		})
	}
	return response, nil
}
