package flow_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/sandbox/commands"
)

// Users who may ask get the answers of the controller that decides; others hear what they need. EX-39, EX-36, TV-14.
func TestQuestions_OfAuthorizedUsers(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large"))
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]

	stranger := f.connect(f.createToken("stranger"))
	_, err := stranger.Fleet(t.Context())
	if _, unavailable := errors.AsType[api.UnavailableError](err); !unavailable || !strings.Contains(err.Error(), "kubectl create clusterrole dovetail-inspect --verb=get --non-resource-url=/debug/decisions") {
		t.Errorf("an account without the right gets %v, want the commands that grant it", err)
	}

	token := f.createToken("reader")
	f.mayReadDecisions("reader")
	reader := f.connect(token)
	var fleet inspect.Fleet
	f.waitUntil(soon, "the account may ask", func() (bool, string) { // a no is believed for ten seconds
		if fleet, err = reader.Fleet(t.Context()); err != nil {
			return false, err.Error()
		}
		return true, ""
	})
	i := slices.IndexFunc(fleet.Nodes, func(n inspect.Node) bool { return n.Name == claim.Status.NodeName })
	if i < 0 || fleet.Nodes[i].Claim != claim.Name || fleet.Nodes[i].Pool != f.name || fleet.Nodes[i].InstanceType != "m5.large" || fleet.Nodes[i].Price == nil {
		t.Errorf("the fleet has %+v at %d, want node %s with its price", fleet.Nodes, i, claim.Status.NodeName)
	}
	explained, err := reader.Explain(t.Context(), inspect.Subject{Kind: inspect.KindNode, Name: claim.Status.NodeName})
	if err != nil || !strings.Contains(explained.Answer, "m5.large") {
		t.Errorf("the explanation of the node: %q, %v", explained.Answer, err)
	}
	past, err := reader.History(t.Context(), inspect.HistoryQuery{Object: inspect.Subject{Kind: inspect.KindNodePool, Name: f.name}, Kinds: []string{"plan"}})
	if err != nil || !slices.ContainsFunc(past.Events, func(e inspect.Event) bool { return strings.Contains(e.Text, "launches ") }) {
		t.Errorf("the history of the NodePool: %+v, %v", past.Events, err)
	}
	if _, err := reader.Plan(t.Context(), inspect.WhatIf{}); err != nil {
		t.Errorf("the plan: %v", err)
	}
	file, err := reader.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.nothingMissing(file)
	if !slices.ContainsFunc(file.Objects.NodePools, func(p karpv1.NodePool) bool { return p.Name == f.name }) {
		t.Error("the snapshot lacks the NodePool")
	}
	if !slices.ContainsFunc(file.Catalogues, func(c snapshot.Catalogue) bool {
		return slices.Contains(c.NodePools, f.name) && len(c.InstanceTypes) > 0
	}) {
		t.Error("the snapshot has no instance types of the NodePool")
	}
	if _, err := reader.Plan(t.Context(), inspect.WhatIf{Without: []string{"zone=" + fleet.Nodes[i].Zone}}); err != nil {
		t.Errorf("the plan without a zone: %v", err)
	}

	got := f.dovetail(token, "explain", "node", claim.Status.NodeName, "--controller-address", f.served)
	if !strings.Contains(got, claim.Status.NodeName) || !strings.Contains(got, "m5.large") || strings.Contains(got, "based on objects") {
		t.Errorf("the command prints %s", got)
	}
	listed := f.dovetail(token, "top", "--controller-address", f.served)
	for _, part := range []string{"; leader", claim.Status.NodeName, "m5.large", "/month"} {
		if !strings.Contains(listed, part) {
			t.Errorf("dovetail top prints %s\nwant %q in it", listed, part)
		}
	}
}

// A user who may only view gets what objects and events say, with why. EX-37, EX-38, TV-14.
func TestQuestions_FromObjects(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large"))
	f.deploy("inflate", 1)
	pod := f.waitForRunningPods("inflate", 1)[0]
	token := f.createToken("viewer")
	f.bind("viewer", "view")
	got := f.dovetail(token, "explain", "pod", pod.Name, "-n", f.namespace)
	for _, part := range []string{pod.Name, "based on objects and events of the cluster, because the controller"} {
		if !strings.Contains(got, part) {
			t.Errorf("the command prints %s\nwant %q in it", got, part)
		}
	}
	if listed := f.dovetail(token, "top"); !strings.Contains(listed, "; objects\n") || !strings.Contains(listed, "note: based on objects") {
		t.Errorf("dovetail top prints %s\nwant what it is read from, and why", listed)
	}
}

// nothingMissing checks that a snapshot has all but instance types of NodePools of other tests, whose classes may be broken, and the
// view of a controller that is not found because it holds no Lease.
func (f *flow) nothingMissing(file *snapshot.File) {
	f.Helper()
	for _, m := range file.Missing {
		ofOthers := strings.HasPrefix(m.What, "instance types of NodePool ") && !strings.Contains(m.What, f.name)
		if !ofOthers && m.What != "the cluster as its controller sees it" {
			f.Errorf("the snapshot lacks %s: %s", m.What, m.Why)
		}
	}
}

// connect returns a client of the controller that all share.
func (f *flow) connect(token string) *api.Client {
	f.Helper()
	c, err := api.NewClient(f.served, token)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	return c
}

// dovetail runs a command in the name of a token, and returns what it prints.
func (f *flow) dovetail(token string, args ...string) string {
	f.Helper()
	o := f.user(token).Run(f.T, args...)
	if o.Code != 0 {
		f.Fatal(o)
	}
	return o.Out + o.Err
}

// user is the owner of a token, or an administrator without one.
func (f *flow) user(token string) *commands.User {
	f.Helper()
	return &commands.User{Server: commands.Serve(f.T, f.server.Config, token), Binary: binary, Env: f.world.Environment()}
}
