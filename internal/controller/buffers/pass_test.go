package buffers

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/buffer"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// cached is a cache that has what the API server has.
type cached struct {
	cache.Cache
	api client.Client
}

func (c cached) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	return c.api.Get(ctx, key, into, opts...)
}

func (c cached) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return c.api.List(ctx, into, opts...)
}

func (cached) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return informer{}, nil
}

type informer struct{ cache.Informer }

func (informer) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}

// room is what a store has for buffers.
type room struct{ pods []*corev1.Pod }

func (*room) AddFeed(string, func() bool) {}
func (r *room) SetVirtualPods(pods []*corev1.Pod) bool {
	changed := !reflect.DeepEqual(r.pods, pods)
	r.pods = pods
	return changed
}
func (*room) DefaultRequests(string) corev1.ResourceList { return nil }
func (*room) RuntimeOverhead(string) corev1.ResourceList { return nil }

// scene is a leader with buffers.
type fixture struct {
	*Buffers
	t      *testing.T
	api    client.Client
	room   *room
	events *controllertest.EventLog
	lines  []string
	denied map[string]error // by kind of list: why it cannot be listed
	now    time.Time
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, autoscalingv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := &fixture{t: t, room: &room{}, events: &controllertest.EventLog{}, denied: map[string]error{}, now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	s.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&autoscalingv1beta1.CapacityBuffer{}).
		WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := s.denied[reflect.TypeOf(list).Elem().Name()]; err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		}}).Build()
	elected := make(chan struct{})
	close(elected)
	clock := func() time.Time { return s.now }
	s.Buffers = &Buffers{
		Client: s.api, Live: s.api, Cache: cached{api: s.api}, Store: s.room, Events: report.New(s.events, clock), Trigger: func() {}, Now: clock,
		elected: elected, wake: make(chan struct{}, 1), readable: make(chan struct{}),
		watched: map[reflect.Type]bool{}, unreadable: map[reflect.Type]unreadable{}, failed: map[string]string{},
	}
	return s
}

// passes makes some passes, half a minute apart, and returns what failed.
func (s *fixture) passes(n int) (failed []string) {
	s.t.Helper()
	logger := funcr.New(func(_, args string) { s.lines = append(s.lines, args) }, funcr.Options{})
	for range n {
		if err := s.pass(log.IntoContext(s.t.Context(), logger), true); err != nil {
			failed = append(failed, err.Error())
		}
		s.now = s.now.Add(buffer.PollInterval)
	}
	return failed
}

// said counts the lines of the log with a text.
func (s *fixture) said(text string) (n int) {
	for _, line := range s.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// ready is condition ReadyForProvisioning of a buffer: status, reason and message.
func (s *fixture) ready(name string) string {
	s.t.Helper()
	b := &autoscalingv1beta1.CapacityBuffer{}
	if err := s.api.Get(s.t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, b); err != nil {
		s.t.Fatal(err)
	}
	c := meta.FindStatusCondition(b.Status.Conditions, autoscalingv1beta1.ConditionReadyForProvisioning)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason + " " + c.Message
}

func bufferOf(name string, spec autoscalingv1beta1.CapacityBufferSpec) *autoscalingv1beta1.CapacityBuffer {
	return &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: spec}
}

func web() *corev1.PodTemplate {
	return &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "web", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}},
	}}}
}

func ofWeb(replicas int32) autoscalingv1beta1.CapacityBufferSpec {
	return autoscalingv1beta1.CapacityBufferSpec{PodTemplateRef: &autoscalingv1beta1.LocalObjectRef{Name: "web"}, Replicas: &replicas}
}

// CB-14, CB-17: a kind that may not be read is reported once, on the log and on the buffers that need it, and not again with
// every pass. Once it may be read, they work.
func TestCB_17_MissingPermissionsAreReportedOnce(t *testing.T) {
	t.Parallel()
	s := newFixture(t, bufferOf("spare", ofWeb(2)), web())
	s.denied["PodTemplateList"] = apierrors.NewForbidden(schema.GroupResource{Resource: "podtemplates"}, "", errors.New("no"))
	if failed := s.passes(5); len(failed) > 0 {
		t.Errorf("passes failed: %v", failed)
	}
	if n := s.said("may not read PodTemplates"); n != 2 || len(s.room.pods) != 0 {
		t.Errorf("%d lines, %d pods; want one line about the kind and one about the buffer:\n%s", n, len(s.room.pods), strings.Join(s.lines, "\n"))
	}
	if got := s.ready("spare"); !strings.HasPrefix(got, "False ResolutionFailed cannot read PodTemplate web") {
		t.Errorf("the buffer says %q", got)
	}
	delete(s.denied, "PodTemplateList")
	s.passes(1)
	if got := s.ready("spare"); !strings.HasPrefix(got, "True Resolved") || len(s.room.pods) != 2 {
		t.Errorf("the buffer says %q and has %d pods", got, len(s.room.pods))
	}
}

// CB-14: what may pass by itself fails the pass, which is tried again with back-off.
func TestCB_14_AFailureOfTheAPIServerIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := newFixture(t, bufferOf("spare", ofWeb(2)), web())
	s.denied["PodTemplateList"] = apierrors.NewServiceUnavailable("away")
	if failed := s.passes(2); len(failed) != 2 {
		t.Errorf("passes failed: %v, want both", failed)
	}
}

// CB-01, CB-05, CB-14: a buffer that refers to nothing, one whose target is missing and one of another controller have
// no effect, and the next to them works. Those that are ours say why, the other is left alone.
func TestCB_14_OneBadBufferDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	theirs := ofWeb(1)
	theirs.ProvisioningStrategy = new("example.com/theirs")
	missing := ofWeb(1)
	missing.PodTemplateRef = &autoscalingv1beta1.LocalObjectRef{Name: "missing"}
	s := newFixture(t, web(), bufferOf("a-nothing", autoscalingv1beta1.CapacityBufferSpec{Replicas: new(int32(1))}), bufferOf("b-missing", missing),
		bufferOf("c-theirs", theirs), bufferOf("d-good", ofWeb(3)))
	if failed := s.passes(3); len(failed) > 0 {
		t.Errorf("passes failed: %v", failed)
	}
	for name, want := range map[string]string{
		"a-nothing": "False ResolutionFailed set exactly one", "b-missing": "False PodTemplateNotFound PodTemplate missing does not exist", "c-theirs": "", "d-good": "True Resolved",
	} {
		if got := s.ready(name); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("buffer %s says %q, want %q", name, got, want)
		}
	}
	if len(s.room.pods) != 3 {
		t.Errorf("room is kept for %d pods, want those of the good buffer", len(s.room.pods))
	}
	if n := s.said("no room is kept"); n != 2 {
		t.Errorf("%d lines about buffers without effect, want 2:\n%s", n, strings.Join(s.lines, "\n"))
	}
}

// operations 9: a condition of a buffer that changes is an event, once.
func TestCB_14_EventsOfConditions(t *testing.T) {
	t.Parallel()
	s := newFixture(t, bufferOf("spare", ofWeb(2)))
	s.passes(3)
	template := web()
	if err := s.api.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	s.passes(3)
	var logged []string
	for _, line := range s.events.Lines {
		if strings.Contains(line, "Normal ReadyForProvisioning:") {
			logged = append(logged, line)
		}
	}
	if len(logged) != 2 || !strings.Contains(logged[0], "PodTemplateNotFound") || !strings.Contains(logged[1], "changed from False to True, reason Resolved") {
		t.Errorf("events %q", s.events.Lines)
	}
}
