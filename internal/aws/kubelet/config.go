package kubelet

import (
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	kjson "sigs.k8s.io/json"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// Names of the fields that the controller itself reads.
const (
	fieldMaxPods        = "maxPods"
	fieldKubeReserved   = "kubeReserved"
	fieldSystemReserved = "systemReserved"
)

// Config is what of spec.kubelet the controller reads, and the whole document for the families that
// take it as it is.
type Config struct {
	ClusterDNS                  []string
	MaxPods                     *int32
	PodsPerCore                 *int32
	SystemReserved              map[string]string
	KubeReserved                map[string]string
	EvictionHard                map[string]string
	EvictionSoft                map[string]string
	EvictionSoftGracePeriod     map[string]string
	EvictionMaxPodGracePeriod   *int32
	ImageGCHighThresholdPercent *int32
	ImageGCLowThresholdPercent  *int32
	CPUCFSQuota                 *bool

	Raw map[string]any // the whole document; numbers are int64 or float64

	problems    []string // why the document is refused
	expressions []expression
}

// Of is the document in force: the kubelet block of a v1beta1 pool or claim replaces that of the class.
func Of(class *awsv1.EC2NodeClass, override *runtime.RawExtension) *runtime.RawExtension {
	if override != nil && len(override.Raw) > 0 {
		return override
	}
	return class.Spec.Kubelet
}

// Parse reads a document. The problems say in words why it is refused; expressions that cannot be
// compiled are not among them, see Check. What could be read is returned in any case. No document is
// an empty Config.
func Parse(raw *runtime.RawExtension) (Config, []string) {
	if raw == nil || len(raw.Raw) == 0 {
		return Config{}, nil
	}
	tree, decodeProblems := decode(raw.Raw)
	c := Config{Raw: tree}
	plain := c.takeExpressions(tree)
	typed, strictProblems := decodeStrictly(plain)
	c.read(typed, plain)
	c.problems = slices.Concat(decodeProblems, strictProblems, rules(typed, plain, tree))
	return c, c.problems
}

// decode reads a JSON object; null is an empty one.
func decode(text []byte) (map[string]any, []string) {
	tree := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &tree); err != nil {
		return nil, []string{"spec.kubelet is not an object: " + err.Error()}
	}
	return tree, nil
}

// decodeStrictly decodes a document against the kubelet's type: unknown fields and wrong types are problems.
func decodeStrictly(tree map[string]any) (kubeletv1beta1.KubeletConfiguration, []string) {
	typed := kubeletv1beta1.KubeletConfiguration{}
	text, err := json.Marshal(tree)
	if err != nil {
		return typed, []string{err.Error()}
	}
	lenient, err := kjson.UnmarshalStrict(text, &typed)
	var problems []string
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, e := range lenient {
		problems = append(problems, e.Error())
	}
	slices.Sort(problems)
	return typed, problems
}

// takeExpressions keeps the expressions of a document and returns a copy of it without them: a string
// as maxPods, and reservations that are no quantities.
func (c *Config) takeExpressions(tree map[string]any) map[string]any {
	plain := maps.Clone(tree)
	if text, ok := tree[fieldMaxPods].(string); ok {
		c.expressions = append(c.expressions, expression{field: fieldMaxPods, text: text})
		delete(plain, fieldMaxPods)
	}
	for _, field := range []string{fieldKubeReserved, fieldSystemReserved} {
		values, ok := tree[field].(map[string]any)
		if !ok {
			continue
		}
		rest := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			text, isText := values[key].(string)
			if _, err := resource.ParseQuantity(text); !isText || err == nil {
				rest[key] = values[key]
				continue
			}
			c.expressions = append(c.expressions, expression{field: field, key: key, text: text})
		}
		if plain[field] = rest; len(rest) == 0 {
			delete(plain, field)
		}
	}
	c.compile()
	return plain
}

// read takes the fields over. The kubelet's type has no pointers for numbers, so what is absent shows
// in the tree alone.
func (c *Config) read(typed kubeletv1beta1.KubeletConfiguration, tree map[string]any) {
	number := func(name string, value int32) *int32 {
		if _, isSet := tree[name]; !isSet {
			return nil
		}
		return &value
	}
	c.ClusterDNS = typed.ClusterDNS
	c.MaxPods = number(fieldMaxPods, typed.MaxPods)
	c.PodsPerCore = number("podsPerCore", typed.PodsPerCore)
	c.SystemReserved, c.KubeReserved = typed.SystemReserved, typed.KubeReserved
	c.EvictionHard, c.EvictionSoft = typed.EvictionHard, typed.EvictionSoft
	c.EvictionSoftGracePeriod = typed.EvictionSoftGracePeriod
	c.EvictionMaxPodGracePeriod = number("evictionMaxPodGracePeriod", typed.EvictionMaxPodGracePeriod)
	c.ImageGCHighThresholdPercent, c.ImageGCLowThresholdPercent = typed.ImageGCHighThresholdPercent, typed.ImageGCLowThresholdPercent
	c.CPUCFSQuota = typed.CPUCFSQuota
}
