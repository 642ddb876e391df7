package config

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// SpreadConstraint is a topology spread that pods without any of their own get (SC-37). It has no
// selector: that follows from the Services and the controller of the pod.
type SpreadConstraint struct {
	MaxSkew            int32 // above 0
	TopologyKey        string
	WhenUnsatisfiable  string // DoNotSchedule or ScheduleAnyway
	MinDomains         *int32 // above 0, with DoNotSchedule only; nil means not given
	NodeAffinityPolicy string // Honor, Ignore, or empty if not given
	NodeTaintsPolicy   string // Honor, Ignore, or empty if not given
}

// Actions when a constraint cannot be met, and policies for counting nodes.
const (
	doNotSchedule  = "DoNotSchedule"
	scheduleAnyway = "ScheduleAnyway"
	policyHonor    = "Honor"
	policyIgnore   = "Ignore"
)

// schedulerConfig accepts the part of a kube-scheduler configuration that matters here, strictly:
// an unknown, repeated or wrongly capitalised field is a fault.
func schedulerConfig(at *[]SpreadConstraint) Reader {
	return Reader{kind: "yaml", read: func(g given, f *findings) {
		tree, err := decode(g.text)
		if err != nil {
			f.refuse(g, "one document of YAML or JSON ("+strings.Join(strings.Fields(err.Error()), " ")+")")
			return
		}
		const spread, constraints = "podTopologySpread", "defaultConstraints"
		w := walker{refuse: func(part, want string) { f.refusePart(g, part, want) }}
		root := w.object("", tree, spread)
		inner := w.object(spread, root[spread], constraints)
		*at = w.constraints(spread+"."+constraints, inner[constraints])
	}}
}

// decode reads one document of YAML or JSON into maps, slices and numbers.
func decode(text string) (any, error) {
	if documents(text) > 1 {
		return nil, errors.New("there are several") // the library would read the first alone
	}
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, err
	}
	return tree, nil
}

// documents counts the documents of a text that are not empty.
func documents(text string) int {
	count, open := 0, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "---" || line == "..." {
			open = false
			continue
		}
		if rest, marked := strings.CutPrefix(line, "--- "); marked {
			open, line = false, rest
		}
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line[0] != '%' && !open {
			open = true
			count++
		}
	}
	return count
}

// walker visits a decoded tree and reports what does not belong.
type walker struct {
	refuse func(part, want string)
}

// object returns the fields of an object and refuses those that are not known. Null has none.
func (w walker) object(path string, value any, known ...string) map[string]any {
	if value == nil {
		return nil
	}
	fields, ok := value.(map[string]any)
	if !ok {
		w.refuseValue(path, value, "an object with the fields "+strings.Join(known, ", "))
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, name) {
			w.refuse(strings.TrimPrefix(path+"."+name, "."), "only the fields "+strings.Join(known, ", "))
		}
	}
	return fields
}

// constraints reads the list and refuses two constraints of one key and action.
func (w walker) constraints(path string, value any) []SpreadConstraint {
	items, ok := value.([]any)
	if !ok {
		if value != nil {
			w.refuseValue(path, value, "a list")
		}
		return nil
	}
	var out []SpreadConstraint
	for i, item := range items {
		at := path + "[" + strconv.Itoa(i) + "]"
		s := w.constraint(at, item)
		if s.TopologyKey != "" && slices.ContainsFunc(out, s.repeats) {
			w.refuseValue(at, s.TopologyKey, "one constraint for each topologyKey and whenUnsatisfiable")
		}
		out = append(out, s)
	}
	return out
}

func (s SpreadConstraint) repeats(other SpreadConstraint) bool {
	return s.TopologyKey == other.TopologyKey && s.WhenUnsatisfiable == other.WhenUnsatisfiable
}

func (w walker) constraint(path string, value any) SpreadConstraint {
	if value == nil {
		value = map[string]any{} // an empty item lacks what is required
	}
	fields := w.object(path, value, "maxSkew", "topologyKey", "whenUnsatisfiable",
		"minDomains", "nodeAffinityPolicy", "nodeTaintsPolicy")
	if fields == nil {
		return SpreadConstraint{}
	}
	s := SpreadConstraint{
		MaxSkew:           w.positive(path+".maxSkew", fields["maxSkew"]),
		TopologyKey:       w.label(path+".topologyKey", fields["topologyKey"]),
		WhenUnsatisfiable: w.oneOfWords(path+".whenUnsatisfiable", fields["whenUnsatisfiable"], doNotSchedule, scheduleAnyway),
	}
	if v := fields["nodeAffinityPolicy"]; v != nil {
		s.NodeAffinityPolicy = w.oneOfWords(path+".nodeAffinityPolicy", v, policyHonor, policyIgnore)
	}
	if v := fields["nodeTaintsPolicy"]; v != nil {
		s.NodeTaintsPolicy = w.oneOfWords(path+".nodeTaintsPolicy", v, policyHonor, policyIgnore)
	}
	if v := fields["minDomains"]; v != nil {
		domains := w.positive(path+".minDomains", v)
		s.MinDomains = &domains
		if s.WhenUnsatisfiable == scheduleAnyway {
			w.refuseValue(path+".minDomains", v, "no minDomains with "+scheduleAnyway)
		}
	}
	return s
}

func (w walker) positive(path string, value any) int32 {
	number, ok := value.(float64)
	if !ok || number < 1 || number > math.MaxInt32 || number != math.Trunc(number) {
		w.refuseValue(path, value, "a whole number of 1 or more")
		return 0
	}
	return int32(number)
}

func (w walker) label(path string, value any) string {
	name, ok := value.(string)
	if !ok || len(validation.IsQualifiedName(name)) > 0 {
		w.refuseValue(path, value, "a label name, such as topology.kubernetes.io/zone")
		return ""
	}
	return name
}

func (w walker) oneOfWords(path string, value any, allowed ...string) string {
	word, ok := value.(string)
	if !ok || !slices.Contains(allowed, word) {
		w.refuseValue(path, value, oneOf(allowed))
		return ""
	}
	return word
}

// refuseValue refuses the value at a path.
func (w walker) refuseValue(path string, value any, want string) {
	have, err := json.Marshal(value)
	if err != nil {
		have = []byte("?")
	}
	w.refuse(strings.TrimPrefix(path+": "+string(have), ": "), want)
}
