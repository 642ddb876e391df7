package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/drivers"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// metricsPage lists every metric.
func metricsPage() file {
	docs := metric.New(prometheus.NewRegistry(), drivers.Driver().Labels).Docs()
	i := slices.IndexFunc(docs, func(d metric.Doc) bool { return d.Name == "karpenter_nodes_current_lifetime_seconds" })
	node := docs[i].Labels
	var b strings.Builder
	b.WriteString(generatedNote + "# Metrics\n\n" +
		"Metrics of `dovetail controller`, served at `/metrics` on the metrics port. Names and labels are Karpenter's; those of our own begin with `dovetail_`. " +
		"Stable metrics only ever gain labels. *Not yet* means that what a metric measures is not built.\n\n" +
		"Series about objects exist as long as the object does, and only on the replica that leads. " +
		"`--disable-cluster-state-observability` drops those of single pods, nodes and NodePools, and all that begin with `operator_`.\n\n" +
		"Labels *of a node* are `" + strings.Join(node, "`, `") + "`. A label without a value is left out.\n\n" +
		"The libraries add `controller_runtime_*`, `workqueue_*`, `rest_client_*`, `leader_election_*`, `go_*` and `process_*`.\n\n" +
		"| Metric | Type | Labels | Meaning | Stable |\n|---|---|---|---|---|\n")
	for _, d := range docs {
		labels := strings.Join(code(d.Labels), ", ")
		if len(d.Labels) >= len(node) && slices.Equal(d.Labels[:len(node)], node) {
			labels = strings.Join(append([]string{"*of a node*"}, code(d.Labels[len(node):])...), ", ")
		}
		stable := ""
		if d.Stable {
			stable = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", d.Name, d.Type, labels, oneLine(d.Help)+notYet(d.Idle), stable)
	}
	return file{filepath.Join("docs", "reference", "metrics.md"), []byte(b.String())}
}

// eventsPage lists every reason of events.
func eventsPage() file {
	var b strings.Builder
	b.WriteString(generatedNote + "# Events\n\n" +
		"Events that Dovetail sends, from the component `karpenter`. `kubectl describe` shows them beside the object, and " +
		"`kubectl get events -A --field-selector reason=FailedScheduling` lists those of one reason. " +
		"A repeat about the same object is dropped within the time given. *Not yet* means that the feature of the event does not exist yet.\n\n" +
		"Every change of a condition is also an event: normal, with the type of the condition as reason, on " +
		"NodeClaims, NodePools, EC2NodeClasses and Nodes; except that Consolidatable changed, which it does with the pods of a node, " +
		"and that ConsistentStateFound is true from the start. `--disable-cluster-state-observability` drops these.\n\n" +
		fmt.Sprintf("Events have a budget. Where nothing else is wrong, a node, which is its Node and its NodeClaim, gets at most %d from its order until it runs pods, "+
			"%d an hour for each thing that keeps it from being disrupted, and %d from the decision to remove it until it is gone, if that takes no more than 15 minutes. "+
			"A pod that waits for a node that was ordered gets at most %d an hour, and %d when it is evicted.\n\n",
			event.NodeUp, event.NodeHour, event.NodeDown, event.PodHour, event.PodMoved) +
		"| Reason | Type | On | When | Repeats after | At most |\n|---|---|---|---|---|---|\n")
	for _, d := range event.Docs() {
		kind, limit := "Normal", ""
		if d.Warning {
			kind = "Warning"
		}
		if d.PerSecond > 0 {
			limit = fmt.Sprintf("%g a second over all pods, %d at once", d.PerSecond, d.Burst)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %d min | %s |\n", d.Reason, kind, strings.Join(d.On, ", "), oneLine(d.When), int(d.Every/time.Minute), limit)
	}
	return file{filepath.Join("docs", "reference", "events.md"), []byte(b.String())}
}

// notYet marks what users know from Karpenter and will not see so far.
func notYet(idle bool) string {
	if idle {
		return " (not yet)"
	}
	return ""
}

func code(names []string) []string {
	out := make([]string, 0, len(names))
	for _, name := range names {
		out = append(out, "`"+name+"`")
	}
	return out
}

// conditionsPage lists every state of every condition.
func conditionsPage() file {
	var b strings.Builder
	b.WriteString(generatedNote + "# Conditions\n\n" +
		"Conditions that Dovetail writes on objects. `kubectl describe` shows them, `kubectl wait --for=condition=Ready nodepool/default` waits for one, and " +
		"`operator_nodepool_status_condition_count` and the like count them ([metrics.md](metrics.md)). " +
		"A condition that is True has its type as reason unless the table says otherwise; its message says more than the reason wherever there is more to say. " +
		"Each change of a status is also an event ([events.md](events.md)).\n")
	kind := ""
	for _, d := range condition.Docs(drivers.Driver().ConditionDocs()) {
		if d.Kind != kind {
			kind = d.Kind
			b.WriteString("\n## " + kind + "\n\n| Condition | Status | Reason | Meaning | What to do |\n|---|---|---|---|---|\n")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", codeOrWords(d.Type), d.Status, codeOrWords(d.Reason), oneLine(d.Meaning), oneLine(d.Fix))
	}
	return file{filepath.Join("docs", "reference", "conditions.md"), []byte(b.String())}
}

// codeOrWords leaves words in italics as they are.
func codeOrWords(name string) string {
	if strings.HasPrefix(name, "*") {
		return name
	}
	return "`" + name + "`"
}
