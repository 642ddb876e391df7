package top

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}

// mixed is a File with nodes in all states: of the first nodes, one is removed, one has drifted, one is not ready, one belongs
// to no NodePool, and one is only a NodeClaim so far.
func mixed(nodes int) *snapshot.File {
	f := snapshottest.New(snapshottest.Options{Pending: 2, Huge: 1})
	f.Name = "mixed"
	f.Objects.NodePools = append(f.Objects.NodePools, *snapshottest.Pool("batch"))
	f.Catalogues[0].NodePools = append(f.Catalogues[0].NodePools, "batch")
	types := snapshottest.InstanceTypes()
	for i := range nodes {
		market := []string{karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand}[i%3/2]
		claim, node := snapshottest.Node(fmt.Sprintf("ip-10-0-%d-%d.ec2.internal", i/200, i%200), types[i*7%len(types)].Name, "us-east-1"+string("abc"[i%3]), market)
		pool := []string{snapshottest.PoolName, "batch"}[i%2]
		claim.Labels[karpv1.LabelNodePool], node.Labels[karpv1.LabelNodePool] = pool, pool
		created := metav1.NewTime(snapshottest.Now().Add(-time.Duration(1+i*37%9000) * time.Minute))
		claim.CreationTimestamp, node.CreationTimestamp = created, created
		switch i % 50 {
		case 1:
			now := metav1.NewTime(snapshottest.Now())
			claim.DeletionTimestamp, claim.Finalizers = &now, []string{karpv1.FinalizerTermination}
			node.DeletionTimestamp, node.Finalizers = &now, []string{karpv1.FinalizerTermination}
		case 3:
			claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{Type: karpv1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: "NodePoolDrifted", LastTransitionTime: created})
		case 5:
			node.Status.Conditions[0].Status = corev1.ConditionFalse
		case 7:
			delete(node.Labels, karpv1.LabelNodePool)
			delete(node.Labels, karpv1.LabelCapacityType)
			claim = nil
		case 9:
			claim.Status.Conditions, claim.Status.NodeName = claim.Status.Conditions[:1], ""
			delete(claim.Labels, karpv1.LabelRegistered)
			delete(claim.Labels, karpv1.LabelInitialized)
			node = nil
		}
		if claim != nil {
			f.Objects.NodeClaims = append(f.Objects.NodeClaims, *claim)
		}
		if node == nil {
			continue
		}
		f.Objects.Nodes = append(f.Objects.Nodes, *node)
		for j := range i * 13 % 5 {
			f.Objects.Pods = append(f.Objects.Pods, *snapshottest.Pod(fmt.Sprintf("web-%04d-%d", i, j), node.Name, fmt.Sprintf("%dm", 250+i*j%9*20), fmt.Sprintf("%dMi", 300+i*31%1500)))
		}
	}
	return f
}

// fakeService is a Service for tests: the fleet is that of a File, the plan is made by hand, so that the view is tested and not
// the solver, and everything can fail.
type fakeService struct {
	snapshot.Service
	fail  error
	calls map[string]int
}

func serviceOf(f *snapshot.File) *fakeService {
	return &fakeService{Service: snapshot.Service{File: f, Words: awsv1.Vocabulary()}, calls: map[string]int{}}
}

func (a *fakeService) Fleet(ctx context.Context) (inspect.Fleet, error) {
	a.calls["fleet"]++
	if a.fail != nil {
		return inspect.Fleet{}, a.fail
	}
	return a.Service.Fleet(ctx)
}

func (a *fakeService) Plan(context.Context, inspect.WhatIf) (inspect.Changes, error) {
	a.calls["plan"]++
	why := []inspect.Finding{
		{Code: "NoTypeFits", Text: "nodepool/default and nodepool/batch: no instance type has room for cpu:500; the largest has 7920m", Fix: "Lower the requests, or allow larger instance types."},
		{Code: "NodeFull", Text: "node/ip-10-0-0-0.ec2.internal and 7 more: cpu:500 requested", Fix: ""},
	}
	return inspect.Changes{
		Before:   inspect.Totals{Bound: 0.5},
		Binds:    []inspect.PodMove{{Pod: "default/pending-0000", To: "ip-10-0-0-0.ec2.internal"}},
		Unplaced: []inspect.Pending{{Pod: "default/huge-0000", Why: why}},
	}, a.fail
}

func (a *fakeService) Explain(_ context.Context, about inspect.Subject) (inspect.Explanation, error) {
	a.calls["explain "+about.String()]++
	return inspect.Explanation{Subject: about, Answer: "It is there because of a test, and it will stay until the test ends."}, a.fail
}

// screen is a Model with the commands that it gives carried out at once.
type screen struct {
	t     testing.TB
	model *Model
	now   time.Time
	hold  bool // commands are kept until release
	held  []tea.Cmd
}

func newScreen(tb testing.TB, s inspect.Service, every time.Duration, width, height int) *screen {
	tb.Helper()
	c := &screen{t: tb, now: snapshottest.Now().Add(90 * time.Second)}
	r := requestsTo(tb.Context(), s, time.Minute, func() time.Time { return c.now })
	r.tick = nil // time passes when the test says so
	c.model = newModel(r, every)
	c.send(tea.WindowSizeMsg{Width: width, Height: height})
	c.run(c.model.Init())
	return c
}

func (c *screen) send(msg tea.Msg) {
	_, cmd := c.model.Update(msg)
	c.run(cmd)
}

func (c *screen) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	if c.hold {
		c.held = append(c.held, cmd)
		return
	}
	msg := cmd()
	if v := reflect.ValueOf(msg); v.Kind() == reflect.Slice { // tea.BatchMsg
		for i := range v.Len() {
			one, _ := reflect.TypeAssert[tea.Cmd](v.Index(i))
			c.run(one)
		}
		return
	}
	if msg != nil {
		c.send(msg)
	}
}

func (c *screen) release() {
	held := c.held
	c.hold, c.held = false, nil
	for _, cmd := range held {
		c.run(cmd)
	}
}

// pass lets time pass, with a tick in every second.
func (c *screen) pass(d time.Duration) {
	for range int(d / time.Second) {
		c.now = c.now.Add(time.Second)
		c.send(tickMsg{now: c.now})
	}
}

// press presses keys: names of keys, or single characters, between spaces.
func (c *screen) press(keys string) {
	for key := range strings.FieldsSeq(keys) {
		c.send(tea.KeyPressMsg(keyOf(key)))
	}
}

func keyOf(name string) tea.Key {
	codes := map[string]rune{
		"up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd,
		"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "backspace": tea.KeyBackspace, "f5": tea.KeyF5,
	}
	if code, named := codes[name]; named {
		return tea.Key{Code: code}
	}
	if name == "space" {
		return tea.Key{Code: tea.KeySpace, Text: " "}
	}
	if letter, ctrl := strings.CutPrefix(name, "ctrl+"); ctrl {
		return tea.Key{Code: []rune(letter)[0], Mod: tea.ModCtrl}
	}
	r := []rune(name)[0]
	return tea.Key{Code: r, Text: name}
}

// frame is the screen as plain text, without spaces at the ends of lines.
func (c *screen) frame() string {
	var b strings.Builder
	for _, l := range c.model.lines() {
		b.WriteString(strings.TrimRight(ansi.Strip(l), " ") + "\n")
	}
	return b.String()
}

// check fails if the screen is not exactly as high as the terminal, or wider.
func (c *screen) check(what string) {
	c.t.Helper()
	lines := c.model.lines()
	if len(lines) != c.model.height && c.model.width > 0 {
		c.t.Fatalf("%s: %d lines on a terminal of %d", what, len(lines), c.model.height)
	}
	for i, l := range lines {
		if w := ansi.StringWidth(l); w > c.model.width || strings.ContainsAny(l, "\n\t\r") {
			c.t.Fatalf("%s: line %d is %d wide on a terminal of %d: %q", what, i, w, c.model.width, l)
		}
	}
}

// stripped is a line without styles.
func stripped(l string) string { return ansi.Strip(l) }
