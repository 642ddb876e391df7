package execute_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// FM A14, G8: what follows from the claims of a batch: pools that are backed off, and replacements that were created.
func TestFM_A14_WhatFollowsFromABatch(t *testing.T) {
	t.Parallel()
	pods := []cluster.PodKey{{Namespace: "default", Name: "web"}}
	result := func(pool string, err error) execute.Created {
		return execute.Created{Node: solve.NewNode{Pool: pool, Pods: pods}, Err: err}
	}
	created := result("a", nil)
	created.Claim = &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a-1", UID: "1"}}
	claims := schema.GroupResource{Resource: "nodeclaims"}
	denied := apierrors.NewForbidden(claims, "", errors.New("admission denies it"))
	for name, tc := range map[string]struct {
		created  []execute.Created
		denied   []string
		made     []command.Replacement
		fails    bool
		outdated bool
	}{
		"nothing is ordered": {},
		"all are created":    {created: []execute.Created{created}, made: []command.Replacement{{Name: "a-1", UID: "1", Pods: pods}}},
		"one is denied":      {created: []execute.Created{created, result("b", denied)}, denied: []string{"b"}, made: []command.Replacement{{Name: "a-1", UID: "1", Pods: pods}}, fails: true},
		"each pool once":     {created: []execute.Created{result("b", denied), result("a", apierrors.NewBadRequest("no")), result("b", denied)}, denied: []string{"a", "b"}, fails: true},
		"others were faster": {created: []execute.Created{result("a", fmt.Errorf("limit: %w", execute.ErrOutdated))}, fails: true, outdated: true},
		"no response":        {created: []execute.Created{result("a", apierrors.NewServerTimeout(claims, "create", 1))}, fails: true},
		"the name is taken":  {created: []execute.Created{result("a", apierrors.NewAlreadyExists(claims, "a-1"))}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := execute.Orders(tc.created)
			if diff := cmp.Diff(tc.denied, got.Denied); diff != "" {
				t.Errorf("denied (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.made, got.Created); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
			if (got.Err != nil) != tc.fails || got.Outdated != tc.outdated {
				t.Errorf("error %v, outdated %v; want %+v", got.Err, got.Outdated, tc)
			}
		})
	}
}
