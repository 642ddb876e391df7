package bars

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var nodeClaim = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}

// fleet is the nodes at one moment.
type fleet struct {
	nodes int
	going int     // being deleted, or marked for it
	busy  int     // of those, the ones that use up budgets: an instance that ends does not
	price float64 // USD an hour
	cpu   float64 // cores for pods
	shape string  // differs when a node came or went
}

// readFleet reads the claims.
func (s *stage) readFleet(ctx context.Context) (fleet, error) {
	resource, err := s.world.Kube.Of(nodeClaim, "")
	if err != nil {
		return fleet{}, err
	}
	list, err := resource.List(ctx, listAll())
	if err != nil {
		return fleet{}, err
	}
	return fleetOf(list.Items, s.world.AWS.Price), nil
}

func fleetOf(claims []unstructured.Unstructured, priceOf func(capacityType, instanceType, zone string) (float64, bool)) fleet {
	f := fleet{nodes: len(claims)}
	var shape []string
	for i := range claims {
		c := &claims[i]
		labels := c.GetLabels()
		price, _ := priceOf(labels["karpenter.sh/capacity-type"], labels["node.kubernetes.io/instance-type"], labels["topology.kubernetes.io/zone"]) // not launched: nothing yet
		f.price += price
		text, _, _ := unstructured.NestedString(c.Object, "status", "allocatable", "cpu") // not registered: none
		if quantity, err := resource.ParseQuantity(text); err == nil {
			f.cpu += quantity.AsApproximateFloat64()
		}
		going := c.GetDeletionTimestamp() != nil || hasCondition(c, "DisruptionReason")
		if going {
			f.going++
		}
		if going && !hasCondition(c, "InstanceTerminating") {
			f.busy++
		}
		shape = append(shape, fmt.Sprint(c.GetName(), going, price))
	}
	slices.Sort(shape)
	f.shape = strings.Join(shape, "\n")
	return f
}

func hasCondition(c *unstructured.Unstructured, kind string) bool {
	list, _, _ := unstructured.NestedSlice(c.Object, "status", "conditions") // none yet
	return slices.ContainsFunc(list, func(entry any) bool {
		m, isMap := entry.(map[string]any)
		return isMap && m["type"] == kind && m["status"] == "True"
	})
}

// usedShare is the share of the cores that pods request.
func (s *stage) usedShare(f fleet) float64 {
	requested := 0.0
	for _, w := range shrinkWork(s.scaledCount(shrinkPods)) {
		quantity := resource.MustParse(w.cpu)
		requested += quantity.AsApproximateFloat64() * max(1, math.Floor(float64(w.replicas)*shrinkStay))
	}
	return requested / max(f.cpu, 1e-9)
}

// command is one decision that the controller began to carry out.
type command struct {
	at      time.Time
	kind    string // reason and decision
	nodes   int
	created int
	pods    int // that have to move
	sums    sums
}

// sums are what the cluster costs, for all commands of a decision together: USD an hour.
type sums struct{ before, after, bound float64 }

const disrupting = "disrupting node(s)"

// readCommands reads the log of the controller.
func readCommands(file string) ([]command, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return commandsIn(text), nil
}

func commandsIn(text []byte) []command {
	var all []command
	for line := range bytes.Lines(text) {
		var entry struct {
			Time     time.Time `json:"time"`
			Message  string    `json:"message"`
			Reason   string    `json:"reason"`
			Decision string    `json:"decision"`
			Nodes    int       `json:"disrupted-node-count"`
			Created  int       `json:"replacement-node-count"`
			Pods     int       `json:"pod-count"`
			Before   float64   `json:"cost-before"`
			After    float64   `json:"cost-after"`
			Bound    float64   `json:"lower-bound"`
		}
		if json.Unmarshal(line, &entry) == nil && entry.Message == disrupting {
			all = append(all, command{
				at: entry.Time, kind: entry.Reason + " " + entry.Decision, nodes: entry.Nodes, created: entry.Created, pods: entry.Pods,
				sums: sums{entry.Before, entry.After, entry.Bound},
			})
		}
	}
	return all
}

// countCommandWaves is how often commands were begun together. Those of one decision say the same of what it is worth.
func countCommandWaves(list []command) int {
	n := 0
	for i := range list {
		if i == 0 || list[i].sums != list[i-1].sums {
			n++
		}
	}
	return n
}

// wavesTo is how many of them it took until the cluster cost no more than a price, of those that say what it costs.
func wavesTo(list []command, price float64) int {
	for i := range list {
		if after := list[i].sums.after; after > 0 && after <= price {
			return countCommandWaves(list[:i+1])
		}
	}
	return countCommandWaves(list)
}

// countByKind says how many nodes went and came, by reason and decision.
func countByKind(list []command) []string {
	type sum struct{ commands, nodes, created int }
	sums := map[string]sum{}
	for _, c := range list {
		now := sums[c.kind]
		sums[c.kind] = sum{now.commands + 1, now.nodes + c.nodes, now.created + c.created}
	}
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, fmt.Sprintf("%s %d (%d nodes, %d new)", kind, sums[kind].commands, sums[kind].nodes, sums[kind].created))
	}
	return out
}

// histogram is one of the metrics of the controller, over all its labels.
type histogram struct {
	count, sum float64
	buckets    map[float64]float64 // how many were at most so large
}

const decisionMetric = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds"

// decisionDurations queries from the controller how long it took to decide.
func (s *stage) decisionDurations(ctx context.Context) (histogram, error) {
	text, err := fetchURL(ctx, http.MethodGet, s.served+"/metrics", nil)
	if err != nil {
		return histogram{}, err
	}
	return histogramIn(string(text), decisionMetric), nil
}

// histogramIn reads lines such as name_bucket{le="0.1"} 3.
func histogramIn(text, name string) histogram {
	h := histogram{buckets: map[float64]float64{}}
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(strings.TrimSpace(line), name+"_")
		if !found {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			continue
		}
		switch {
		case strings.HasPrefix(rest, "sum"):
			h.sum += value
		case strings.HasPrefix(rest, "count"):
			h.count += value
		default:
			_, after, _ := strings.Cut(rest, `le="`)
			if most, err := strconv.ParseFloat(after[:max(0, strings.IndexByte(after, '"'))], 64); err == nil {
				h.buckets[most] += value
			}
		}
	}
	return h
}

// minusEarlier is what was added to an earlier one.
func (h histogram) minusEarlier(earlier histogram) histogram {
	d := histogram{count: h.count - earlier.count, sum: h.sum - earlier.sum, buckets: map[float64]float64{}}
	for most, n := range h.buckets {
		d.buckets[most] = n - earlier.buckets[most]
	}
	return d
}

// largestBucket is the smallest bucket that holds everything.
func (h histogram) largestBucket() float64 {
	for _, most := range slices.Sorted(maps.Keys(h.buckets)) {
		if h.buckets[most] >= h.count {
			return most
		}
	}
	return 0
}

func (h histogram) meanSeconds() float64 { return h.sum / max(h.count, 1) }
