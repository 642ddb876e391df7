package embedded

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	schedulerapp "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q, qps: 2000, burst: 4000}
`

// scaledScheduler does less for each pod and node. It looks at fewer nodes for each pod. The spread that pods
// get without requesting it reads every node for every pod, two thirds of its time with a thousand nodes. And
// for each event of a kind that some plugin wants to know of, the scheduler looks at every pod that waits,
// one event after the other: with ten thousand pods and a thousand nodes it is minutes behind, and pods whose
// nodes are ready wait for that. So it knows nothing of volumes and devices, which are not used at scale, and
// a third of the events are none of its business.
const scaledScheduler = `percentageOfNodesToScore: 10
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      disabled:
      - {name: DynamicResources}
      - {name: NodeVolumeLimits}
      - {name: VolumeBinding}
      - {name: VolumeRestrictions}
      - {name: VolumeZone}
  pluginConfig:
  - {name: PodTopologySpread, args: {defaultingType: List}}
`

func (cp *plane) launchScheduler(ctx context.Context, scale bool) error {
	file := cp.folder.joinPath("pki", "scheduler.yaml")
	text := fmt.Sprintf(schedulerConfig, cp.folder.joinPath("pki", "scheduler.kubeconfig"))
	if scale {
		text += scaledScheduler
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	options := scheduleroptions.NewOptions()
	if err := parse(*options.Flags, []string{"--config=" + file, "--secure-port=0"}); err != nil {
		return err
	}
	name, err := cache.NewInformerName("kube-scheduler")
	if err != nil {
		return err
	}
	options.InformerName = name
	config, scheduler, err := schedulerapp.Setup(ctx, options)
	if err != nil {
		return err
	}
	config.EventBroadcaster = broadcaster{EventBroadcasterAdapter: config.EventBroadcaster, started: cp.scheduling}
	cp.runComponent(ctx, "kube-scheduler", func() error { return schedulerapp.Run(ctx, config, scheduler) })
	return nil
}

// broadcaster signals that kube-scheduler starts to record events: the first thing it does once its names are
// registered, in a goroutine of its own.
type broadcaster struct {
	events.EventBroadcasterAdapter
	started chan<- struct{}
}

// StartRecordingToSink implements events.EventBroadcasterAdapter.
func (b broadcaster) StartRecordingToSink(stop <-chan struct{}) {
	close(b.started)
	b.EventBroadcasterAdapter.StartRecordingToSink(stop)
}

func (cp *plane) awaitScheduler(ctx context.Context) error {
	select {
	case <-cp.scheduling:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
