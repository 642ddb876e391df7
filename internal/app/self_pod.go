package app

import (
	"os"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/config"
)

// selfPod is the pod that this process is: its name is the name of the machine it sees, and its namespace
// is a setting that the chart fills. On the network of the host the machine is the Node, and no pod is
// found under that name.
func selfPod(cfg config.Config) cluster.PodKey {
	name, err := os.Hostname()
	if err != nil {
		return cluster.PodKey{}
	}
	return cluster.PodKey{Namespace: cfg.Namespace, Name: name}
}
