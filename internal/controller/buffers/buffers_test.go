package buffers

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
)

// CB-17, FM C12: what cannot be read until the user acts is reported with what to do; anything else is tried again.
func TestCB_17_WhyUnreadable(t *testing.T) {
	t.Parallel()
	buffers, sets := reflect.TypeFor[*autoscalingv1beta1.CapacityBuffer](), reflect.TypeFor[*appsv1.ReplicaSet]()
	resource := schema.GroupResource{Group: "autoscaling.x-k8s.io", Resource: "capacitybuffers"}
	for name, tc := range map[string]struct {
		kind  reflect.Type
		err   error
		lasts bool
		says  string
	}{
		"no CRD":                  {buffers, &meta.NoKindMatchError{}, true, "the cluster does not serve CapacityBuffers; install the CustomResourceDefinitions"},
		"the CRD was deleted":     {buffers, apierrors.NewNotFound(resource, ""), true, "the cluster does not serve CapacityBuffers"},
		"no right":                {sets, apierrors.NewForbidden(resource, "", errors.New("no")), true, "may not read ReplicaSets; allow it to get, list and watch them"},
		"the API server is away":  {buffers, apierrors.NewServiceUnavailable("away"), false, ""},
		"the connection is reset": {buffers, errors.New("connection reset"), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if text, lasts := whyUnreadable(tc.kind, tc.err); lasts != tc.lasts || !strings.Contains(text, tc.says) {
				t.Errorf("lasts %v, %q; want %v, %q", lasts, text, tc.lasts, tc.says)
			}
		})
	}
}

// V15-64: a change of the spec wakes, one of the status does not.
func TestV15_64_WhatWakes(t *testing.T) {
	t.Parallel()
	object := func(change func(*metav1.ObjectMeta)) *corev1.PodTemplate {
		o := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1", Generation: 1, ResourceVersion: "7"}}
		change(&o.ObjectMeta)
		return o
	}
	for name, tc := range map[string]struct {
		before, after func(*metav1.ObjectMeta)
		want          bool
	}{
		"nothing":          {func(*metav1.ObjectMeta) {}, func(*metav1.ObjectMeta) {}, false},
		"status":           {func(*metav1.ObjectMeta) {}, func(m *metav1.ObjectMeta) { m.ResourceVersion = "8" }, false},
		"spec":             {func(*metav1.ObjectMeta) {}, func(m *metav1.ObjectMeta) { m.Generation, m.ResourceVersion = 2, "8" }, true},
		"another object":   {func(*metav1.ObjectMeta) {}, func(m *metav1.ObjectMeta) { m.UID = "2" }, true},
		"it is deleted":    {func(*metav1.ObjectMeta) {}, func(m *metav1.ObjectMeta) { m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, true},
		"without a number": {func(m *metav1.ObjectMeta) { m.Generation = 0 }, func(m *metav1.ObjectMeta) { m.Generation, m.ResourceVersion = 0, "8" }, true},
	} {
		if got := specChanged(object(tc.before), object(tc.after)); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
