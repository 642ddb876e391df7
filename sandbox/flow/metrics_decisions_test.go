package flow_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/journal"
)

// read gets from the controller that all share a page of its metrics port.
func (f *flow) read(path, token string) (status int, text string) {
	f.Helper()
	req, err := http.NewRequestWithContext(f.Context(), http.MethodGet, f.served+path, http.NoBody)
	if err != nil {
		f.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		f.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		f.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// sumMetric adds up the values of a metric for the pools of the test, of those with all the labels.
func (f *flow) sumMetric(name string, labels ...string) float64 {
	f.Helper()
	_, text := f.read("/metrics", "")
	sum := 0.0
	for line := range strings.Lines(text) {
		other := func(label string) bool { return !strings.Contains(line, label) }
		if !strings.HasPrefix(line, name+"{") || slices.ContainsFunc(append(labels, `nodepool="`+f.name), other) {
			continue
		}
		fields := strings.Fields(line)
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			f.Fatalf("%s: %v", line, err)
		}
		sum += value
	}
	return sum
}

// createToken makes a service account and returns a token of it.
func (f *flow) createToken(name string) string {
	f.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: f.namespace}}
	f.create(account)
	given := &authenticationv1.TokenRequest{}
	if err := f.kube.SubResource("token").Create(f.Context(), account, given); err != nil {
		f.Fatal(err)
	}
	return given.Status.Token
}

// mayReadDecisions gives a service account of the test the right to read them, as the guide does.
func (f *flow) mayReadDecisions(account string) {
	f.Helper()
	name := metav1.ObjectMeta{Name: f.name + "-decisions"}
	role := &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{journal.Path}}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: f.namespace}},
	}
	f.create(role)
	f.Cleanup(func() { f.remove(role) })
	f.create(binding)
	f.Cleanup(func() { f.remove(binding) })
}

// Decision 0019: what was decided about a node is shown to the holder of a token that may read it, and to
// no other caller. The API server gets that token, and so says who its owner is. S-037: an empty node is
// tainted and deleted, and the log says so in this order.
func TestDecisions_AreServedToAuthorizedUsers(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large"), emptyAfter("1s"))
	d := f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	f.scale(d, 0)
	f.waitUntilGone(&claim)
	f.inOrder(claim.Status.NodeName, "disrupting node(s)", "tainted node", "deleted node")

	path := journal.Path + "?kind=command&node=" + claim.Status.NodeName
	for _, row := range []struct {
		who, token string
		status     int
		says       string
	}{
		{"no token", "", http.StatusUnauthorized, "a bearer token of this cluster is needed"},
		{"a token that was made up", "made-up", http.StatusUnauthorized, "does not know the token"},
		{"an account without the right", f.createToken("stranger"), http.StatusForbidden, "verb get on nonResourceURLs " + journal.Path},
	} {
		status, text := f.read(path, row.token)
		if status != row.status || !strings.Contains(text, row.says) || strings.Contains(text, claim.Name) {
			t.Errorf("%s gets %d %s, want %d and %q", row.who, status, text, row.status, row.says)
		}
	}

	token := f.createToken("reader")
	f.mayReadDecisions("reader")
	var text string
	f.waitUntil(soon, "the account may read", func() (bool, string) { // a no is believed for ten seconds
		var status int
		status, text = f.read(path, token)
		return status == http.StatusOK, fmt.Sprintf("%d %s", status, text)
	})
	var page struct {
		Entries []struct {
			Kind  journal.Kind
			Value struct {
				Reason, Decision string
				Remove           []struct{ Node, Claim string }
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &page); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	for _, e := range page.Entries { // one command may remove empty nodes of other tests too
		for _, n := range e.Value.Remove {
			if e.Kind == journal.Command && e.Value.Reason == "Empty" && e.Value.Decision == "delete" && n.Node == claim.Status.NodeName && n.Claim == claim.Name {
				return
			}
		}
	}
	t.Errorf("want the command that removed %s, got %s", claim.Status.NodeName, text)
}
