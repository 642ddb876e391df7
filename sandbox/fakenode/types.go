package fakenode

import (
	"errors"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Annotations of a pod that say how long the phases of its life take, each a Go duration.
const (
	// StartAfterAnnotation is the time from binding to Running.
	StartAfterAnnotation = "sandbox.dovetail.sh/start-after"
	// CompleteAfterAnnotation is the time from Running until all containers exit with 0.
	CompleteAfterAnnotation = "sandbox.dovetail.sh/complete-after"
	// FailAfterAnnotation is the time from Running until all containers exit with 1.
	FailAfterAnnotation = "sandbox.dovetail.sh/fail-after"
	// StopAfterAnnotation is the time from deletion until the pod is gone, at most its grace period.
	StopAfterAnnotation = "sandbox.dovetail.sh/stop-after"
)

// SimulatedAnnotation marks the Nodes made here, with the id of their instance. Only these are deleted
// when their instance is gone.
const SimulatedAnnotation = "sandbox.dovetail.sh/simulated"

// LeaveReadyAnnotation of a Node has its kubelet leave the condition Ready as it is, for tests that set it. The value is
// the time until which it does, in RFC 3339, or "always". The lease is still renewed.
const LeaveReadyAnnotation = "sandbox.dovetail.sh/leave-ready"

// secondNodePrefix begins the name of the second Node of an instance that joined twice.
const secondNodePrefix = "twin-"

// States of an instance that matter here; any other one means that nothing runs on it.
const (
	stateRunning    = "running"
	stateTerminated = "terminated"
)

// Instance is what a kubelet can know about the machine it runs on, and what its owner can.
type Instance struct {
	ID, Type, Zone, ZoneID, Region string
	PrivateDNS, PrivateIP          string
	ImageID, Architecture          string
	CapacityType, Profile, State   string
	// Running is when the instance began to run, in the time of the Clock; zero before.
	Running time.Time
	// Rebooted is when it was rebooted last, in the same time; zero if never.
	Rebooted time.Time
	// UserData is decoded, as the instance reads it.
	UserData []byte
	// Capacity is what the type has: cpu, memory, pods by network interfaces and extended resources, and
	// ephemeral-storage where there are no Disks.
	Capacity corev1.ResourceList
	// Disks are the volumes it was launched with; LocalBytes is what the disks of the machine itself hold.
	Disks      []Disk
	LocalBytes int64
}

// Disk is a volume of an instance.
type Disk struct {
	Device string // such as /dev/xvda
	Bytes  int64
	Root   bool // the image boots from it
}

// Cloud is where instances come from.
type Cloud interface {
	// Instances returns all instances, in any order. Those terminated may be missing. The caller does
	// not change what it gets, and keeps it.
	Instances() []Instance
	// Changed returns a channel that is closed, or receives a value, when Instances or MayJoin returns
	// differently. It is requested again before every call of Instances, so that no change is missed.
	Changed() <-chan struct{}
	// MayJoin says whether the cluster admits nodes with this instance profile.
	MayJoin(profile string) bool
}

// Volumes is where the CSI driver makes its volumes. All may be called again with the same arguments.
type Volumes interface {
	Create(v Volume)
	Delete(id string)
	Attach(id, instance string)
	Detach(id string)
}

// Volume is what the CSI driver queries the cloud for.
type Volume struct {
	ID, Zone, Type string
	Bytes          int64
	Encrypted      bool
	Tags           map[string]string
}

// Clock is the time of the emulated cloud.
type Clock interface {
	Now() time.Time
	// Until returns a channel that is closed at t, at once if that has passed, or when the clock was
	// changed and should be called again. A caller that does not wait any longer calls stop.
	Until(t time.Time) (reached <-chan struct{}, stop func())
}

// Options of a Simulator. Client and Cloud are required.
type Options struct {
	Client kubernetes.Interface
	Cloud  Cloud
	// Volumes hears of what the CSI driver does; nil if volumes are objects of Kubernetes only.
	Volumes Volumes
	// Clock times everything until a node is Ready; nil is the wall clock.
	Clock Clock
	// Cluster is the name that user data has to give; empty accepts any.
	Cluster string
	// BootTime is from running to the registration of the Node; 0 means 20 s, below 0 none.
	BootTime time.Duration
	// ReadyTime is from registration to Ready; 0 means 2 s, below 0 none.
	ReadyTime time.Duration
	// StartupTaint says which taints an agent removes once the node is Ready; nil means those whose
	// key ends in "agent-not-ready".
	StartupTaint func(corev1.Taint) bool
	// StartupTime is how long after Ready it does that; 0 means 2 s, below 0 at once.
	StartupTime time.Duration
	// LeaseDuration of the nodes, renewed after a quarter of it; 0 means 40 s.
	LeaseDuration time.Duration
	// MemoryLoss is the share of its memory that a machine keeps from its node, such as 0.02.
	MemoryLoss float64
	// VolumeLimit is how many volumes can be attached to a node; 0 means 25.
	VolumeLimit int32
	// KeepNodes leaves the Nodes of terminated instances, where a cloud controller would delete them.
	KeepNodes bool
	// DeleteAfter is how long it takes to delete them; 0 means 5 s, below 0 none.
	DeleteAfter time.Duration
	// PodStart is the time from binding to Running of pods without an annotation.
	PodStart time.Duration
	// JobTime, when set, completes the pods of Jobs and of Helm hooks that have no annotation.
	JobTime time.Duration
	// Static nodes are always there, with no instance behind them; see Bootstrap.
	Static []StaticNode
	// Faults to obey; nil means none, until they are set through Simulator.Faults.
	Faults *Faults
	// RestartBackoff is how long a container that ended again and again waits at first; it doubles up to
	// 30 times that. 0 means 10 s.
	RestartBackoff time.Duration
	// KubeletPort is where Simulator.KubeletAPI is served on localhost, for all nodes; 0 means nowhere. The
	// nodes have it as their port, and localhost as an external DNS name, so that their internal address
	// stays that of the emulated network.
	KubeletPort int32
	// Runtime runs the containers of some images; nil means that all are simulated.
	Runtime Runtime
	// Workers for pods; 0 means 16.
	Workers int
	// Log of what went wrong; nil means none.
	Log *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Client == nil || o.Cloud == nil {
		return o, errors.New("fakenode: a Client and a Cloud are required")
	}
	if o.MemoryLoss < 0 || o.MemoryLoss >= 1 {
		return o, errors.New("fakenode: MemoryLoss is a share, from 0 to less than 1")
	}
	if o.Volumes == nil {
		o.Volumes = noVolumes{}
	}
	if o.Clock == nil {
		o.Clock = wallClock{}
	}
	if o.StartupTaint == nil {
		o.StartupTaint = agentTaint
	}
	if o.Faults == nil {
		o.Faults = NewFaults()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.BootTime = orDefault(o.BootTime, 20*time.Second)
	o.ReadyTime = orDefault(o.ReadyTime, 2*time.Second)
	o.StartupTime = orDefault(o.StartupTime, 2*time.Second)
	o.DeleteAfter = orDefault(o.DeleteAfter, 5*time.Second)
	if o.LeaseDuration <= 0 {
		o.LeaseDuration = 40 * time.Second
	}
	if o.RestartBackoff <= 0 {
		o.RestartBackoff = 10 * time.Second
	}
	if o.VolumeLimit <= 0 {
		o.VolumeLimit = 25
	}
	if o.Workers <= 0 {
		o.Workers = 16
	}
	return o, nil
}

func orDefault(d, byDefault time.Duration) time.Duration {
	if d == 0 {
		return byDefault
	}
	return max(d, 0)
}

// NewClient returns a client fit for Options: it speaks protobuf and does not limit itself, since the
// limit of a client would be shared by all nodes.
func NewClient(config *rest.Config) (kubernetes.Interface, error) {
	own := rest.CopyConfig(config)
	own.ContentType = "application/vnd.kubernetes.protobuf"
	own.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	own.QPS = -1
	own.UserAgent = "dovetail-sandbox-fakenode"
	return kubernetes.NewForConfig(own)
}

type noVolumes struct{}

func (noVolumes) Create(Volume)         {}
func (noVolumes) Delete(string)         {}
func (noVolumes) Attach(string, string) {}
func (noVolumes) Detach(string)         {}

type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func (wallClock) Until(t time.Time) (reached <-chan struct{}, stop func()) {
	done := make(chan struct{})
	timer := time.AfterFunc(time.Until(t), func() { close(done) })
	return done, func() { timer.Stop() }
}
