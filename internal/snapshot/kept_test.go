package snapshot

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// Objects of every kind whose every text is the path of its field show what enters a File. A new line in the golden file is
// something that is sent to others: it has to be needed for a decision, and harmless.
func TestWI_05_NothingElseEntersAFile(t *testing.T) {
	t.Parallel()
	var f File
	objects := reflect.ValueOf(&f.Objects).Elem()
	for i := range objects.NumField() {
		list := reflect.MakeSlice(objects.Field(i).Type(), 1, 1)
		fill(list.Index(0), objects.Type().Field(i).Name, 0)
		o := list.Index(0).Addr().Interface().(client.Object)
		o.SetAnnotations(map[string]string{"acme.com/password": "~Annotation~", "karpenter.sh/do-not-disrupt": "true"})
		keep(o)
		objects.Field(i).Set(list)
	}
	var text bytes.Buffer
	if err := f.Encode(&text); err != nil {
		t.Fatal(err)
	}
	kept := regexp.MustCompile(`~[A-Za-z0-9.]+~`).FindAllString(text.String(), -1)
	slices.Sort(kept)
	got := strings.ReplaceAll(strings.Join(slices.Compact(kept), "\n"), "~", "") + "\n"
	for _, never := range []string{".Env", "Image", "Command", "Args", "Secret", "Password", "Token", "UserData", "Parameters", "Attributes", "Opaque", "ManagedFields", "Addresses", "Annotation"} {
		for line := range strings.Lines(got) {
			if strings.Contains(line, never) && !slices.Contains(harmless(), strings.TrimSpace(line)) {
				t.Errorf("%s enters a snapshot", strings.TrimSpace(line))
			}
		}
	}
	const path = "testdata/kept.txt"
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("what enters a snapshot has changed (-want +got):\n%s", diff)
	}
}

// harmless are fields whose names look like what may never enter.
func harmless() []string {
	const request = "ResourceClaims.Spec.Devices.Requests."
	return []string{
		request + "Exactly.DerivedAttributes.Name", request + "Exactly.DerivedAttributes.Expression", request + "FirstAvailable.DerivedAttributes.Name", request + "FirstAvailable.DerivedAttributes.Expression",
		// what a driver publishes about a device: its product, its memory
		"ResourceSlices.Spec.Devices.Attributes", "ResourceSlices.Spec.Devices.Attributes.StringValue", "ResourceSlices.Spec.Devices.Attributes.StringValues",
		"ResourceSlices.Spec.Devices.Attributes.VersionValue", "ResourceSlices.Spec.Devices.Attributes.VersionValues",
	}
}

// fill sets every text below a value to its path, so far as types end.
func fill(v reflect.Value, path string, depth int) {
	switch v.Interface().(type) {
	case resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse("1")))
		return
	case metav1.Time, metav1.MicroTime, metav1.Duration:
		return
	}
	if depth > 14 {
		return
	}
	switch kind := v.Kind(); {
	case kind == reflect.String:
		v.SetString("~" + path + "~")
	case kind == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path, depth+1)
	case kind == reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(fmt.Sprintf("%q", "~"+path+"~")))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path, depth+1)
	case kind == reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, path, depth+1)
		fill(value, path, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case kind == reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() && !strings.HasPrefix(field.Type.String(), "*v1.JSONSchema") {
				fill(v.Field(i), path+"."+field.Name, depth+1)
			}
		}
	}
}
