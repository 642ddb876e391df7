package rights

import (
	"regexp"
	"slices"
	"strings"
)

// Role is one of the roles of the chart.
type Role int

// The roles of the chart.
const (
	Core    Role = iota // ClusterRole for what is the same with every cloud
	Classes             // ClusterRole for node classes
	Release             // Role in the namespace of the release
	DNS                 // Role in kube-system
)

// String is how users find the role of a release with the usual name.
func (r Role) String() string {
	switch r {
	case Core:
		return "ClusterRole karpenter-core"
	case Classes:
		return "ClusterRole karpenter"
	case Release:
		return "Role karpenter in the namespace of the release"
	case DNS:
		return "Role karpenter-dns in kube-system"
	}
	return ""
}

// Right is one rule for one resource.
type Right struct {
	Role     Role
	Group    string // of the API; empty means core
	Resource string // with its subresource
	Name     string // of the only object that it is for, or of several, with commas; empty means all
	Verbs    []string
	For      string
	Without  string // what users see who do not grant it
	Value    string // of the chart, that grants it; empty means always
	// Vital says that nothing is planned without it, so that the controller is not ready.
	Vital bool
	// Unused says that no part of Dovetail needs it yet. The chart has it since Karpenter's has.
	Unused bool
}

// Rule is the right as a role has it.
func (r Right) Rule() string { return rule(r.Group, r.Resource, r.Name, r.Verbs) }

func rule(group, resource, name string, verbs []string) string {
	if group == "" {
		group = `""`
	}
	text := "apiGroups: [" + group + "], resources: [" + resource + "], "
	if name != "" {
		text += "resourceNames: [" + name + "], "
	}
	return "{" + text + "verbs: [" + strings.Join(verbs, ", ") + "]}"
}

// Denial is a request that the authorizer of the API server refused.
type Denial struct {
	Verb, Group, Resource string
	Namespace             string // empty means cluster-wide
}

// refusal is how the authorizer words it. Admission says no with the same status code and other words. In JSON the quotes
// are escaped.
var refusal = regexp.MustCompile(`User \\?"[^"]*" cannot ([a-z]+) resource \\?"([a-z0-9./-]+)\\?" in API group \\?"([a-z0-9.-]*)\\?"(?: in the namespace \\?"([a-z0-9-]+)\\?")?`)

// Read finds out what was denied from the text of a refusal. It reports false for refusals of admission.
func Read(text string) (Denial, bool) {
	found := refusal.FindStringSubmatch(text)
	if found == nil {
		return Denial{}, false
	}
	return Denial{Verb: found[1], Resource: found[2], Group: found[3], Namespace: found[4]}, true
}

// Find returns the right that a denied request needs. It reports false for one that is in no role of the chart.
func Find(d Denial) (Right, bool) {
	all := All()
	i := slices.IndexFunc(all, func(r Right) bool {
		return r.Group == d.Group && r.Resource == d.Resource && slices.Contains(r.Verbs, d.Verb)
	})
	if i < 0 {
		return Right{}, false
	}
	return all[i], true
}

// String says what was denied.
func (d Denial) String() string {
	text := "the service account may not " + d.Verb + " " + d.Resource
	if d.Group != "" {
		text += "." + d.Group
	}
	if d.Namespace != "" {
		text += " in namespace " + d.Namespace
	}
	return text
}

// Fix says which rule to add, and where.
func (d Denial) Fix() string {
	right, known := Find(d)
	if !known {
		return "add the rule " + rule(d.Group, d.Resource, "", []string{d.Verb}) + " to " + Core.String()
	}
	text := "add the rule " + right.Rule() + " to " + right.Role.String()
	if right.Value != "" {
		return text + ", which the value " + right.Value + " of the chart does"
	}
	return text + ", or install the chart again"
}

// Warning is all that users need to know of a denial, in one line.
func (d Denial) Warning() string {
	text := d.String()
	if right, known := Find(d); known {
		text += ": " + plain(right.Without)
	}
	return text + "; " + d.Fix()
}

// plain is Markdown as text.
func plain(text string) string { return strings.ReplaceAll(text, "`", "") }
