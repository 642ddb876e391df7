package rights_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/rights"
	"github.com/dovetail-sh/dovetail/sandbox/harness"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// How long a test waits, and how often it looks.
const (
	patience = 4 * time.Minute
	glance   = 200 * time.Millisecond
)

// subject is a controller, a service account of its own, and the rights that it lacks.
type subject struct {
	*testing.T

	installed  world.Installation
	missing    []rights.Right
	controller *world.Controller
	health     string // address of its probes
}

// beginSubject runs a controller without some rights.
func beginSubject(t *testing.T, installed world.Installation, missing []rights.Right, o world.ControllerOptions) *subject {
	t.Helper()
	port, err := harness.LastingPort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if installed.Namespace == "" {
		installed.Namespace = metav1.NamespaceSystem
	}
	s := &subject{T: t, installed: installed, missing: missing, health: fmt.Sprintf("http://127.0.0.1:%d", port)}
	s.applyRights()
	o.Binary, o.Installation, o.Log = binary, s.currentInstallation(), installed.Namespace+"-"+installed.ServiceAccount+".log"
	o.Flags = append([]string{fmt.Sprintf("--health-probe-port=%d", port)}, o.Flags...)
	if s.controller, err = server.World.RunController(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.controller.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", installed.ServiceAccount, strings.Join(s.logLines(), "\n"))
		}
	})
	return s
}

// currentInstallation is what is granted now.
func (s *subject) currentInstallation() world.Installation {
	i, missing := s.installed, slices.Clone(s.missing)
	i.Without = func(rule rbacv1.PolicyRule) []rbacv1.PolicyRule { return ruleWithout(rule, missing) }
	return i
}

// ruleWithout is a rule without rights, one for each resource and verb.
func ruleWithout(rule rbacv1.PolicyRule, missing []rights.Right) []rbacv1.PolicyRule {
	var left []rbacv1.PolicyRule
	for _, resource := range rule.Resources {
		for _, verb := range rule.Verbs {
			denied := slices.ContainsFunc(missing, func(r rights.Right) bool {
				return slices.Contains(rule.APIGroups, r.Group) && r.Resource == resource && slices.Contains(r.Verbs, verb) && (r.Name != "") == (len(rule.ResourceNames) > 0)
			})
			if !denied {
				left = append(left, rbacv1.PolicyRule{APIGroups: rule.APIGroups, Resources: []string{resource}, ResourceNames: rule.ResourceNames, Verbs: []string{verb}})
			}
		}
	}
	return left
}

// revokeRights removes rights.
func (s *subject) revokeRights(list ...rights.Right) {
	s.Helper()
	s.missing = append(s.missing, list...)
	s.applyRights()
	s.waitForAccess(false, list)
}

// grantRights grants them again.
func (s *subject) grantRights(list ...rights.Right) {
	s.Helper()
	s.missing = slices.DeleteFunc(s.missing, func(r rights.Right) bool {
		return slices.ContainsFunc(list, func(g rights.Right) bool { return g.Rule() == r.Rule() })
	})
	s.applyRights()
	s.waitForAccess(true, list)
}

func (s *subject) applyRights() {
	s.Helper()
	if err := server.World.Grant(s.Context(), s.currentInstallation()); err != nil {
		s.Fatal(err)
	}
}

// waitForAccess waits until the API server has heard of a change of rights.
func (s *subject) waitForAccess(want bool, list []rights.Right) {
	s.Helper()
	for _, r := range list {
		for _, verb := range r.Verbs {
			s.waitUntil(func() string {
				if s.isAllowed(r, verb) != want {
					return fmt.Sprintf("%s of %s is not %v", verb, r.Resource, want)
				}
				return ""
			})
		}
	}
}

func (s *subject) isAllowed(r rights.Right, verb string) bool {
	s.Helper()
	resource, sub, _ := strings.Cut(r.Resource, "/")
	namespace := ""
	switch r.Role {
	case rights.Release:
		namespace = s.installed.Namespace
	case rights.DNS:
		namespace = metav1.NamespaceSystem
	case rights.Core, rights.Classes:
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + s.installed.Namespace + ":" + s.installed.ServiceAccount, Groups: []string{"system:serviceaccounts", "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: r.Group, Resource: resource, Subresource: sub, Name: r.Name, Namespace: namespace},
	}}
	if err := kube.Create(s.Context(), review); err != nil {
		s.Fatal(err)
	}
	return review.Status.Allowed
}

// waitForWarning waits until the log names a right that is missing, with the rule to add.
func (s *subject) waitForWarning(r rights.Right) {
	s.Helper()
	s.waitUntil(func() string {
		if !s.names(r) {
			return "nothing is said of " + r.Rule()
		}
		return ""
	})
}

// names reports whether the log names a right that is missing.
func (s *subject) names(r rights.Right) bool {
	return slices.ContainsFunc(r.Verbs, func(verb string) bool {
		d := rights.Denial{Verb: verb, Group: r.Group, Resource: r.Resource}
		return s.hasLogLine(d.String()+": ", r.Rule()) || s.hasLogLine(d.String()+" in namespace ", r.Rule())
	})
}

// hasLogLine reports whether a line of the log has all texts.
func (s *subject) hasLogLine(texts ...string) bool {
	return slices.ContainsFunc(s.logLines(), func(line string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) })
	})
}

// count is how many lines of the log have a text.
func (s *subject) count(text string) int {
	return len(slices.DeleteFunc(s.logLines(), func(line string) bool { return !strings.Contains(line, text) }))
}

// logLines are those of the log, without the escapes of JSON.
func (s *subject) logLines() []string {
	text, err := os.ReadFile(s.controller.Log)
	if err != nil {
		s.Error(err)
	}
	return strings.Split(strings.ReplaceAll(string(text), `\"`, `"`), "\n")
}

// ready waits until a check of readiness passes, or fails with a text.
func (s *subject) ready(check, failure string) {
	s.Helper()
	s.waitUntil(func() string {
		request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.health+"/readyz/"+check, http.NoBody)
		if err != nil {
			return err.Error()
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err == nil && (response.StatusCode == http.StatusOK) == (failure == "") && strings.Contains(string(text), failure) {
			return ""
		}
		return fmt.Sprintf("readiness of %s: %d %s, want %q", check, response.StatusCode, text, failure)
	})
}

// waitUntil looks until nothing is wrong.
func (s *subject) waitUntil(wrong func() string) {
	s.Helper()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		what := wrong()
		if what == "" {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			s.Fatal(what)
		case <-s.Context().Done():
			s.Fatal(what)
		}
	}
}

// createFromYAML creates an object from YAML. It goes with the test.
func (s *subject) createFromYAML(obj client.Object, text string) {
	s.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		s.Fatal(err)
	}
	if err := kube.Create(s.Context(), obj); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.remove(obj) })
}

// remove deletes an object if it is there.
func (s *subject) remove(obj client.Object) {
	s.Helper()
	if err := kube.Delete(context.WithoutCancel(s.Context()), obj, client.GracePeriodSeconds(0)); err != nil && !apierrors.IsNotFound(err) {
		s.Error(err)
	}
}

// waitUntilGone waits until an object is.
func (s *subject) waitUntilGone(obj client.Object) {
	s.Helper()
	s.waitUntil(func() string {
		if err := kube.Get(s.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("%T %s is still there: %v", obj, obj.GetName(), err)
		}
		return ""
	})
}
