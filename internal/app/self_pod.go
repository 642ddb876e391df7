package app

import (
	"os"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/config"
)

// selfPod is the pod of this process. Its name is the hostname, and its namespace is a setting that the chart
// fills. With host networking the hostname is that of the Node, and no pod has that name.
func selfPod(cfg config.Config) cluster.PodKey {
	name, err := os.Hostname()
	if err != nil {
		return cluster.PodKey{}
	}
	return cluster.PodKey{Namespace: cfg.Namespace, Name: name}
}
