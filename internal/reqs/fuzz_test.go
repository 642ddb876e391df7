package reqs_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// FuzzNew reads arbitrary requirements; values are separated by '|', and probe is a label value. It
// looks for panics and for places where reading, writing, rows and membership disagree.
func FuzzNew(f *testing.F) {
	for _, op := range []string{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte", "", "in"} {
		f.Add(op, "a|b", 0, "a")
		f.Add(op, "007", 2, "7")
		f.Add(op, maxInt, -1, "+1")
		f.Add(op, "", 1, "")
	}
	f.Fuzz(func(t *testing.T, op, list string, minValues int, probe string) {
		var values []string
		if list != "" {
			values = strings.Split(list, "|")
		}
		r, err := reqs.New(corev1.NodeSelectorOperator(op), values, minValues)
		if err != nil {
			if fault, typed := errors.AsType[*reqs.Fault](err); !typed || fault.Want == "" || fault.Error() == "" {
				t.Fatalf("New(%q, %q, %d) fails without a fix: %v", op, values, minValues, err)
			}
			return
		}
		e := entry{op: corev1.NodeSelectorOperator(op), values: values}
		for _, v := range append(values, probe) {
			if r.Has(v) != e.allows(v) {
				t.Fatalf("%v: Has(%q) = %t", r, v, r.Has(v))
			}
		}
		if !r.Intersect(r).Equal(r) || r.Overlaps(r) == r.Empty() || r.String() == "" {
			t.Fatalf("%v is not equal to its intersection with itself", r)
		}
		set, faults := reqs.FromEntries(r.Requirements("k"), reqs.Vocabulary{})
		if len(faults) > 0 || !set["k"].Equal(r) {
			t.Fatalf("%v written and read back is %v, %v", r, set, faults)
		}
		b := reqs.NewBuilder(reqs.Vocabulary{})
		b.AddSet(set)
		b.AddValues("k", probe)
		row, err := b.Build().Compile(set)
		if err != nil || !row.Set().Equal(set) {
			t.Fatalf("%v as a row is %v, %v", set, row.Set(), err)
		}
	})
}
