package snapshot_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// with applies a change to a fixture, and checks that the fixture stays as it was.
func with(t *testing.T, change inspect.WhatIf) (*snapshot.File, error) {
	t.Helper()
	f := snapshottest.New(snapshottest.Options{Nodes: 2, Pending: 1})
	before := encoded(t, f)
	out, err := f.With(change, awsv1.Vocabulary())
	if diff := cmp.Diff(before, encoded(t, f)); diff != "" {
		t.Errorf("the file itself was changed (-before +after):\n%s", diff)
	}
	return out, err
}

func encoded(t *testing.T, f *snapshot.File) string {
	t.Helper()
	var text strings.Builder
	if err := f.Encode(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestSetFieldsOfNodePools(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set  string
		read func(*karpv1.NodePool) any
		want any
		err  string // part of it
	}{
		"WI-06: a limit":                 {set: "nodepool/default.limits.cpu=100", read: func(p *karpv1.NodePool) any { q := p.Spec.Limits[corev1.ResourceCPU]; return q.String() }, want: "100"},
		"WI-06: requirements, in short":  {set: "nodepool/default.requirements=[{key: kubernetes.io/arch, operator: In, values: [amd64]}]", read: func(p *karpv1.NodePool) any { return p.Spec.Template.Spec.Requirements[0].Values[0] }, want: "amd64"},
		"WI-06: the whole path":          {set: "nodepool/default.spec.template.spec.expireAfter=24h", read: func(p *karpv1.NodePool) any { return string(p.Spec.Template.Spec.ExpireAfter) }, want: "24h"},
		"WI-06: a label with dots":       {set: "nodepool/default.template.metadata.labels.example.com/team=web", read: func(p *karpv1.NodePool) any { return p.Spec.Template.ObjectMeta.Labels["example.com/team"] }, want: "web"},
		"WI-06: a number":                {set: "nodepool/default.weight=50", read: func(p *karpv1.NodePool) any { return *p.Spec.Weight }, want: int32(50)},
		"WI-06: nothing removes a field": {set: "nodepool/default.disruption.budgets=null", read: func(p *karpv1.NodePool) any { return len(p.Spec.Disruption.Budgets) }, want: 0},
		"WI-07: an unknown field":        {set: "nodepool/default.wieght=5", err: `there is no field wieght; did you mean "weight"?`},
		"WI-07: a field of a value":      {set: "nodepool/default.requirements=[{kye: a}]", err: `there is no field template.spec.requirements[0].kye; did you mean "key"?`},
		"WI-07: the short form, mistyped": {
			set: "nodepool/default.requirments=[]", err: `did you mean "requirements"?`,
		},
		"WI-07: an unknown NodePool":      {set: "nodepool/defaults.weight=5", err: `there is no NodePool defaults; did you mean "default"?`},
		"WI-07: an operator":              {set: "nodepool/default.requirements=[{key: a, operator: Inn, values: [b]}]", err: "NodePool default is not valid then: "},
		"WI-07: no value":                 {set: "nodepool/default.weight", err: "want nodepool/NAME.PATH=VALUE"},
		"WI-07: another kind":             {set: "node/default.weight=5", err: "want nodepool/NAME.PATH=VALUE"},
		"WI-07: broken YAML":              {set: "nodepool/default.weight=[", err: "the value is not YAML"},
		"WI-07: a list for a number":      {set: "nodepool/default.weight=[1]", err: "weight: want a single value, not a list"},
		"WI-07: a text for a list":        {set: "nodepool/default.requirements=spot", err: "template.spec.requirements: want a list, not spot"},
		"WI-07: a path through a list":    {set: "nodepool/default.requirements.0.key=a", err: "template.spec.requirements is a list; set it as a whole"},
		"WI-07: a path below a number":    {set: "nodepool/default.weight.a=1", err: "weight has no fields"},
		"WI-07: a text for a number":      {set: "nodepool/default.weight=much", err: "weight"},
		"WI-07: a quantity that is none":  {set: "nodepool/default.limits.cpu=much", err: "limits.cpu"},
		"WI-07: a duration that is none":  {set: "nodepool/default.disruption.consolidateAfter=soon", err: "consolidateAfter"},
		"WI-07: a change of the template": {set: "nodepool/default.template.spec.nodeClassRef=5", err: "want an object, not 5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := with(t, inspect.WhatIf{Set: []string{tc.set}})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), "--set "+tc.set) {
					t.Errorf("got error %v, want the flag and %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := tc.read(&f.Objects.NodePools[0]); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestWI_08_NodesDriftThatAChangedNodePoolWouldNotRequest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set  string
		want int // nodes of 2
	}{
		"requirements that one node meets": {set: "nodepool/default.requirements=[{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]", want: 1},
		"a label that nodes lack":          {set: "nodepool/default.template.metadata.labels.team=web", want: 2},
		"a limit":                          {set: "nodepool/default.limits.cpu=100", want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := with(t, inspect.WhatIf{Set: []string{tc.set}})
			if err != nil {
				t.Fatal(err)
			}
			drifted := 0
			for i := range f.Objects.NodeClaims {
				if meta.IsStatusConditionTrue(f.Objects.NodeClaims[i].Status.Conditions, karpv1.ConditionDrifted) {
					drifted++
				}
			}
			if drifted != tc.want {
				t.Errorf("%d nodes have drifted, want %d", drifted, tc.want)
			}
		})
	}
}

const workloads = `
# a comment is no document
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec: {containers: [{name: c, image: private/api, env: [{name: A, value: b}], resources: {requests: {cpu: 500m}}}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, resources: {limits: {memory: 1Gi}}}]}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: gp3, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
---
apiVersion: v1
kind: List
items:
- {apiVersion: batch/v1, kind: Job, metadata: {name: once}, spec: {parallelism: 5, completions: 2, template: {spec: {restartPolicy: Never, containers: [{name: c}]}}}}
- {apiVersion: v1, kind: Pod, metadata: {name: alone}, spec: {nodeName: somewhere, containers: [{name: c}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec: {selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]}}}
`

func TestAddPods(t *testing.T) {
	t.Parallel()
	f, err := with(t, inspect.WhatIf{AddPods: workloads})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range f.Objects.Pods {
		if p := &f.Objects.Pods[i]; strings.HasPrefix(string(p.UID), "added/") {
			got = append(got, p.Namespace+"/"+p.Name+" "+p.Spec.Containers[0].Resources.Requests.Cpu().String()+" "+p.Spec.Containers[0].Resources.Requests.Memory().String())
			if p.Spec.NodeName != "" || p.Spec.Containers[0].Image != "" || len(p.Spec.Containers[0].Env) > 0 || p.Status.Phase != corev1.PodPending {
				t.Errorf("%s is no pending pod, or has too much: %+v", p.Name, p.Spec)
			}
		}
	}
	want := []string{
		"shop/api-added-0 500m 0", "shop/api-added-1 500m 0", "shop/api-added-2 500m 0", "default/db-added-3 0 1Gi", "default/db-added-4 0 1Gi",
		"default/once-added-5 0 0", "default/once-added-6 0 0", "default/alone 0 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("WI-09: pods (-want +got):\n%s", diff)
	}
	if len(f.Objects.VolumeClaims) != 2 || f.Objects.VolumeClaims[0].Name != "data-db-added-3" || len(f.Objects.DaemonSets) != 1 || len(f.Missing) != 1 {
		t.Errorf("WI-09: %d claims, %d DaemonSets, missing %v; want 2, 1 and one note", len(f.Objects.VolumeClaims), len(f.Objects.DaemonSets), f.Missing)
	}
}

func TestAddPodsSaysWhatIsMalformed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ manifests, want string }{
		"WI-10: a field":       {"kind: Pod\napiVersion: v1\nmetadata: {name: a}\nspec: {containres: []}", `document 1: there is no field spec.containres; did you mean "containers"?`},
		"WI-10: a kind":        {"kind: Deploymnet\napiVersion: apps/v1", `document 1: kind Deploymnet has no pods to add; did you mean "Deployment"?`},
		"WI-10: no kind":       {"a: b", "document 1: it has no kind"},
		"WI-10: no name":       {"kind: Pod\nspec: {containers: [{name: c}]}", "document 1: metadata.name is required"},
		"WI-10: no container":  {"kind: Pod\nmetadata: {name: a}", "document 1: pod default/a has no container"},
		"WI-10: it exists":     {"kind: Pod\nmetadata: {name: pending-0000}\nspec: {containers: [{name: c}]}", "pod default/pending-0000 exists already"},
		"WI-10: nothing":       {"# only a comment", "the manifests have none"},
		"WI-10: second of two": {"kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n---\nkind: List\nitems: [{kind: Service}]", "document 2: items[0]: kind Service has no pods to add"},
		"WI-10: too many":      {"kind: ReplicaSet\nmetadata: {name: a}\nspec: {replicas: 2000000000, template: {spec: {containers: [{name: c}]}}}", "more than 30000 pods"},
		"WI-10: below zero":    {"kind: ReplicaSet\nmetadata: {name: a}\nspec: {replicas: -1, template: {spec: {containers: [{name: c}]}}}", "a has -1 replicas"},
		"WI-10: no YAML":       {"kind: [", "document 1: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := with(t, inspect.WhatIf{AddPods: tc.manifests}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		without string
		left    int // of 36 offerings
		err     string
	}{
		"WI-11: a zone":                     {without: "zone=us-east-1a", left: 24},
		"WI-11: spot":                       {without: "capacity-type=spot", left: 18},
		"WI-11: an instance type":           {without: "instance-type=m5.large", left: 30},
		"WI-11: a label":                    {without: "kubernetes.io/arch=arm64", left: 30},
		"WI-11: the end of a label":         {without: "instance-family=m5", left: 18},
		"WI-11: the whole name of a label":  {without: "topology.kubernetes.io/zone=us-east-1b", left: 24},
		"WI-11: an old name of a label":     {without: "failure-domain.beta.kubernetes.io/zone=us-east-1b", left: 24},
		"WI-12: a value that does not fit":  {without: "zone=us-east-1z", err: `no instance type has this value; did you mean "us-east-1a"?`},
		"WI-12: a label that is not there":  {without: "zne=us-east-1a", err: `no instance type has label zne; did you mean "zone"?`},
		"WI-12: no value":                   {without: "zone", err: "want KEY=VALUE"},
		"WI-12: a label that no type gives": {without: "karpenter.k8s.aws/instance-gpu-name=a100", err: "no instance type has this value"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := with(t, inspect.WhatIf{Without: []string{tc.without}})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			left := 0
			for _, it := range f.Catalogues[0].InstanceTypes {
				for _, o := range it.Offerings {
					if o.Available {
						left++
					}
				}
			}
			if left != tc.left {
				t.Errorf("%d offerings are left, want %d", left, tc.left)
			}
		})
	}
}

// What cannot be launched any more still has its price: a node of it costs what it did.
func TestWI_11_NodesKeepTheirPriceWithoutTheirOffering(t *testing.T) {
	t.Parallel()
	f, err := with(t, inspect.WhatIf{Without: []string{"instance-type=m5.xlarge"}})
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := (&snapshot.Service{File: f, Words: awsv1.Vocabulary()}).Fleet(t.Context())
	if err != nil || fleet.Totals.Unpriced != 0 || fleet.Totals.Nodes != 2 {
		t.Errorf("got %+v, %v; want 2 nodes with a price", fleet.Totals, err)
	}
}

func TestPrices(t *testing.T) {
	t.Parallel()
	f, err := with(t, inspect.WhatIf{Prices: map[string]float64{"*/*/spot": 0.01, "m5.large/*/*": 0.02, "m5.large/us-east-1a/spot": 0.03}})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range f.Catalogues[0].InstanceTypes {
		for _, o := range it.Offerings {
			want := map[bool]float64{true: 0.01, false: o.Price}[o.CapacityType == "spot"]
			if it.Name == "m5.large" {
				want = map[bool]float64{true: 0.03, false: 0.02}[o.CapacityType == "spot" && o.Zone == "us-east-1a"]
			}
			if o.Price != want {
				t.Errorf("WI-13: %s in %s as %s costs %v, want %v", it.Name, o.Zone, o.CapacityType, o.Price, want)
			}
		}
	}
	if _, err := with(t, inspect.WhatIf{Prices: map[string]float64{"p5.48xlarge/*/*": 1}}); err == nil || !strings.Contains(err.Error(), "no price is one of") {
		t.Errorf("WI-13: got error %v, want that no price matches", err)
	}
	if _, err := with(t, inspect.WhatIf{Prices: map[string]float64{"m5.large": 1}}); err == nil || !strings.Contains(err.Error(), "want INSTANCE-TYPE/ZONE/CAPACITY-TYPE") {
		t.Errorf("WI-13: got error %v, want the form of a key", err)
	}
}

func TestReadPrices(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want map[string]float64
		err  string
	}{
		"WI-14: CSV":                       {text: "instanceType,zone,capacityType,price\nm5.large,us-east-1a,on-demand,0.096\n# cheaper\nm5.large,*,spot,0.03\n", want: map[string]float64{"m5.large/us-east-1a/on-demand": 0.096, "m5.large/*/spot": 0.03}},
		"WI-14: CSV, other columns":        {text: "price, instanceType\n0.1, m5.large\n", want: map[string]float64{"m5.large/*/*": 0.1}},
		"WI-14: YAML":                      {text: "# negotiated\nprices:\n- {instanceType: m5.large, price: 0.05}\n- {instanceType: '*', zone: us-east-1a, capacityType: spot, price: 0.01}\n", want: map[string]float64{"m5.large/*/*": 0.05, "*/us-east-1a/spot": 0.01}},
		"WI-14: JSON is YAML":              {text: `{"prices": [{"instanceType": "m5.large", "price": 0.05}]}`, want: map[string]float64{"m5.large/*/*": 0.05}},
		"WI-15: a price in CSV":            {text: "instanceType,price\nm5.large,cheap\n", err: `line 2: price "cheap" is not a number`},
		"WI-15: a price in YAML":           {text: "prices:\n- instanceType: m5.large\n  price: -1\n", err: "line 2: price -1 is not above 0"},
		"WI-15: infinite":                  {text: "instanceType,price\nm5.large,1e999\n", err: "line 2: "},
		"WI-15: a column":                  {text: "instancetyp,price\n", err: `line 1: column "instancetyp" is not known; did you mean "instanceType"?`},
		"WI-15: a key":                     {text: "prices:\n- {instanceType: a, cost: 1}\n", err: `line 2: key "cost" is not known`},
		"WI-15: no column price":           {text: "instanceType,zone\n", err: "line 1: no column price"},
		"WI-15: fields":                    {text: "instanceType,price\nm5.large,0.1,3\n", err: "line 2: 3 fields, want 2"},
		"WI-15: twice":                     {text: "instanceType,price\nm5.large,0.1\nm5.large,0.2\n", err: "line 3: m5.large/*/* has a price in line 2 already"},
		"WI-15: part of a name":            {text: "instanceType,price\nm5.*,0.1\n", err: `line 2: instanceType "m5.*" is no name; want one, or * for all`},
		"WI-15: two faults":                {text: "instanceType,price\na,b\nc,d\n", err: "line 3: price"},
		"WI-15: quotes":                    {text: "instanceType,price\n\"a,b\n", err: "line "},
		"WI-15: YAML that is none":         {text: "prices: [\n", err: "line "},
		"WI-15: another document":          {text: "kind: Pod\n", err: `line 1: key "kind" is not known; want prices`},
		"WI-15: an empty file":             {text: "", err: "it has no price"},
		"WI-15: a list that is none":       {text: "prices: 5\n", err: "line 1: prices is no list"},
		"WI-15: a value that is a map":     {text: "prices:\n- {instanceType: {a: b}, price: 1}\n", err: "line 2: instanceType is not a single value"},
		"WI-15: an item that is no map":    {text: "prices:\n- 5\n", err: "line 2: want a map with"},
		"WI-15: a document that is no map": {text: "- 5\n", err: "want a map with the key prices"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := snapshot.ReadPrices([]byte(tc.text))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got error %v, want %q", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("error %v, prices (-want +got):\n%s", err, diff)
			}
		})
	}
}

func FuzzReadPrices(f *testing.F) {
	f.Add([]byte("instanceType,zone,capacityType,price\nm5.large,us-east-1a,on-demand,0.096\n"))
	f.Add([]byte("prices:\n- {instanceType: m5.large, price: 0.05}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		prices, err := snapshot.ReadPrices(text)
		if (err == nil) != (len(prices) > 0) {
			t.Errorf("%d prices, error %v", len(prices), err)
		}
		for key, usd := range prices {
			if strings.Count(key, "/") != 2 || !(usd > 0) {
				t.Errorf("%q costs %v", key, usd)
			}
		}
	})
}

func FuzzSet(f *testing.F) {
	for _, text := range []string{"nodepool/default.weight=5", "nodepool/default.requirements=[{key: a, operator: In, values: [b]}]", "nodepool/default.limits.cpu=1", "nodepool/default.template.metadata.labels.a=b"} {
		f.Add(text)
	}
	file := snapshottest.New(snapshottest.Options{Nodes: 1})
	f.Fuzz(func(t *testing.T, text string) {
		changed, err := file.With(inspect.WhatIf{Set: []string{text}}, awsv1.Vocabulary())
		if err != nil {
			return
		}
		again, err := changed.With(inspect.WhatIf{Set: []string{text}}, awsv1.Vocabulary())
		if err != nil {
			t.Fatalf("set twice: %v", err)
		}
		if diff := cmp.Diff(changed.Objects.NodePools[0].Spec, again.Objects.NodePools[0].Spec); diff != "" {
			t.Errorf("set twice is not set once:\n%s", diff)
		}
	})
}

func FuzzAddPods(f *testing.F) {
	f.Add(workloads)
	file := snapshottest.New(snapshottest.Options{Nodes: 1})
	f.Fuzz(func(t *testing.T, text string) {
		changed, err := file.With(inspect.WhatIf{AddPods: text}, awsv1.Vocabulary())
		if err != nil || len(changed.Objects.Pods) > 100 {
			return
		}
		if _, err := changed.Cluster(awsv1.Vocabulary()); err != nil {
			t.Errorf("the cluster with the pods cannot be read: %v", err)
		}
	})
}
