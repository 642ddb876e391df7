package convert_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/admission"
	"github.com/dovetail-sh/dovetail/internal/convert"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// transcript shows a result the way a user sees it: findings, then documents.
func transcript(t *testing.T, r convert.Result) string {
	t.Helper()
	var b strings.Builder
	for _, w := range r.Warnings {
		fmt.Fprintln(&b, "warning:", w)
	}
	for _, e := range r.Errors {
		fmt.Fprintln(&b, "error:", e)
	}
	for _, d := range r.Documents {
		text, err := d.YAML()
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n" + string(text))
	}
	return b.String()
}

// Each file under testdata is converted and compared with its .golden, which shows every rule of API
// 12 at work. Rewrite with -rewrite and read the diff.
func TestConvert(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal("no cases", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := transcript(t, convert.Convert([]convert.Source{{Name: filepath.Base(path), Text: text}}, convert.Options{}))
			golden := strings.TrimSuffix(path, ".yaml") + ".golden"
			if *rewrite {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("conversion (-want +got):\n%s", diff)
			}
		})
	}
}

func source(text string) []convert.Source {
	return []convert.Source{{Name: "in.yaml", Text: []byte(text)}}
}

const bareProvisioner = `{"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "p"}, "spec": {"providerRef": {"name": "c"}}}`

func TestIgnoreDefaults(t *testing.T) {
	t.Parallel()
	got := transcript(t, convert.Convert(source(bareProvisioner), convert.Options{IgnoreDefaults: true}))
	if !strings.Contains(got, "requirements: []") {
		t.Errorf("API-12.1: requirements were added:\n%s", got)
	}
}

func TestNodeRole(t *testing.T) {
	t.Parallel()
	template := `{"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "metadata": {"name": "c"}, "spec": {"subnetSelector": {"a": "b"}}}`
	got := transcript(t, convert.Convert(source(template), convert.Options{NodeRole: "my-role"}))
	if !strings.Contains(got, "role: my-role") || strings.Contains(got, convert.DefaultNodeRole) {
		t.Errorf("API-12.2: the role of the call is not used:\n%s", got)
	}
}

func TestStrictMakesDoubtsErrors(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"unknown kind":                       "{apiVersion: v1, kind: Secret, metadata: {name: s}}",
		"unknown field":                      strings.Replace(bareProvisioner, `"spec": {`, `"spec": {"foo": 1, `, 1),
		"kubelet whose class is not present": "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: p}, spec: {template: {spec: {requirements: [], nodeClassRef: {name: c}, kubelet: {maxPods: 1}}}}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r := convert.Convert(source(text), convert.Options{}); len(r.Errors) > 0 || len(r.Warnings) == 0 {
				t.Errorf("without strict: errors %v, warnings %v", r.Errors, r.Warnings)
			}
			if r := convert.Convert(source(text), convert.Options{Strict: true}); len(r.Errors) == 0 || len(r.Documents) > 0 {
				t.Errorf("with strict: errors %v and %d documents", r.Errors, len(r.Documents))
			}
		})
	}
}

func TestTooManyAlternatives(t *testing.T) {
	t.Parallel()
	values := strings.Repeat("v,", 31)
	template := `{apiVersion: karpenter.k8s.aws/v1alpha1, kind: AWSNodeTemplate, metadata: {name: c}, spec: {subnetSelector: {a: "` + values + `"}}}`
	r := convert.Convert(source(template), convert.Options{})
	if len(r.Errors) == 0 || !strings.Contains(r.Errors[0].String(), "alternatives") {
		t.Errorf("errors %v, want one about alternatives", r.Errors)
	}
}

// Several JSON objects in a row are one source, and JSON output can be read again.
func TestJSONInAndOut(t *testing.T) {
	t.Parallel()
	r := convert.Convert(source(bareProvisioner+"\n\n"+strings.Replace(bareProvisioner, `"p"`, `"q"`, 1)), convert.Options{})
	if len(r.Errors) > 0 || len(r.Documents) != 2 {
		t.Fatalf("errors %v, %d documents", r.Errors, len(r.Documents))
	}
	var stream bytes.Buffer
	for _, d := range r.Documents {
		text, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		stream.Write(text)
	}
	again := convert.Convert([]convert.Source{{Name: "again", Text: stream.Bytes()}}, convert.Options{Strict: true})
	if diff := cmp.Diff(transcript(t, r), transcript(t, again)); diff != "" {
		t.Errorf("JSON does not survive (-first +second):\n%s", diff)
	}
}

const (
	barePool  = "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: p}, spec: {template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: c}}}}}"
	bareClass = "{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: c}, spec: {role: r, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{tags: {a: b}}], securityGroupSelectorTerms: [{tags: {a: b}}]}}"
)

func withKubelet(pool, block string) string {
	return strings.Replace(pool, "requirements: []", "requirements: [], kubelet: "+block, 1)
}

// What once changed the meaning of a manifest, or lost a part of it, without a word.
func TestNothingIsLostInSilence(t *testing.T) {
	t.Parallel()
	azure := strings.NewReplacer("karpenter.k8s.aws", "karpenter.azure.com", "EC2NodeClass", "AKSNodeClass").Replace(barePool)
	rename := func(text, name string) string {
		return strings.Replace(text, "metadata: {name: p}", "metadata: {name: "+name+"}", 1)
	}
	for name, tc := range map[string]struct {
		text      string
		wantText  []string // in the transcript
		wantNever string
		wantError string
	}{
		"an empty list of budgets is no bound, not the default": {
			text: strings.Replace(barePool, "spec: {template", "spec: {disruption: {consolidateAfter: 0s, budgets: []}, template", 1), wantText: []string{"budgets: []"},
		},
		"a null limit is no limit": {
			text: strings.Replace(barePool, "spec: {template", "spec: {limits: {cpu: null, memory: 1Gi}, template", 1), wantText: []string{"memory: 1Gi"}, wantNever: "cpu",
		},
		"large numbers keep their digits": {
			text: strings.Replace(barePool, "spec: {template", "spec: {limits: {memory: 9007199254740993}, template", 1), wantText: []string{`memory: "9007199254740993"`},
		},
		"a kubelet block of another cloud stays where it is": {
			text:     bareClass + "\n---\n" + withKubelet(azure, "{maxPods: 8}"),
			wantText: []string{"kubelet:\n        maxPods: 8", "stays on the pool: its node class is not an EC2NodeClass"},
		},
		"the block of the class that its pools override is named": {
			text:     strings.Replace(bareClass, "role: r", "role: r, kubelet: {podsPerCore: 3}", 1) + "\n---\n" + withKubelet(barePool, "{maxPods: 8}"),
			wantText: []string{"podsPerCore", "is gone", "applying this replaces the nodes"},
		},
		"two classes of one name and kubelets to move": {
			text:      bareClass + "\n---\n" + bareClass + "\n---\n" + withKubelet(barePool, "{maxPods: 8}"),
			wantError: "in separate calls",
		},
		"two pools of one name": {text: barePool + "\n---\n" + barePool, wantText: []string{"in.yaml:3: NodePool p: metadata.name: the same NodePool p is at in.yaml:1 too"}},
		"a copy of a class whose name is taken": {
			text:      bareClass + "\n---\n" + strings.Replace(bareClass, "name: c}", "name: c-p}", 1) + "\n---\n" + withKubelet(barePool, "{maxPods: 8}") + "\n---\n" + rename(barePool, "q"),
			wantError: "is taken",
		},
		"a copy of a class whose name is too long": {
			text:      bareClass + "\n---\n" + withKubelet(rename(barePool, strings.Repeat("p", 62)), "{maxPods: 8}") + "\n---\n" + rename(barePool, "q"),
			wantError: "more than 63 characters",
		},
		"a kubelet block that is none":        {text: withKubelet(barePool, "[1]"), wantError: "is not a mapping"},
		"an empty kubelet block is none":      {text: withKubelet(barePool, "{}"), wantNever: "kubelet"},
		"UTF-16":                              {text: "a\x00b\x00", wantError: "UTF-8"},
		"a document after the end of another": {text: barePool + "\n...\n" + rename(barePool, "second"), wantText: []string{"name: p\n", "name: second"}},
		"an item of a List that is none":      {text: "{apiVersion: v1, kind: List, items: [null, 5]}", wantError: "items[0]: is not an object"},
		"a List in a List":                    {text: "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: List, items: [" + bareProvisioner + "]}]}", wantText: []string{"kind: NodePool"}},
		"a kind that only ends in List":       {text: "{apiVersion: example.com/v1, kind: IPAllowList, items: [{cidr: 10.0.0.0/8}]}", wantText: []string{"kind: IPAllowList"}},
		"escapes that only JSON has":          {text: strings.Replace(bareProvisioner, `"spec"`, `"x\/y": "\ud83d\ude00", "spec"`, 1), wantText: []string{"x/y: is not a known field"}},
		"the line of an item":                 {text: "apiVersion: v1\nkind: List\nitems:\n- apiVersion: karpenter.sh/v1\n  kind: NodePool\n  metadata: {name: p}\n  spec:\n    weight: x\n", wantError: "in.yaml:8: NodePool p: spec.weight"},
		"the field of an inline provider": {
			text:      "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: p}\nspec:\n  provider:\n    tags: 5\n",
			wantError: "in.yaml:6: Provisioner p: spec.provider.tags",
		},
		"an apiVersion that is a number":    {text: "{apiVersion: 1, kind: NodePool}", wantError: "must be text"},
		"a name to be generated":            {text: strings.Replace(barePool, "name: p", "generateName: p-", 1), wantError: "generateName is not enough"},
		"a version of an overlay not known": {text: "{apiVersion: karpenter.sh/v1, kind: NodeOverlay, metadata: {name: o}, spec: {requirements: []}}", wantError: "is not known"},
		"what the server set on a buffer": {
			text:     "{apiVersion: autoscaling.x-k8s.io/v1beta1, kind: CapacityBuffer, metadata: {name: b, namespace: ns, uid: x}, spec: {replicas: 1, podTemplateRef: {name: t}}, status: {replicas: 3}}",
			wantText: []string{"namespace: ns"}, wantNever: "status",
		},
		"CV-10 images without alias and family": {
			text:     strings.NewReplacer("v1,", "v1beta1,", "{alias: al2023@latest}", "{id: ami-1}").Replace(bareClass),
			wantText: []string{"amiFamily: Custom"},
		},
		"expiry at once":                          {text: strings.Replace(bareProvisioner, `"spec": {`, `"spec": {"ttlSecondsUntilExpired": 0, `, 1), wantText: []string{"every node expires as soon as it is there"}},
		"an empty list of ids":                    {text: "{apiVersion: karpenter.k8s.aws/v1alpha1, kind: AWSNodeTemplate, metadata: {name: c}, spec: {subnetSelector: {aws-ids: ' '}}}", wantError: "aws-ids is empty"},
		"L-10 an old place that does not count":   {text: strings.NewReplacer("spec: {template", "spec: {disruption: {consolidateAfter: 0s, expireAfter: Never}, template", "requirements: []", "requirements: [], expireAfter: 1h").Replace(barePool), wantText: []string{"Never is ignored"}},
		"what the API server refuses is an error": {text: strings.Replace(barePool, "spec: {template", "spec: {weight: 1000, template", 1), wantError: "spec.weight: Invalid value"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := convert.Convert(source(tc.text), convert.Options{Judge: judge(t)})
			got := transcript(t, result)
			if tc.wantError != "" {
				if len(result.Errors) == 0 || !strings.Contains(got, tc.wantError) {
					t.Errorf("want an error with %q:\n%s", tc.wantError, got)
				}
				return
			}
			if len(result.Errors) > 0 {
				t.Fatal(result.Errors)
			}
			for _, want := range tc.wantText {
				if !strings.Contains(got, want) {
					t.Errorf("lacks %q:\n%s", want, got)
				}
			}
			if tc.wantNever != "" && strings.Contains(got, tc.wantNever) {
				t.Errorf("holds %q:\n%s", tc.wantNever, got)
			}
		})
	}
}

// FM I19: what the API server takes and the controller then says in condition ValidationSucceeded is reported here
// already, in the same words.
func TestPoolsThatCouldNeverHaveANode(t *testing.T) {
	t.Parallel()
	requirements := []karpv1.Requirement{{Key: "a", Operator: "Gt", Values: []string{"8"}}, {Key: "a", Operator: "Lt", Values: []string{"4"}}}
	const written = "requirements: [{key: a, operator: Gt, values: ['8']},\n{key: a, operator: Lt, values: ['4']}]"
	stored := &karpv1.NodePool{}
	stored.Spec.Template.Spec.Requirements = requirements
	problems, _ := stored.Validate(awsv1.Vocabulary())
	if len(problems) != 1 {
		t.Fatalf("problems %v, want one", problems)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"a pool":        {strings.Replace(barePool, "requirements: []", written, 1), "in.yaml:2: NodePool p: " + problems[0].Text()},
		"a Provisioner": {strings.Replace(bareProvisioner, `"spec": {`, `"spec": {`+written+", ", 1), "Provisioner p: " + problems[0].Text()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := convert.Convert(source(tc.text), convert.Options{Judge: judge(t)})
			if len(r.Errors) > 0 || len(r.Documents) != 1 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0].String(), tc.want) {
				t.Errorf("%d documents, errors %v, warnings %v, want %q", len(r.Documents), r.Errors, r.Warnings, tc.want)
			}
			if r := convert.Convert(source(tc.text), convert.Options{Judge: judge(t), Strict: true}); len(r.Errors) != 1 {
				t.Errorf("with strict: errors %v, want one", r.Errors)
			}
		})
	}
	wrong := strings.Replace(barePool, "requirements: []", "requirements: [{key: karpenter.sh/x, operator: Exists}]", 1)
	if r := convert.Convert(source(wrong), convert.Options{Judge: judge(t)}); len(r.Errors) == 0 || len(r.Warnings) > 0 {
		t.Errorf("what the API server refuses is reported twice: errors %v, warnings %v", r.Errors, r.Warnings)
	}
}

// judge queries the API server's libraries.
func judge(tb testing.TB) func(map[string]any) []convert.Refusal {
	tb.Helper()
	server, err := admission.New()
	if err != nil {
		tb.Fatal(err)
	}
	ctx := tb.Context()
	return func(object map[string]any) []convert.Refusal {
		var refusals []convert.Refusal
		for _, e := range server.Refusals(ctx, object) {
			refusals = append(refusals, convert.Refusal{Field: e.Field, Text: e.ErrorBody()})
		}
		return refusals
	}
}

// A long manifest with a finding on every line must not be read again for each of them.
func BenchmarkFindings(b *testing.B) {
	pool := strings.Replace(barePool, "requirements: []", "requirements: ["+strings.TrimSuffix(strings.Repeat("{key: a, values: [b]},\n", 2000), ",\n")+"]", 1)
	b.ReportAllocs()
	for b.Loop() {
		if r := convert.Convert(source(pool), convert.Options{}); len(r.Warnings) != 2000 {
			b.Fatal(len(r.Warnings))
		}
	}
}

// FuzzConvert: no input makes it panic, and its output is a fixed point that the CRDs accept.
func FuzzConvert(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(bareProvisioner))
	opts := convert.Options{Judge: judge(f)}
	f.Fuzz(func(t *testing.T, text []byte) {
		first := convert.Convert([]convert.Source{{Name: "in", Text: text}}, opts)
		if len(first.Errors) > 0 {
			if len(first.Documents) > 0 {
				t.Error("errors and documents together")
			}
			return
		}
		var out bytes.Buffer
		for _, d := range first.Documents {
			text, err := d.YAML()
			if err != nil {
				t.Fatal(err)
			}
			out.WriteString("---\n")
			out.Write(text)
			if !bytes.HasSuffix(text, []byte("\n")) {
				out.WriteByte('\n')
			}
		}
		second := convert.Convert([]convert.Source{{Name: "out", Text: out.Bytes()}}, opts)
		if len(second.Errors) > 0 {
			t.Fatalf("own output is refused: %v\n%s", second.Errors, out.Bytes())
		}
		if len(first.Documents) != len(second.Documents) {
			t.Fatalf("%d documents became %d\n%s", len(first.Documents), len(second.Documents), out.Bytes())
		}
		for i := range first.Documents {
			a, err := first.Documents[i].JSON()
			if err != nil {
				t.Fatal(err)
			}
			b, err := second.Documents[i].JSON()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a, b) {
				t.Fatalf("not a fixed point:\n%s\nthen\n%s", a, b)
			}
		}
	})
}

// A mistyped field would be lost without a word that anybody reads; one that looks like nothing known is a warning.
func TestTrust_C05_AMistypedFieldIsAnError(t *testing.T) {
	t.Parallel()
	const pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec: {template: {spec: {%s, nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: d}}}}\n"
	for field, want := range map[string]string{
		"requirments: []": `error: x.yaml:4: NodePool a: spec.template.spec.requirments: is not a known field; did you mean "requirements"?`,
		"requirements: [{key: a, operater: Exists, operator: Exists}]": `operater: is not a known field; did you mean "operator"?`,
		"wholly-else: 1": "warning: x.yaml:4: NodePool a: spec.template.spec.wholly-else: is not a known field and is left out; check its spelling",
	} {
		got := transcript(t, convert.Convert([]convert.Source{{Name: "x.yaml", Text: fmt.Appendf(nil, pool, field)}}, convert.Options{}))
		if !strings.Contains(got, want) {
			t.Errorf("%s: got\n%s\nwant %s", field, got, want)
		}
	}
}
