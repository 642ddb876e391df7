package classes

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/admission"
)

// All samples, and what they are changed to, are what the API server accepts, and they do differ.
func TestChangesAreValid(t *testing.T) {
	t.Parallel()
	server, err := admission.New()
	if err != nil {
		t.Fatal(err)
	}
	changes, err := Changes()
	if err != nil {
		t.Fatal(err)
	}
	fields, judged := map[string]bool{}, map[string]bool{} // the latter by the name of the sample
	for _, c := range changes {
		fields[c.Field] = true
		if reflect.DeepEqual(c.Before, c.After) {
			t.Errorf("%s: before and after are the same", c.Field)
		}
		for _, class := range []*awsv1.EC2NodeClass{c.Before, c.After} {
			if class == c.Before && judged[class.Name] {
				continue
			}
			judged[class.Name] = true
			text, err := json.Marshal(class)
			if err != nil {
				t.Fatal(err)
			}
			var tree map[string]any
			if err := json.Unmarshal(text, &tree); err != nil {
				t.Fatal(err)
			}
			if refusals := server.Refusals(t.Context(), tree); len(refusals) > 0 {
				t.Errorf("%s: %v", c.Field, refusals)
			}
		}
	}
	for field := range others() {
		if !fields[field] {
			t.Errorf("others has %s, which is no field", field)
		}
	}
	for _, field := range []string{"spec.context", "spec.kubelet", "spec.blockDeviceMappings.ebs.volumeSize", "spec.tags", "status.amis.requirements.values", "status.conditions.lastTransitionTime"} {
		if !fields[field] {
			t.Errorf("%s is not among the fields: %v", field, slices.Sorted(maps.Keys(fields)))
		}
	}
}

// A digest of everything notices everything; one that leaves out a field, or has one that is listed, is found out.
func TestUnnoticed(t *testing.T) {
	t.Parallel()
	digest := func(forget func(*awsv1.EC2NodeClass)) func(*awsv1.EC2NodeClass) string {
		return func(class *awsv1.EC2NodeClass) string {
			class = class.DeepCopy()
			forget(class)
			text, err := json.Marshal(class)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
	for name, tc := range map[string]struct {
		forget func(*awsv1.EC2NodeClass)
		listed map[string]string
		want   []string
	}{
		"everything": {forget: func(*awsv1.EC2NodeClass) {}},
		"a field is left out": {
			forget: func(c *awsv1.EC2NodeClass) { c.Spec.Context = nil },
			want:   []string{"spec.context does not change the digest"},
		},
		"a field in a list is left out": {
			forget: func(c *awsv1.EC2NodeClass) {
				if len(c.Spec.BlockDeviceMappings) > 0 {
					c.Spec.BlockDeviceMappings[0].EBS.IOPS = nil
				}
			},
			want: []string{"spec.blockDeviceMappings.ebs.iops does not change the digest"},
		},
		"left out on purpose": {
			forget: func(c *awsv1.EC2NodeClass) { c.Status.Conditions = nil },
			listed: map[string]string{"status.conditions": "they change all the time"},
		},
		"listed for nothing": {
			forget: func(*awsv1.EC2NodeClass) {},
			listed: map[string]string{"spec.context": "why not", "spec.unheard": "why not"},
			want:   []string{"spec.context changes the digest", "spec.unheard is listed but is no field"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Unnoticed(digest(tc.forget), tc.listed)
			if err != nil || len(got) != len(tc.want) {
				t.Fatalf("%q (%v), want %q", got, err, tc.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tc.want[i]) {
					t.Errorf("%q, want %q", got[i], tc.want[i])
				}
			}
		})
	}
}
