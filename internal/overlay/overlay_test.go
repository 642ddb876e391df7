package overlay_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/overlay"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	_ "github.com/dovetail-sh/dovetail/internal/seed" // the same values in every run
)

const (
	keyType   = corev1.LabelInstanceTypeStable
	keyFamily = "example.com/family"
	keyCores  = "example.com/cores"
	device    = "example.com/device"
)

// instanceType is offered on demand and as spot in two zones, for a price and a third of it.
func instanceType(family, size string, cores int, usd float64) catalog.InstanceType {
	name := family + "." + size
	one := func(v string) reqs.Req { return reqs.Req{Values: []string{v}} }
	t := catalog.InstanceType{
		Name: name, Capacity: resources.Of(int64(cores)*1000, int64(cores)<<32, 0, 110),
		Labels:       reqs.Set{keyType: one(name), keyFamily: one(family), keyCores: one(fmt.Sprint(cores)), "example.com/gpu": {}},
		VolumeLimits: map[string]int{"ebs.csi.aws.com": 27},
	}
	if family == "m5" {
		t.Devices = []catalog.DevicePool{{Driver: "gpu.example.com", Devices: []resourcev1.Device{{Name: "gpu-0"}}}}
	}
	for _, zone := range []string{"a", "b"} {
		t.Offerings = append(t.Offerings,
			catalog.Offering{Zone: zone, CapacityType: "on-demand", Price: usd, Available: true},
			catalog.Offering{Zone: zone, CapacityType: "spot", Price: usd / 4, Available: true})
	}
	return t
}

func types() []catalog.InstanceType {
	return []catalog.InstanceType{instanceType("m5", "large", 2, 0.1), instanceType("m5", "xlarge", 4, 0.2), instanceType("c6", "large", 2, 0.08)}
}

// object is a NodeOverlay, from text: "name weight=2 price=0.5 adjust=-10% cap=example.com/device:3 | key op value,value; key op".
func object(text string) v1alpha1.NodeOverlay {
	head, needs, _ := strings.Cut(text, "|")
	fields := strings.Fields(head)
	o := v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: fields[0]}}
	for _, field := range fields[1:] {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "weight":
			var n int32
			_, _ = fmt.Sscan(value, &n)
			o.Spec.Weight = &n
		case "price":
			o.Spec.Price = &value
		case "adjust":
			o.Spec.PriceAdjustment = &value
		case "cap":
			name, n, _ := strings.Cut(value, ":")
			if o.Spec.Capacity == nil {
				o.Spec.Capacity = corev1.ResourceList{}
			}
			o.Spec.Capacity[corev1.ResourceName(name)] = resource.MustParse(n)
		}
	}
	for part := range strings.SplitSeq(needs, ";") {
		if f := strings.Fields(part); len(f) > 0 {
			r := v1alpha1.Requirement{Key: f[0], Operator: corev1.NodeSelectorOperator(f[1])}
			if len(f) > 2 {
				r.Values = strings.Split(f[2], ",")
			}
			o.Spec.Requirements = append(o.Spec.Requirements, r)
		}
	}
	return o
}

func evaluate(pools []overlay.Pool, texts ...string) (*overlay.Set, []overlay.Verdict) {
	var objects []v1alpha1.NodeOverlay
	for _, text := range texts {
		objects = append(objects, object(text))
	}
	table := resources.NewTable("example.com/known").Extend(overlay.ResourceNames(objects)...)
	return overlay.Evaluate(objects, pools, table, reqs.CoreVocabulary())
}

// render lists what differs from the list before: "m5.large a/spot 0.02; m5.large example.com/device 3".
func render(before, after []catalog.InstanceType, table resources.Table) []string {
	var out []string
	for i := range after {
		t := &after[i]
		for j, o := range t.Offerings {
			if o.Price != before[i].Offerings[j].Price {
				out = append(out, fmt.Sprintf("%s %s/%s %.4g", t.Name, o.Zone, o.CapacityType, o.Price))
			}
		}
		capacity := table.List(t.Capacity)
		for _, name := range slices.Sorted(maps.Keys(capacity)) {
			if n, was := capacity[name], table.List(before[i].Capacity)[name]; n.Cmp(was) != 0 {
				out = append(out, fmt.Sprintf("%s %s %s", t.Name, name, n.String()))
			}
		}
	}
	return out
}

func TestWhatOverlaysChange(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		overlays []string
		labels   map[string]string
		want     []string
	}{
		"OV-11 a price replaces that of matching offerings alone": {
			overlays: []string{"o price=0.5 | " + keyType + " In m5.large; karpenter.sh/capacity-type In spot; topology.kubernetes.io/zone In a"},
			want:     []string{"m5.large a/spot 0.5"},
		},
		"OV-11 no requirement matches everything": {
			overlays: []string{"o adjust=+1 |" + keyFamily + " In c6"},
			want:     []string{"c6.large a/on-demand 1.08", "c6.large a/spot 1.02", "c6.large b/on-demand 1.08", "c6.large b/spot 1.02"},
		},
		"OV-12 a percentage": {
			overlays: []string{"o adjust=-50% | " + keyType + " In m5.large; karpenter.sh/capacity-type In on-demand"},
			want:     []string{"m5.large a/on-demand 0.05", "m5.large b/on-demand 0.05"},
		},
		"OV-12 less a hundred percent is nothing": {
			overlays: []string{"o adjust=-100% | " + keyType + " In m5.large; karpenter.sh/capacity-type In on-demand"},
			want:     []string{"m5.large a/on-demand 0", "m5.large b/on-demand 0"},
		},
		"OV-12 a price is never below zero": {
			overlays: []string{"o adjust=-7 | " + keyType + " In m5.large; karpenter.sh/capacity-type In spot"},
			want:     []string{"m5.large a/spot 0", "m5.large b/spot 0"},
		},
		"OV-13 capacity is of the type if any offering matches": {
			overlays: []string{"o cap=" + device + ":3 | " + keyType + " In m5.large; karpenter.sh/capacity-type In spot; topology.kubernetes.io/zone In a"},
			want:     []string{"m5.large " + device + " 3"},
		},
		"OV-13 no offering matches": {
			overlays: []string{"o cap=" + device + ":3 | topology.kubernetes.io/zone In c"},
		},
		"OV-14 the higher weight wins": {
			overlays: []string{"z weight=1 price=7 | " + keyType + " In c6.large", "a weight=2 price=3 | " + keyFamily + " In c6; topology.kubernetes.io/zone In a; karpenter.sh/capacity-type In spot"},
			want:     []string{"c6.large a/on-demand 7", "c6.large a/spot 3", "c6.large b/on-demand 7", "c6.large b/spot 7"},
		},
		"OV-14 no weight is the lowest": {
			overlays: []string{"z price=7 | " + keyType + " In c6.large; karpenter.sh/capacity-type In spot", "a weight=1 price=3 | " + keyFamily + " In c6; karpenter.sh/capacity-type In spot"},
			want:     []string{"c6.large a/spot 3", "c6.large b/spot 3"},
		},
		"OV-15 capacity is merged by resource": {
			overlays: []string{"o weight=2 cap=" + device + ":3 | " + keyType + " In m5.large", "p weight=1 cap=" + device + ":5 cap=example.com/other:1 | " + keyFamily + " In m5"},
			want:     []string{"m5.large " + device + " 3", "m5.large example.com/other 1", "m5.xlarge " + device + " 5", "m5.xlarge example.com/other 1"},
		},
		"OV-16 the later name wins, the other conflicts and nothing of it is applied": {
			overlays: []string{"a price=5 cap=" + device + ":1 | karpenter.sh/capacity-type In spot", "b price=6 | " + keyType + " In m5.large; karpenter.sh/capacity-type In spot"},
			want:     []string{"m5.large a/spot 6", "m5.large b/spot 6"},
		},
		"OV-18 the name of the pool": {
			overlays: []string{"o cap=" + device + ":3 | karpenter.sh/nodepool In default; " + keyCores + " Gt 3", "p cap=" + device + ":9 | karpenter.sh/nodepool NotIn default"},
			want:     []string{"m5.xlarge " + device + " 3"},
		},
		"OV-18 a label of the template": {
			overlays: []string{"o cap=" + device + ":3 | team In a; " + keyCores + " Gte 4", "p cap=" + device + ":9 | team In b", "q cap=example.com/q:1 | other In x"},
			labels:   map[string]string{"team": "a"},
			want:     []string{"m5.xlarge " + device + " 3"},
		},
		"OV-18 a label that nothing has": {
			overlays: []string{"o cap=" + device + ":3 | team DoesNotExist; " + keyType + " In m5.large", "p cap=example.com/p:9 | team Exists", "q cap=example.com/q:1 | example.com/gpu DoesNotExist; " + keyType + " In m5.large", "r cap=example.com/r:1 | example.com/gpu Exists"},
			want:     []string{"m5.large " + device + " 3", "m5.large example.com/q 1"},
		},
		"OV-18 an alias": {
			overlays: []string{"o cap=" + device + ":3 | beta.kubernetes.io/instance-type In m5.large"},
			want:     []string{"m5.large " + device + " 3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := overlay.Pool{Name: "default", Labels: tc.labels, Types: types()}
			set, _ := evaluate([]overlay.Pool{pool}, tc.overlays...)
			after := set.Apply(pool)
			if diff := cmp.Diff(tc.want, render(types(), after, set.Table())); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(types(), pool.Types); diff != "" {
				t.Error("the list of the cloud was changed", diff)
			}
		})
	}
}

// OV-12, FM P02: a price that an overlay makes 0 is known; one that is not known stays so.
func TestOV_12_FM_P02_FreeIsKnown(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		overlay string
		free    bool
	}{
		"no price any more":     {"o adjust=-100% | " + keyType + " In m5.large", true},
		"an amount beyond it":   {"o adjust=-1000 | " + keyType + " In m5.large", true},
		"the price 0":           {"o price=0 | " + keyType + " In m5.large", true},
		"a lower price":         {"o adjust=-99% | " + keyType + " In m5.large", false},
		"another instance type": {"o price=0 | " + keyType + " In c6.large", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := types()
			at := slices.IndexFunc(list, func(it catalog.InstanceType) bool { return it.Name == "m5.large" })
			list[at].Offerings = append(list[at].Offerings, catalog.Offering{Zone: "z", CapacityType: karpv1.CapacityTypeOnDemand})
			pool := overlay.Pool{Name: "default", Types: list}
			set, _ := evaluate([]overlay.Pool{pool}, tc.overlay)
			for _, o := range set.Apply(pool)[at].Offerings {
				unknown := o.Zone == "z" && !strings.Contains(tc.overlay, "price=0 | "+keyType+" In m5")
				if want := tc.free && !unknown; o.Free != want || o.Free && o.Price != 0 {
					t.Errorf("%s %s: price %v, free %v, want %v", o.Zone, o.CapacityType, o.Price, o.Free, want)
				}
			}
		})
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		overlays []string
		want     []string // of each: the reason, and what the message says
	}{
		"OV-16 M07 one price twice": {
			overlays: []string{"a weight=3 price=5 | karpenter.sh/capacity-type In spot", "b weight=3 adjust=-1% | " + keyType + " In m5.large"},
			want:     []string{"Conflict NodeOverlay b, also of weight 3, sets the price of instance type m5.large (spot in a, NodePool default) already; give", ""},
		},
		"OV-16 one resource twice": {
			overlays: []string{"a cap=" + device + ":1", "b cap=" + device + ":1 | " + keyType + " In c6.large"},
			want:     []string{"Conflict NodeOverlay b, also of weight 0, sets " + device + " of instance type c6.large (NodePool default) already; give", ""},
		},
		"OV-16 weights differ": {
			overlays: []string{"a weight=3 price=5", "b weight=4 price=6"}, want: []string{"", ""},
		},
		"OV-16 no offering of both": {
			overlays: []string{"a price=5 | karpenter.sh/capacity-type In spot", "b price=6 | karpenter.sh/capacity-type NotIn spot"}, want: []string{"", ""},
		},
		"OV-16 price and capacity do not meet": {
			overlays: []string{"a price=5", "b cap=" + device + ":1"}, want: []string{"", ""},
		},
		"OV-16 two conflict although a third wins": {
			overlays: []string{"a weight=1 price=5", "b weight=1 price=6", "c weight=2 price=7"}, want: []string{"Conflict NodeOverlay b", "", ""},
		},
		"OV-16 what was rejected conflicts with nothing": {
			overlays: []string{"a price=5 | " + keyType + " In c6.large", "b price=6", "c price=7 | " + keyType + " In m5.large"},
			want:     []string{"", "Conflict NodeOverlay c", ""},
		},
		"OV-25 a type that does not exist": {
			overlays: []string{"a adjust=+1 | " + keyType + " In m5.lrge", "b price=6 | " + keyType + " In c6.large"},
			want:     []string{"no instance type of any NodePool has " + keyType + " In [m5.lrge], so this overlay changes nothing; correct", ""},
		},
		"OV-25 a NodePool that does not exist": {
			overlays: []string{"a cap=" + device + ":1 | karpenter.sh/nodepool In none; " + keyType + " In c6.large"},
			want:     []string{"no instance type of any NodePool has karpenter.sh/nodepool In [none], so"},
		},
		"OV-25 a zone that does not exist": {
			overlays: []string{"a adjust=-1 | topology.kubernetes.io/zone In c"}, want: []string{"no instance type of any NodePool has topology.kubernetes.io/zone In [c], so"},
		},
		"OV-25 requirements that nothing meets together": {
			overlays: []string{"a adjust=-1 | " + keyType + " In m5.large; " + keyFamily + " In c6"}, want: []string{"no instance type of any NodePool meets all of spec.requirements, so"},
		},
		"OV-25 OV-21 a preview type refers to nothing that is missing": {
			overlays: []string{"a price=5 | " + keyType + " In new.large"}, want: []string{""},
		},
		"OV-17 a restricted label": {
			overlays: []string{"a price=5 | kubernetes.io/hostname In n", "b price=6"}, want: []string{"RuntimeValidation spec.requirements[0]: label kubernetes.io/hostname is restricted", ""},
		},
		"OV-17 requirements that contradict each other": {
			overlays: []string{"a price=5 | " + keyType + " In c6.large; " + keyType + " In m5.large"}, want: []string{"RuntimeValidation spec.requirements[1]:"},
		},
		"OV-17 no extended resource": {
			overlays: []string{"a cap=gpu:1", "b cap=example.com/x:500m", "c cap=example.com/y:-1", "d cap=memory:1Gi", "e cap=requests.kubernetes.io/x:1", "f cap=hugepages-2Mi:1Gi"},
			want:     []string{"RuntimeValidation spec.capacity[gpu]:", "RuntimeValidation spec.capacity[example.com/x]:", "RuntimeValidation spec.capacity[example.com/y]:", "RuntimeValidation spec.capacity[memory]:", "RuntimeValidation spec.capacity[requests.kubernetes.io/x]:", ""},
		},
		"OV-17 a price that is none": {
			overlays: []string{"a price=cheap", "b adjust=much%", "c price=-1", "d price=1 adjust=+1"},
			want:     []string{"RuntimeValidation spec.price", "RuntimeValidation spec.priceAdjustment", "RuntimeValidation spec.price", "RuntimeValidation spec.price and spec.priceAdjustment exclude"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, verdicts := evaluate([]overlay.Pool{{Name: "default", Types: types()}}, tc.overlays...)
			for i, v := range verdicts {
				if got := strings.TrimSpace(v.Reason + " " + v.Message); !strings.HasPrefix(got, tc.want[i]) || tc.want[i] == "" && got != "" {
					t.Errorf("%s: %q, want %q", v.Name, got, tc.want[i])
				}
			}
		})
	}
}

// Conflicts count in whatever pool they are: an overlay is applied in all or in none.
func TestOV_16_AConflictInOnePoolRejectsForAll(t *testing.T) {
	t.Parallel()
	pools := []overlay.Pool{{Name: "a", Types: types()}, {Name: "b", Types: types()}}
	set, verdicts := evaluate(pools, "x price=5", "y price=6 | karpenter.sh/nodepool In b")
	if verdicts[0].Reason != overlay.Conflict || !strings.Contains(verdicts[0].Message, "NodePool b") || verdicts[1].Reason != "" {
		t.Error(verdicts)
	}
	if got := set.Apply(pools[0]); &got[0] != &pools[0].Types[0] {
		t.Error("the rejected overlay, or that of another pool, changed something")
	}
}

// V15-65: an overlay changes price and capacity, and nothing else.
func TestV15_65_TheRestStays(t *testing.T) {
	t.Parallel()
	list := types()
	list[0].Offerings[0].Size = &catalog.Size{Capacity: resources.Of(1), Overhead: resources.Of(1)}
	list[1].Offerings[1].Price, list[1].Offerings[1].Available = 0, false
	pool := overlay.Pool{Name: "default", Types: list}
	set, _ := evaluate([]overlay.Pool{pool}, "a adjust=+1 cap="+device+":2 | "+keyFamily+" In m5")
	after := set.Apply(pool)
	if &after[2].Offerings[0] != &list[2].Offerings[0] {
		t.Error("offerings of a type that nothing touches were copied")
	}
	lane, _ := set.Table().Lane(device)
	if n := after[0].Offerings[0].Size.Capacity.At(lane); n != 2 {
		t.Errorf("an offering with a size of its own has %d", n)
	}
	if usd := after[1].Offerings[1].Price; usd != 0 {
		t.Errorf("an unknown price became %v", usd)
	}
	for i := range after {
		if marked := i < 2; after[i].Overlaid != marked || after[i].CapacityOverlaid != marked {
			t.Errorf("%s: marked %v and %v", after[i].Name, after[i].Overlaid, after[i].CapacityOverlaid)
		}
		after[i].Overlaid, after[i].CapacityOverlaid, after[i].Capacity, after[i].Offerings = false, false, list[i].Capacity, list[i].Offerings
	}
	if diff := cmp.Diff(list, after); diff != "" {
		t.Error(diff)
	}
}

func TestOV_21_PricesOfPreviewTypes(t *testing.T) {
	t.Parallel()
	set, _ := evaluate(nil,
		"a price=5 | "+keyType+" In new.large,new.small", "b weight=7 price=6 | "+keyType+" In new.small",
		"c adjust=+1 | "+keyType+" In c.large", "d price=1 cap="+device+":1 | "+keyType+" In d.large",
		"e price=1 | "+keyType+" In e.large; "+karpv1.LabelCapacityType+" In spot", "f price=1 | "+keyType+" NotIn f.large", "g price=1")
	if diff := cmp.Diff(map[string]float64{"new.large": 5, "new.small": 6}, set.Previews()); diff != "" {
		t.Error(diff)
	}
}

// naive says by the rules, offering by offering, what a pool's types come to.
func naive(pool overlay.Pool, objects []v1alpha1.NodeOverlay, verdicts []overlay.Verdict, table resources.Table) []string {
	order := slices.Clone(objects)
	rejected := map[string]bool{}
	for _, v := range verdicts {
		rejected[v.Name] = v.Reason != ""
	}
	weight := func(o *v1alpha1.NodeOverlay) int32 {
		if o.Spec.Weight == nil {
			return 0
		}
		return *o.Spec.Weight
	}
	slices.SortFunc(order, func(a, b v1alpha1.NodeOverlay) int {
		if d := weight(&b) - weight(&a); d != 0 {
			return int(d)
		}
		return strings.Compare(b.Name, a.Name)
	})
	after := make([]catalog.InstanceType, len(pool.Types))
	for i := range pool.Types {
		t := pool.Types[i]
		t.Offerings = slices.Clone(t.Offerings)
		amounts := map[corev1.ResourceName]int64{}
		for j := range t.Offerings {
			o, priced := &t.Offerings[j], false
			for k := range order {
				if rejected[order[k].Name] || !matches(pool, &t, o, &order[k]) {
					continue
				}
				for name, q := range order[k].Spec.Capacity {
					if _, set := amounts[name]; !set || !anyBefore(pool, &pool.Types[i], order[:k], rejected, name) {
						amounts[name] = q.Value()
					}
				}
				if order[k].Spec.Price != nil && !priced {
					priced = true
					_, _ = fmt.Sscan(*order[k].Spec.Price, &o.Price)
				}
			}
		}
		for name, n := range amounts {
			lane, _ := table.Lane(name)
			t.Capacity = resources.With(t.Capacity, lane, n)
		}
		after[i] = t
	}
	return render(pool.Types, after, table)
}

func anyBefore(pool overlay.Pool, t *catalog.InstanceType, before []v1alpha1.NodeOverlay, rejected map[string]bool, name corev1.ResourceName) bool {
	for k := range before {
		if _, sets := before[k].Spec.Capacity[name]; !sets || rejected[before[k].Name] {
			continue
		}
		for j := range t.Offerings {
			if matches(pool, t, &t.Offerings[j], &before[k]) {
				return true
			}
		}
	}
	return false
}

func matches(pool overlay.Pool, t *catalog.InstanceType, o *catalog.Offering, object *v1alpha1.NodeOverlay) bool {
	side := t.Labels.Clone()
	maps.Copy(side, overlay.PoolLabels(pool.Name, pool.Labels, reqs.CoreVocabulary()))
	side[corev1.LabelTopologyZone], side[karpv1.LabelCapacityType] = reqs.Req{Values: []string{o.Zone}}, reqs.Req{Values: []string{o.CapacityType}}
	var entries []reqs.Entry
	for _, r := range object.Spec.Requirements {
		entries = append(entries, reqs.Entry{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	want, _ := reqs.FromEntries(entries, reqs.CoreVocabulary())
	_, fits := reqs.Compatible(want, side, reqs.Options{})
	return fits
}

// What Apply returns is what the rules say, whatever the order of the objects; the list of the cloud never changes, and a
// conflict leaves at least one of the two.
func TestApplyAgreesWithTheRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		needs := rapid.SampledFrom([]string{
			"", keyType + " In m5.large", keyType + " NotIn m5.large", keyFamily + " In m5", keyCores + " Gt 2", "karpenter.sh/capacity-type In spot", "topology.kubernetes.io/zone In a",
			"karpenter.sh/nodepool In a", "team In x", "team DoesNotExist", "example.com/gpu Exists", "example.com/gpu DoesNotExist", "topology.kubernetes.io/zone NotIn a",
		})
		var texts []string
		for i := range rapid.IntRange(0, 6).Draw(t, "n") {
			text := fmt.Sprintf("o%d", i)
			if w := rapid.IntRange(0, 3).Draw(t, "weight"); w > 0 {
				text += fmt.Sprintf(" weight=%d", w)
			}
			if rapid.Bool().Draw(t, "priced") {
				text += fmt.Sprintf(" price=%d", 10+i)
			}
			for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{device, "example.com/other"}), func(s string) string { return s }).Draw(t, "capacity") {
				text += fmt.Sprintf(" cap=%s:%d", name, 10+i)
			}
			text += " | " + needs.Draw(t, "need") + "; " + needs.Draw(t, "need")
			texts = append(texts, text)
		}
		pools := []overlay.Pool{{Name: "a", Types: types()}, {Name: "b", Labels: map[string]string{"team": "x"}, Types: types()}}
		set, verdicts := evaluate(pools, texts...)
		byName := map[string]string{}
		var objects []v1alpha1.NodeOverlay
		for i, text := range texts {
			byName[verdicts[i].Name] = verdicts[i].Reason
			objects = append(objects, object(text))
		}
		shuffled := rapid.Permutation(texts).Draw(t, "order")
		again, other := evaluate([]overlay.Pool{pools[1], pools[0]}, shuffled...)
		for _, v := range other {
			if byName[v.Name] != v.Reason {
				t.Fatalf("%s: %q, and %q in another order", v.Name, byName[v.Name], v.Reason)
			}
		}
		if len(texts) > 0 && set.Len() == 0 && !slices.ContainsFunc(verdicts, func(v overlay.Verdict) bool { return v.Reason == overlay.RuntimeValidation }) {
			t.Fatal("all conflict")
		}
		for _, p := range pools {
			got := render(p.Types, set.Apply(p), set.Table())
			if diff := cmp.Diff(naive(p, objects, verdicts, set.Table()), got); diff != "" {
				t.Fatalf("NodePool %s: %s", p.Name, diff)
			}
			if diff := cmp.Diff(got, render(p.Types, again.Apply(p), again.Table())); diff != "" {
				t.Fatalf("NodePool %s, in another order: %s", p.Name, diff)
			}
			if diff := cmp.Diff(types(), p.Types); diff != "" {
				t.Fatalf("the list of the cloud was changed: %s", diff)
			}
		}
	})
}

// many is a catalogue of the size of a region, and overlays for it.
func many(overlays int) ([]overlay.Pool, []v1alpha1.NodeOverlay) {
	var list []catalog.InstanceType
	for i := range 800 {
		t := instanceType(fmt.Sprintf("f%d", i/10), fmt.Sprintf("s%d", i%10), i%96+1, 0.1+float64(i)/100)
		t.Offerings = nil
		for _, zone := range []string{"a", "b", "c"} {
			for _, kind := range []string{"on-demand", "spot", "reserved"} {
				t.Offerings = append(t.Offerings, catalog.Offering{Zone: zone, CapacityType: kind, Price: float64(i), Available: true})
			}
		}
		list = append(list, t)
	}
	var objects []v1alpha1.NodeOverlay
	for i := range overlays {
		switch i % 4 {
		case 0:
			objects = append(objects, object(fmt.Sprintf("o%d weight=%d price=1 | %s In f%d.s%d", i, i+1, keyType, i%80, i%10)))
		case 1:
			objects = append(objects, object(fmt.Sprintf("o%d weight=%d adjust=-10%% | %s In f%d; karpenter.sh/capacity-type In spot", i, i+1, keyFamily, i%80)))
		case 2:
			objects = append(objects, object(fmt.Sprintf("o%d weight=%d adjust=+0.01 | karpenter.sh/nodepool In p%d", i, i+1, i%3)))
		case 3:
			objects = append(objects, object(fmt.Sprintf("o%d weight=%d cap=%s:2 | %s Gt %d", i, i+1, device, keyCores, i%96)))
		}
	}
	return []overlay.Pool{{Name: "p0", Types: list}, {Name: "p1", Types: list}, {Name: "p2", Types: list}}, objects
}

func BenchmarkEvaluate(b *testing.B) {
	pools, objects := many(1000)
	table := resources.NewTable(overlay.ResourceNames(objects)...)
	for b.Loop() {
		overlay.Evaluate(objects, pools, table, reqs.CoreVocabulary())
	}
}

func BenchmarkApply(b *testing.B) {
	pools, objects := many(1000)
	set, _ := overlay.Evaluate(objects, pools, resources.NewTable(overlay.ResourceNames(objects)...), reqs.CoreVocabulary())
	for b.Loop() {
		set.Apply(pools[0])
	}
}
