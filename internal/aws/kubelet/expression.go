package kubelet

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// costLimit bounds the work of one evaluation; a sensible expression costs a few dozen.
const costLimit = 100_000

// Machine is what expressions can be about.
type Machine struct {
	Type                   string
	VCPUs, MemoryMiB       int
	DefaultENIs, IPsPerENI int
	Pods                   int // default density of the family and type
}

// expression is one entry that depends on the instance type.
type expression struct {
	field, key string // key is empty for maxPods
	text       string
	program    cel.Program
	err        error // of compiling
}

func (e expression) name() string {
	if e.key == "" {
		return e.field
	}
	return e.field + "." + e.key
}

// Expressions reports whether any entry is an expression.
func (c Config) Expressions() bool { return len(c.expressions) > 0 }

// compile prepares the expressions. The environment is made only where there are any: it is costly.
func (c *Config) compile() {
	if len(c.expressions) == 0 {
		return
	}
	env, err := environment()
	for i := range c.expressions {
		e := &c.expressions[i]
		if err != nil {
			e.err = err
			continue
		}
		e.program, e.err = program(env, e.text)
	}
}

func program(env *cel.Env, text string) (cel.Program, error) {
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, err
	}
	if out := ast.OutputType(); !slices.ContainsFunc([]*cel.Type{cel.IntType, cel.DoubleType, cel.DynType}, out.IsExactType) {
		return nil, fmt.Errorf("%q yields %s, want a number", text, out)
	}
	return env.Program(ast, cel.CostLimit(costLimit))
}

func environment() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("vcpus", cel.IntType),
		cel.Variable("memory_mib", cel.IntType),
		cel.Variable("default_enis", cel.IntType),
		cel.Variable("ips_per_eni", cel.IntType),
		cel.Variable("max_pods", cel.IntType),
		cel.Variable("instance_type", cel.StringType),
		extremumFunction("max", func(order float64) bool { return order > 0 }),
		extremumFunction("min", func(order float64) bool { return order < 0 }),
	)
}

// extremumFunction declares a function of two numbers in any mix. Two integers stay an integer.
func extremumFunction(name string, first func(order float64) bool) cel.EnvOption {
	pick := func(a, b ref.Val) ref.Val {
		x, y := float(a), float(b)
		switch {
		case math.IsNaN(x) || math.IsNaN(y):
			return types.Double(math.NaN())
		case a.Type() == types.IntType && b.Type() == types.IntType:
			if order, ok := a.(types.Int).Compare(b).(types.Int); ok && first(float64(order)) {
				return a
			}
			return b
		case first(x - y):
			return types.Double(x)
		default:
			return types.Double(y)
		}
	}
	overload := func(suffix string, a, b, out *cel.Type) cel.FunctionOpt {
		return cel.Overload(name+suffix, []*cel.Type{a, b}, out, cel.BinaryBinding(pick))
	}
	return cel.Function(name,
		overload("_int_int", cel.IntType, cel.IntType, cel.IntType),
		overload("_double_double", cel.DoubleType, cel.DoubleType, cel.DoubleType),
		overload("_int_double", cel.IntType, cel.DoubleType, cel.DoubleType),
		overload("_double_int", cel.DoubleType, cel.IntType, cel.DoubleType),
	)
}

func float(v ref.Val) float64 {
	switch v := v.(type) {
	case types.Int:
		return float64(v)
	case types.Double:
		return float64(v)
	default:
		return math.NaN()
	}
}

// For returns the document for one instance type: every expression is replaced by its value. With
// the gate NodeClassCEL off expressions are left out, as if they were not there.
func (c Config) For(m Machine, gate bool) (Config, error) {
	if len(c.expressions) == 0 {
		return c, nil
	}
	out := c
	out.expressions = nil
	out.Raw = maps.Clone(c.Raw)
	out.KubeReserved, out.SystemReserved = maps.Clone(c.KubeReserved), maps.Clone(c.SystemReserved)
	// maxPods comes first in the list: reservations may depend on it.
	for _, e := range c.expressions {
		if !gate {
			continue
		}
		value, err := e.evaluate(m, out.density(m))
		if err != nil {
			return Config{}, fmt.Errorf("spec.kubelet.%s for %s: %w", e.name(), m.Type, err)
		}
		switch e.field {
		case fieldMaxPods:
			out.MaxPods = new(value)
		case fieldKubeReserved:
			out.KubeReserved = withEntry(out.KubeReserved, e.key, quantity(e.key, int64(value)))
		case fieldSystemReserved:
			out.SystemReserved = withEntry(out.SystemReserved, e.key, quantity(e.key, int64(value)))
		}
	}
	out.write()
	return out, nil
}

// write brings the whole document in line with the fields that expressions changed.
func (c *Config) write() {
	delete(c.Raw, fieldMaxPods)
	if c.MaxPods != nil {
		c.Raw[fieldMaxPods] = int64(*c.MaxPods)
	}
	// any order: each field is written by itself
	for field, values := range map[string]map[string]string{fieldKubeReserved: c.KubeReserved, fieldSystemReserved: c.SystemReserved} {
		delete(c.Raw, field)
		if len(values) == 0 {
			continue
		}
		tree := map[string]any{}
		for key, value := range values {
			tree[key] = value
		}
		c.Raw[field] = tree
	}
}

func withEntry(values map[string]string, key, value string) map[string]string {
	if values == nil {
		values = map[string]string{}
	}
	values[key] = value
	return values
}

// density is the number of pods a machine takes as far as it is known: the default until maxPods is
// settled (AWS provider 3.4).
func (c Config) density(m Machine) int {
	pods := m.Pods
	if c.MaxPods != nil {
		pods = int(*c.MaxPods)
	}
	if c.PodsPerCore != nil && *c.PodsPerCore > 0 {
		pods = min(pods, int(*c.PodsPerCore)*m.VCPUs)
	}
	return pods
}

func (e expression) evaluate(m Machine, pods int) (int32, error) {
	if e.err != nil {
		return 0, e.err
	}
	if e.field == fieldMaxPods {
		pods = m.Pods
	}
	value, _, err := e.program.Eval(map[string]any{
		"vcpus": m.VCPUs, "memory_mib": m.MemoryMiB, "default_enis": m.DefaultENIs, "ips_per_eni": m.IPsPerENI, "max_pods": pods, "instance_type": m.Type,
	})
	if err != nil {
		return 0, err
	}
	number := math.NaN()
	switch value := value.(type) {
	case types.Int:
		number = float64(value)
	case types.Double:
		number = math.Trunc(float64(value))
	}
	switch {
	case math.IsNaN(number) || math.IsInf(number, 0):
		return 0, errors.New("the result is no finite number")
	case number < 0:
		return 0, fmt.Errorf("the result %v is below zero", number)
	case number > math.MaxInt32:
		return 0, fmt.Errorf("the result %v is too large", number)
	}
	return int32(number), nil
}

// quantity writes the result of a reservation in the unit of its resource.
func quantity(key string, value int64) string {
	up := func(step int64) string { return strconv.FormatInt((value+step-1)/step*step, 10) }
	switch key {
	case "cpu":
		return up(10) + "m"
	case "memory":
		return up(16) + "Mi"
	case "ephemeral-storage":
		return up(1) + "Gi"
	default:
		return up(1)
	}
}
