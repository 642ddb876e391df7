package kubelet_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/kubelet"
)

func raw(t *testing.T, text string) *runtime.RawExtension {
	t.Helper()
	document, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &runtime.RawExtension{Raw: document}
}

func parse(t *testing.T, text string) kubelet.Config {
	t.Helper()
	c, _ := kubelet.Parse(raw(t, text))
	return c
}

func TestParseTakesWhatTheControllerReads(t *testing.T) {
	t.Parallel()
	got, problems := kubelet.Parse(raw(t, `
clusterDNS: [10.0.0.10]
maxPods: 0
podsPerCore: 4
systemReserved: {cpu: 100m}
kubeReserved: {memory: 1Gi}
evictionHard: {memory.available: 5%, pid.available: "10"}
evictionSoft: {nodefs.available: 10Gi}
evictionSoftGracePeriod: {nodefs.available: 1m30s}
evictionMaxPodGracePeriod: 60
imageGCHighThresholdPercent: 85
imageGCLowThresholdPercent: 80
cpuCFSQuota: false
featureGates: {x: true}
`))
	if len(problems) > 0 {
		t.Fatalf("problems %v", problems)
	}
	want := kubelet.Config{
		ClusterDNS: []string{"10.0.0.10"}, MaxPods: new(int32(0)), PodsPerCore: new(int32(4)),
		SystemReserved: map[string]string{"cpu": "100m"}, KubeReserved: map[string]string{"memory": "1Gi"},
		EvictionHard:            map[string]string{"memory.available": "5%", "pid.available": "10"},
		EvictionSoft:            map[string]string{"nodefs.available": "10Gi"},
		EvictionSoftGracePeriod: map[string]string{"nodefs.available": "1m30s"},

		EvictionMaxPodGracePeriod:   new(int32(60)),
		ImageGCHighThresholdPercent: new(int32(85)), ImageGCLowThresholdPercent: new(int32(80)), CPUCFSQuota: new(false),
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(kubelet.Config{}), cmpopts.IgnoreFields(kubelet.Config{}, "Raw")); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if got.Raw["featureGates"] == nil || got.Raw["maxPods"] != int64(0) {
		t.Errorf("the whole document is not kept: %v", got.Raw)
	}
	if c, problems := kubelet.Parse(nil); len(problems) > 0 || c.MaxPods != nil || c.Expressions() {
		t.Errorf("no document gave %v, problems %v", c, problems)
	}
}

// EC2NodeClass 10: every rule on the document, and 9: what a family can apply.
func TestCheck(t *testing.T) {
	t.Parallel()
	const invalid, unsupported = kubelet.InvalidKubeletConfiguration, kubelet.UnsupportedKubeletConfiguration
	for name, tc := range map[string]struct {
		document    string
		family      awsv1.AMIFamily // AL2023 unless named
		gate        bool
		want        string
		wantMessage string
	}{
		"nothing":                                {document: "{}"},
		"null":                                   {document: "null"},
		"unknown field":                          {document: "maxPod: 3", want: invalid, wantMessage: `unknown field "maxPod"`},
		"field names are case-sensitive":         {document: "maxpods: 3", want: invalid, wantMessage: `unknown field "maxpods"`},
		"wrong type":                             {document: "clusterDNS: 10.0.0.10", want: invalid, wantMessage: "clusterDNS"},
		"wrong type of a number":                 {document: "podsPerCore: many", want: invalid, wantMessage: "podsPerCore"},
		"no object":                              {document: "[1]", want: invalid, wantMessage: "not an object"},
		"number beyond 32 bits":                  {document: "maxPods: 3000000000", want: invalid, wantMessage: "maxPods"},
		"taints belong to the controller":        {document: "registerWithTaints: []", want: invalid, wantMessage: "registerWithTaints"},
		"unknown eviction signal":                {document: "evictionHard: {memory.free: 5%}", want: invalid, wantMessage: `"memory.free"`},
		"unknown signal to reclaim":              {document: "evictionMinimumReclaim: {x: 5%}", want: invalid, wantMessage: "evictionMinimumReclaim"},
		"threshold above 100 percent":            {document: "evictionHard: {memory.available: 101%}", want: invalid, wantMessage: "101%"},
		"threshold below 0 percent":              {document: "evictionHard: {memory.available: -1%}", want: invalid, wantMessage: "-1%"},
		"threshold that is no number":            {document: "evictionHard: {memory.available: NaN%}", want: invalid, wantMessage: "NaN%"},
		"threshold at both ends":                 {document: "evictionHard: {memory.available: 0%, pid.available: 100%}"},
		"negative quantity":                      {document: "evictionHard: {memory.available: -1Gi}", want: invalid, wantMessage: "-1Gi"},
		"threshold that is no quantity":          {document: "evictionSoft: {memory.available: much}\nevictionSoftGracePeriod: {memory.available: 1m}", want: invalid, wantMessage: "much"},
		"grace period that is no duration":       {document: "evictionSoft: {memory.available: 5%}\nevictionSoftGracePeriod: {memory.available: 60}", want: invalid, wantMessage: "evictionSoftGracePeriod"},
		"negative grace period":                  {document: "evictionSoft: {memory.available: 5%}\nevictionSoftGracePeriod: {memory.available: -1m}", want: invalid, wantMessage: "-1m"},
		"soft threshold without grace period":    {document: "evictionSoft: {memory.available: 5%}", want: invalid, wantMessage: "evictionSoft: memory.available has no entry in evictionSoftGracePeriod"},
		"grace period without soft threshold":    {document: "evictionSoftGracePeriod: {memory.available: 1m}", want: invalid, wantMessage: "has no entry in evictionSoft"},
		"unknown resource to reserve":            {document: "kubeReserved: {gpu: '1'}", want: invalid, wantMessage: `kubeReserved: "gpu"`},
		"negative reservation":                   {document: "systemReserved: {cpu: -100m}", want: invalid, wantMessage: "-100m"},
		"negative expression":                    {document: "systemReserved: {cpu: -vcpus}", gate: true, want: invalid, wantMessage: "-vcpus"},
		"image GC above 100":                     {document: "imageGCHighThresholdPercent: 101", want: invalid, wantMessage: "101"},
		"image GC below 0":                       {document: "imageGCLowThresholdPercent: -1", want: invalid, wantMessage: "-1"},
		"image GC high not above low":            {document: "imageGCHighThresholdPercent: 80\nimageGCLowThresholdPercent: 80", want: invalid, wantMessage: "more than"},
		"negative maxPods":                       {document: "maxPods: -1", want: invalid, wantMessage: "maxPods is -1"},
		"negative podsPerCore":                   {document: "podsPerCore: -1", want: invalid, wantMessage: "podsPerCore is -1"},
		"negative evictionMaxPodGracePeriod":     {document: "evictionMaxPodGracePeriod: -1", want: invalid, wantMessage: "evictionMaxPodGracePeriod is -1"},
		"all problems are named":                 {document: "maxPods: -1\npodsPerCore: -1", want: invalid, wantMessage: "maxPods is -1, want 0 or more; podsPerCore"},
		"maxPods expression, gate off":           {document: "maxPods: max_pods * 2", want: kubelet.KubeletExpressionsDisabled, wantMessage: "NodeClassCEL"},
		"reservation expression, gate off":       {document: "kubeReserved: {cpu: vcpus * 10}", want: kubelet.KubeletExpressionsDisabled, wantMessage: "kubeReserved.cpu"},
		"expressions, gate on":                   {document: "maxPods: max_pods * 2\nkubeReserved: {cpu: vcpus * 10}", gate: true},
		"expression that does not compile":       {document: "maxPods: pods *", gate: true, want: kubelet.KubeletExpressionInvalid, wantMessage: "spec.kubelet.maxPods"},
		"expression that yields no number":       {document: "maxPods: instance_type", gate: true, want: kubelet.KubeletExpressionInvalid, wantMessage: "want a number"},
		"empty reservation":                      {document: "kubeReserved: {cpu: ''}", gate: true, want: kubelet.KubeletExpressionInvalid, wantMessage: "kubeReserved.cpu"},
		"any field with AL2023":                  {document: "featureGates: {x: true}"},
		"any field with Custom":                  {document: "featureGates: {x: true}\npodsPerCore: 3", family: awsv1.FamilyCustom},
		"other fields with AL2":                  {document: "featureGates: {x: true}", family: awsv1.FamilyAL2, want: unsupported, wantMessage: "featureGates"},
		"other fields with Windows":              {document: "serializeImagePulls: false", family: awsv1.FamilyWindows2022, want: unsupported, wantMessage: "serializeImagePulls"},
		"podsPerCore with AL2":                   {document: "podsPerCore: 3", family: awsv1.FamilyAL2},
		"podsPerCore with Bottlerocket":          {document: "podsPerCore: 3", family: awsv1.FamilyBottlerocket, want: unsupported, wantMessage: "podsPerCore"},
		"two DNS servers with AL2023":            {document: "clusterDNS: [10.0.0.1, 10.0.0.2]"},
		"two DNS servers with Bottlerocket":      {document: "clusterDNS: [10.0.0.1, 10.0.0.2]", family: awsv1.FamilyBottlerocket, want: unsupported, wantMessage: "clusterDNS"},
		"invalid comes before the expressions":   {document: "maxPods: x\npodsPerCore: -1", family: awsv1.FamilyAL2, want: invalid, wantMessage: "podsPerCore"},
		"expressions come before the family":     {document: "maxPods: x\nfeatureGates: {x: true}", family: awsv1.FamilyAL2, gate: true, want: kubelet.KubeletExpressionInvalid, wantMessage: "maxPods"},
		"managed fields with every other family": {document: "clusterDNS: [10.0.0.1]\nmaxPods: 20\ncpuCFSQuota: true", family: awsv1.FamilyBottlerocket},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			family := tc.family
			if family == "" {
				family = awsv1.FamilyAL2023
			}
			reason, message := kubelet.Check(parse(t, tc.document), family, tc.gate)
			if reason != tc.want || !strings.Contains(message, tc.wantMessage) {
				t.Errorf("%q %q, want %q with %q", reason, message, tc.want, tc.wantMessage)
			}
		})
	}
}

func TestExpressions(t *testing.T) {
	t.Parallel()
	large := kubelet.Machine{Type: "m5.large", VCPUs: 2, MemoryMiB: 8192, DefaultENIs: 3, IPsPerENI: 10, Pods: 29}
	for name, tc := range map[string]struct {
		document   string
		off        bool
		wantPods   int32 // -1: not set
		wantKube   map[string]string
		wantSystem map[string]string
		wantErr    string
	}{
		"default density is max_pods in maxPods":              {document: "maxPods: max_pods * 2", wantPods: 58},
		"a string of digits is an expression":                 {document: "maxPods: '110'", wantPods: 110},
		"all variables":                                       {document: "maxPods: \"instance_type == 'm5.large' ? vcpus + memory_mib + default_enis * ips_per_eni : 0\"", wantPods: 8224},
		"the resolved density is max_pods in reservations":    {document: "maxPods: 100\nkubeReserved: {memory: 11 * max_pods + 255}", wantPods: 100, wantKube: map[string]string{"memory": "1360Mi"}},
		"an expression of maxPods counts too":                 {document: "maxPods: '50'\nkubeReserved: {pid: max_pods * 10}", wantPods: 50, wantKube: map[string]string{"pid": "500"}},
		"podsPerCore limits the density":                      {document: "podsPerCore: 5\nkubeReserved: {pid: max_pods}", wantPods: -1, wantKube: map[string]string{"pid": "10"}},
		"cpu is rounded up to ten millicores":                 {document: "systemReserved: {cpu: vcpus * 31}", wantPods: -1, wantSystem: map[string]string{"cpu": "70m"}},
		"memory is rounded up to 16 MiB":                      {document: "systemReserved: {memory: '257'}", wantPods: -1, wantSystem: map[string]string{"memory": "257"}},
		"memory as an expression is MiB":                      {document: "systemReserved: {memory: 256 + 1}", wantPods: -1, wantSystem: map[string]string{"memory": "272Mi"}},
		"storage is GiB":                                      {document: "kubeReserved: {ephemeral-storage: vcpus + 0}", wantPods: -1, wantKube: map[string]string{"ephemeral-storage": "2Gi"}},
		"plain entries stay beside expressions":               {document: "kubeReserved: {cpu: 60m, pid: vcpus + 1}", wantPods: -1, wantKube: map[string]string{"cpu": "60m", "pid": "3"}},
		"doubles are truncated":                               {document: "maxPods: 10.0 / 4.0", wantPods: 2},
		"max of integers":                                     {document: "maxPods: max(vcpus, 7)", wantPods: 7},
		"min of doubles":                                      {document: "maxPods: min(3.9, 7.0)", wantPods: 3},
		"max of a mix":                                        {document: "maxPods: max(vcpus, 7.5)", wantPods: 7},
		"min of a mix":                                        {document: "maxPods: min(7.5, vcpus)", wantPods: 2},
		"division by zero":                                    {document: "maxPods: vcpus / 0", wantErr: "maxPods for m5.large"},
		"infinity":                                            {document: "maxPods: 1.0 / 0.0", wantErr: "no finite number"},
		"not a number":                                        {document: "maxPods: max(0.0 / 0.0, 1)", wantErr: "no finite number"},
		"below zero":                                          {document: "maxPods: vcpus - 3", wantErr: "below zero"},
		"beyond 32 bits":                                      {document: "maxPods: memory_mib * memory_mib * 100", wantErr: "too large"},
		"with the gate off the entries are ignored":           {document: "maxPods: max_pods\nkubeReserved: {cpu: vcpus * 1, memory: 1Gi}", off: true, wantPods: -1, wantKube: map[string]string{"memory": "1Gi"}},
		"with the gate off an unreadable expression is fine":  {document: "maxPods: '('", off: true, wantPods: -1},
		"with the gate on an unreadable expression is wrong":  {document: "maxPods: '('", wantErr: "spec.kubelet.maxPods"},
		"a document without expressions comes back unchanged": {document: "maxPods: 20", wantPods: 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parse(t, tc.document).For(large, !tc.off)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			pods := int32(-1)
			if got.MaxPods != nil {
				pods = *got.MaxPods
			}
			if pods != tc.wantPods || !cmp.Equal(got.KubeReserved, tc.wantKube, cmpopts.EquateEmpty()) || !cmp.Equal(got.SystemReserved, tc.wantSystem, cmpopts.EquateEmpty()) {
				t.Errorf("maxPods %d, kubeReserved %v, systemReserved %v", pods, got.KubeReserved, got.SystemReserved)
			}
			if got.Expressions() {
				t.Error("expressions are left")
			}
			rewritten, _ := got.Raw["maxPods"].(int64)
			if (tc.wantPods >= 0) != (got.Raw["maxPods"] != nil) || rewritten != int64(max(tc.wantPods, 0)) {
				t.Errorf("the document says maxPods %v", got.Raw["maxPods"])
			}
		})
	}
}

// A config is shared between instance types: requesting one must not change it.
func TestForLeavesTheConfigAlone(t *testing.T) {
	t.Parallel()
	c := parse(t, "maxPods: vcpus * 10\nkubeReserved: {cpu: vcpus * 10, memory: 1Gi}")
	for _, cpus := range []int{2, 4} {
		got, err := c.For(kubelet.Machine{VCPUs: cpus}, true)
		if err != nil {
			t.Fatal(err)
		}
		if int(*got.MaxPods) != cpus*10 {
			t.Errorf("maxPods %d for %d CPUs", *got.MaxPods, cpus)
		}
	}
	if diff := cmp.Diff(map[string]string{"memory": "1Gi"}, c.KubeReserved); diff != "" || c.MaxPods != nil {
		t.Errorf("the config changed: %v\n%s", c.MaxPods, diff)
	}
}

// CV: the kubelet block of a v1beta1 pool or claim replaces that of the class.
func TestOf(t *testing.T) {
	t.Parallel()
	own, pools := &runtime.RawExtension{Raw: []byte(`{"maxPods":1}`)}, &runtime.RawExtension{Raw: []byte(`{"maxPods":2}`)}
	class := &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{Kubelet: own}}
	for override, want := range map[*runtime.RawExtension]*runtime.RawExtension{nil: own, {}: own, pools: pools} {
		if got := kubelet.Of(class, override); got != want {
			t.Errorf("override %v gave %v", override, got)
		}
	}
}
