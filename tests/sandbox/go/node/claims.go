// A driver for dynamic resource allocation. It publishes the node's devices as a ResourceSlice,
// with the name and the attributes of the vendor's driver, and passes the devices of a claim to its
// containers.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	api "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const (
	driverName = "gpu.nvidia.com"
	deviceKind = "sandbox.gpuctl.dev/claim"
)

type driver struct{ config Config }

func startDriver(config Config) {
	settings, err := clientcmd.BuildConfigFromFlags("", config.file("admin.kubeconfig"))
	must(err)
	client, err := kubernetes.NewForConfig(settings)
	must(err)
	data := filepath.Join("/var/lib/kubelet/plugins", driverName)
	must(os.MkdirAll(data, 0o755))
	// The kubelet creates the plugin registry when it starts.
	for range 600 {
		if _, err := os.Stat(kubeletplugin.KubeletRegistryDir); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	ctx := context.Background()
	helper, err := kubeletplugin.Start(ctx, &driver{config}, kubeletplugin.DriverName(driverName), kubeletplugin.KubeClient(client),
		kubeletplugin.NodeName(config.Name), kubeletplugin.PluginDataDirectoryPath(data))
	must(err)
	var devices []api.Device
	for _, id := range config.Claims {
		kind := "gpu"
		devices = append(devices, api.Device{
			Name: strings.ToLower(id),
			Attributes: map[api.QualifiedName]api.DeviceAttribute{
				"type": {StringValue: &kind}, "uuid": {StringValue: &id}, "productName": {StringValue: &config.Product},
			},
			Capacity: map[api.QualifiedName]api.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
		})
	}
	must(helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
		config.Name: {Slices: []resourceslice.Slice{{Devices: devices}}},
	}}))
}

func (d *driver) PrepareResourceClaims(_ context.Context, claims []*api.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		var result kubeletplugin.PrepareResult
		var ids []string
		for _, given := range claim.Status.Allocation.Devices.Results {
			if given.Driver != driverName {
				continue
			}
			ids = append(ids, given.Device)
			result.Devices = append(result.Devices, kubeletplugin.Device{
				Requests: []string{given.Request}, PoolName: given.Pool, DeviceName: given.Device,
				CDIDeviceIDs: []string{deviceKind + "=" + string(claim.UID)},
			})
		}
		result.Err = writeSpec(claim.UID, ids)
		results[claim.UID] = result
	}
	return results, nil
}

// writeSpec writes the CDI specification of a claim: the runtime sets a variable with the ids of
// the devices in its containers.
func writeSpec(claim types.UID, ids []string) error {
	text, err := json.Marshal(object{
		"cdiVersion": "0.6.0", "kind": deviceKind,
		"devices": []object{{"name": string(claim), "containerEdits": object{"env": []string{"NVIDIA_VISIBLE_DEVICES=" + strings.Join(ids, ",")}}}},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(specPath(claim), text, 0o644)
}

func specPath(claim types.UID) string { return filepath.Join("/run/cdi", string(claim)+".json") }

func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		if err := os.Remove(specPath(claim.UID)); err != nil && !os.IsNotExist(err) {
			results[claim.UID] = err
		} else {
			results[claim.UID] = nil
		}
	}
	return results, nil
}

func (d *driver) HandleError(_ context.Context, err error, message string) {
	log.Printf("claim driver: %s: %v", message, err)
}
