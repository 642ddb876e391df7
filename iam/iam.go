package iam

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

//go:embed policies/*.json trust/*.json event-rules/*.json queue-policy.json managed-policies.txt
var files embed.FS

// Document is one policy, trust or pattern with placeholders.
type Document struct {
	File string // below this directory, such as policies/node-lifecycle.json
	Name string // what AWS calls it, before the name of the cluster: KarpenterControllerNodeLifecyclePolicy
	Text string
}

// Controller is what the role of the controller may do: six policies, each named with the cluster.
func Controller() []Document {
	return []Document{
		read("policies/node-lifecycle.json", "KarpenterControllerNodeLifecyclePolicy"),
		read("policies/iam-integration.json", "KarpenterControllerIAMIntegrationPolicy"),
		read("policies/eks-integration.json", "KarpenterControllerEKSIntegrationPolicy"),
		read("policies/interruption.json", "KarpenterControllerInterruptionPolicy"),
		read("policies/zonal-shift.json", "KarpenterControllerZonalShiftPolicy"),
		read("policies/resource-discovery.json", "KarpenterControllerResourceDiscoveryPolicy"),
	}
}

// NodeTrust says who may use the role of the nodes: EC2.
func NodeTrust() Document { return read("trust/node.json", "KarpenterNodeRole") }

// PodIdentityTrust says who may use the role of the controller with EKS Pod Identity.
func PodIdentityTrust() Document {
	return read("trust/controller-pod-identity.json", "KarpenterControllerRole")
}

// IRSATrust says who may use the role of the controller with IAM roles for service accounts.
func IRSATrust() Document { return read("trust/controller-irsa.json", "KarpenterControllerRole") }

// Queue says who may write to the interruption queue.
func Queue() Document { return read("queue-policy.json", "Karpenter") }

// EventRules are the patterns of the events that go to the interruption queue.
func EventRules() []Document {
	return []Document{
		read("event-rules/scheduled-change.json", "ScheduledChange"),
		read("event-rules/spot-interruption.json", "SpotInterruption"),
		read("event-rules/rebalance.json", "Rebalance"),
		read("event-rules/instance-state-change.json", "InstanceStateChange"),
		read("event-rules/capacity-reservation-interruption.json", "CapacityReservationInterruption"),
	}
}

// All returns every document.
func All() []Document {
	return slices.Concat(Controller(), []Document{NodeTrust(), PodIdentityTrust(), IRSATrust(), Queue()}, EventRules())
}

// ManagedPolicies names the policies of AWS that the role of the nodes has.
func ManagedPolicies() []string { return strings.Fields(text("managed-policies.txt")) }

func read(file, name string) Document { return Document{File: file, Name: name, Text: text(file)} }

func text(file string) string {
	content, err := files.ReadFile(file)
	if err != nil {
		panic(err) // the compiler put it there
	}
	return string(content)
}

// Values say what the placeholders stand for.
type Values struct {
	Partition      string // aws, aws-cn or aws-us-gov
	Region         string
	AccountID      string
	ClusterName    string
	NodeRoleName   string // with its path, if it has one: team/nodes
	QueueName      string
	OIDCProvider   string // host and path, without https://
	Namespace      string
	ServiceAccount string
}

func (v Values) byPlaceholder() map[string]string {
	return map[string]string{
		"partition": v.Partition, "region": v.Region, "account_id": v.AccountID, "cluster_name": v.ClusterName, "node_role_name": v.NodeRoleName,
		"queue_name": v.QueueName, "oidc_provider": v.OIDCProvider, "namespace": v.Namespace, "service_account": v.ServiceAccount,
	}
}

var placeholder = regexp.MustCompile(`\$\{([^}]*)\}`)

// Fill puts the values into a document. A placeholder without a value, or an unknown one, is an
// error: a policy with an empty name in it would be refused by AWS, or worse, accepted. A value with a
// wildcard, a quote or a placeholder in it would say something else than the document does.
func Fill(d Document, v Values) (string, error) {
	values, faults := v.byPlaceholder(), map[string]bool{}
	filled := placeholder.ReplaceAllStringFunc(d.Text, func(found string) string {
		name := found[2 : len(found)-1]
		value, known := values[name]
		switch {
		case !known:
			faults[fmt.Sprintf("the placeholder %s is not known; there are %s", found, strings.Join(Placeholders(), ", "))] = true
		case value == "":
			faults[found+" has no value"] = true
		case strings.ContainsAny(value, "*?\"\\${}") || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }):
			faults[fmt.Sprintf("%s: %q has a character that has a meaning in a policy", found, value)] = true
		}
		return value
	})
	if len(faults) > 0 {
		return "", fmt.Errorf("%s: %s", d.File, strings.Join(slices.Sorted(maps.Keys(faults)), "; "))
	}
	if !json.Valid([]byte(filled)) {
		return "", fmt.Errorf("%s: not JSON once its placeholders are filled", d.File)
	}
	return filled, nil
}

// Placeholders names what documents may hold, sorted.
func Placeholders() []string {
	names := slices.Sorted(maps.Keys(Values{}.byPlaceholder()))
	for n := range names {
		names[n] = "${" + names[n] + "}"
	}
	return names
}
