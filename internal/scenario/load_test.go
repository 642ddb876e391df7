package scenario_test

import (
	"os"
	"strings"
	"testing"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/scenario"
)

func tiny(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/tiny.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestIsKnowsWhatIsMeantAsAScenario(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		tiny(t): true, `{"name":"a"}`: true, `{"pods":5}`: true, `{"kind":"Pod"}`: false, "{}": false, "[]": false, "": false, `{"pods":`: false,
	} {
		if got := scenario.Is([]byte(text)); got != want {
			t.Errorf("%.40q: got %t, want %t", text, got, want)
		}
	}
}

// Every case changes one place of a good file; the message names the place and the fix.
func TestBadFilesAreRefusedWithThePath(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ replace, by, want string }{
		"not JSON": {
			`"name": "tiny",`, `"name": "tiny"`,
			"line 3, column 4: not JSON: invalid character '\"' after object key:value pair",
		},
		"not an object": {tiny(t), `[]`, `$: this is a list; want an object`},
		"an unknown field at the top": {
			`"daemonSets":`, `"daemonsets":`,
			`$.daemonsets: unknown field; did you mean "daemonSets"?`,
		},
		"an unknown field deep inside": {
			`"weight": 10`, `"wieght": 10`,
			`$.nodePools[0].spec.wieght: unknown field; did you mean "weight"?`,
		},
		"an unknown field like no other": {
			`"weight": 10`, `"zzz": 10`, `$.nodePools[0].spec.zzz: unknown field`,
		},
		"a field twice": {
			`"weight": 10`, `"weight": 10, "weight": 11`,
			`$: duplicate field "nodePools[0].spec.weight"`,
		},
		"text for a number": {
			`"weight": 10`, `"weight": "ten"`,
			`$.nodePools[0].spec.weight: "ten" is a string; want a whole number`,
		},
		"a fraction for a whole number": {
			`{"count": 3,`, `{"count": 3.5,`, `$.pods[0].count: 3.5; want a whole number`,
		},
		"a number for text": {`"zone": "a"`, `"zone": 1`, `$.instanceTypes[0].offerings[0].zone: 1; want a string
$.instanceTypes[1].offerings[0].zone: 1; want a string
$.nodes[0].zone: 1; want a string`},
		"text for a price": {
			`"price": 0.9`, `"price": "0.9"`,
			`$.instanceTypes[1].offerings[0].price: "0.9" is a string; want a number`,
		},
		"text for a truth value": {
			`"available": false`, `"available": "no"`,
			`$.instanceTypes[0].offerings[2].available: "no" is a string; want true or false`,
		},
		"an object for a list": {`"os": ["linux"],
      "capacity": {"cpu": "8"`, `"os": {},
      "capacity": {"cpu": "8"`, `$.instanceTypes[1].os: this is an object; want a list`},
		"a quantity with a wrong unit": {
			`"memory": "32Gi"`, `"memory": "32Gib"`,
			`$.instanceTypes[1].capacity.memory: "32Gib" is not a quantity; want a number with an optional suffix, such as 500m, 2 or 4Gi`,
		},
		"a quantity below zero": {
			`"nvidia.com/gpu": "1"},`, `"nvidia.com/gpu": "-1"},`,
			`$.instanceTypes[1].capacity["nvidia.com/gpu"]: -1 is below zero`,
		},
		"a quantity no machine has": {
			`"memory": "32Gi"`, `"memory": "1e99999999"`,
			`$.instanceTypes[1].capacity.memory: is larger or more exact than any quantity needs to be`,
		},
		"a pod that requests less than nothing": {
			`{"requests": {"cpu": "64", "memory": "1Gi"}}`, `{"requests": {"cpu": "-64", "memory": "1Gi"}}`,
			`$.pods[2].template.spec.containers[0].resources.requests.cpu: -64 is below zero`,
		},
		"a price below zero": {`"price": 0.9`, `"price": -1`, `$.instanceTypes[1].offerings[0].price: -1 is below zero`},
		"no name":            {`"name": "tiny"`, `"name": ""`, `$.name: is missing; give it a name`},
		"a type without a name": {
			`"name": "gpu", `, ``, `$.instanceTypes[1].name: is missing; give it a name`,
		},
		"two types of one name": {
			`"name": "gpu", `, `"name": "small", `, `$.instanceTypes[1].name: "small" appears twice; names are unique`,
		},
		"a type without an operating system": {
			`"arch": "arm64", "os": ["linux"]`, `"arch": "arm64"`, `$.instanceTypes[1].os: is missing; want a list such as ["linux"]`,
		},
		"a pool without a name": {
			`"metadata": {"name": "default"}`, `"metadata": {}`,
			`$.nodePools[0].metadata.name: is missing; give it a name
$.nodes[0].nodePool: no NodePool "default"`,
		},
		"an operator that does not exist": {
			`"operator": "In"`, `"operator": "Inn"`,
			`$.nodePools[0].spec.template.spec.requirements[0].operator: operator "Inn" is unknown; use one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte`,
		},
		"an operator without values": {
			`, "values": ["on-demand"]`, ``,
			`$.nodePools[0].spec.template.spec.requirements[0].values: operator In needs at least one value, or use Exists to allow any`,
		},
		"a taint without an effect": {
			`, "effect": "NoSchedule"`, ``,
			`$.nodePools[0].spec.template.spec.taints[0].effect: "" is not valid; want NoSchedule, PreferNoSchedule or NoExecute`,
		},
		"a limit below zero": {`"limits": {"cpu": "100"}`, `"limits": {"cpu": "-1"}`, `$.nodePools[0].spec.limits.cpu: -1 is below zero`},
		"a DaemonSet without a template": {
			`{"name": "logs", "template"`, `{"name": "cni"}, {"name": "logs", "template"`,
			`$.daemonSets[0].template: is missing; want a pod template`,
		},
		"a node of an unknown type": {
			`"instanceType": "small"`, `"instanceType": "smal"`,
			`$.nodes[0].instanceType: no instance type "smal"; did you mean "small"?`,
		},
		"a node of an unknown pool": {
			`"nodePool": "default"`, `"nodePool": "defaul"`,
			`$.nodes[0].nodePool: no NodePool "defaul"; did you mean "default"?`,
		},
		"a node that says nothing of its size": {
			`"instanceType": "small", `, ``,
			`$.nodes[0].allocatable: is missing; a node without an instanceType says what it has`,
		},
		"fewer pods than none": {`{"count": 1,`, `{"count": -1,`, `$.pods[1].count: -1 is below zero`},
		"more pods than any cluster has": {
			`{"count": 1,`, `{"count": 1000001,`, `$.pods[1].count: 1000001 is more than 1000000, the most that is planned for`,
		},
		"no number of pods": {`{"count": 1,`, `{`, `$.pods[1].count: is missing; say how many copies there are`},
		"an unknown template": {
			`{"count": 3, "templateRef": "small"}`, `{"count": 3, "templateRef": "smal"}`,
			`$.pods[0].templateRef: no template "smal"; did you mean "small"?`,
		},
		"no template at all":    {`{"count": 3, "templateRef": "small"}`, `{"count": 3}`, `$.pods[0]: has neither template nor templateRef`},
		"two templates at once": {`{"count": 1, "template"`, `{"count": 1, "templateRef": "small", "template"`, `$.pods[1]: has both template and templateRef; keep one of them`},
		"a pod without containers": {
			`"nodeSelector": {"example.com/gpu": "t4"}, "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}}}]`, `"nodeSelector": {}`,
			`$.pods[1].template.spec.containers: is missing; a pod has at least one container`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := tiny(t)
			if !strings.Contains(text, tc.replace) {
				t.Fatalf("the file does not contain %s", tc.replace)
			}
			_, err := scenario.Load([]byte(strings.ReplaceAll(text, tc.replace, tc.by)), awsv1.Vocabulary())
			if err == nil {
				t.Fatal("the file was accepted")
			}
			if err.Error() != tc.want {
				t.Errorf("Load() says\n%s\nwant\n%s", err, tc.want)
			}
		})
	}
}

func TestManyFaultsAreCounted(t *testing.T) {
	t.Parallel()
	text := `{"name":"n","pods":[` + strings.Repeat(`{"count":-1},`, 9) + `{"count":1}]}`
	_, err := scenario.Load([]byte(text), awsv1.Vocabulary())
	if err == nil || !strings.HasSuffix(err.Error(), "\nand 11 more") {
		t.Errorf("Load() = %v, want eight faults and a count", err)
	}
}
