package ami_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/api/crds"
	"github.com/dovetail-sh/dovetail/internal/aws/ami"
)

// nodeClassSpecs are the schemas of spec of an EC2NodeClass, one per served version.
func nodeClassSpecs(t *testing.T) map[string]apiextensionsv1.JSONSchemaProps {
	t.Helper()
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	specs := map[string]apiextensionsv1.JSONSchemaProps{}
	for _, c := range all {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(c.YAML, &crd); err != nil {
			t.Fatal(err)
		}
		for _, v := range crd.Spec.Versions {
			if crd.Spec.Names.Kind == "EC2NodeClass" {
				specs[v.Name] = v.Schema.OpenAPIV3Schema.Properties["spec"]
			}
		}
	}
	if len(specs) == 0 {
		t.Fatal("no CRD of EC2NodeClass")
	}
	return specs
}

// Every family that the API accepts has an entry, and every entry is accepted.
func TestTableIsWhatTheAPIAccepts(t *testing.T) {
	t.Parallel()
	var names, aliases []string
	for _, f := range ami.All() {
		names = append(names, f.Name)
		if f.Alias != "" {
			aliases = append(aliases, f.Alias)
		}
	}
	slices.Sort(aliases)
	for version, spec := range nodeClassSpecs(t) {
		var accepted []string
		for _, value := range spec.Properties["amiFamily"].Enum {
			accepted = append(accepted, strings.Trim(string(value.Raw), `"`))
		}
		slices.Sort(accepted)
		if diff := cmp.Diff(accepted, names); diff != "" {
			t.Errorf("%s: families (-enum of spec.amiFamily +table):\n%s", version, diff)
		}
		rules := spec.Properties["amiSelectorTerms"].Items.Schema.Properties["alias"].XValidations
		list := slices.IndexFunc(rules, func(r apiextensionsv1.ValidationRule) bool { return strings.Contains(r.Rule, " in [") })
		if list < 0 {
			t.Fatalf("%s: no rule lists the families of aliases", version)
		}
		var listed []string
		for _, word := range regexp.MustCompile(`'(\w+)'`).FindAllStringSubmatch(rules[list].Rule, -1) {
			listed = append(listed, word[1])
		}
		slices.Sort(listed)
		if diff := cmp.Diff(listed, aliases); diff != "" {
			t.Errorf("%s: aliases (-rule of amiSelectorTerms +table):\n%s", version, diff)
		}
	}
}

// An entry says everything that is read of it.
func TestEntriesAreComplete(t *testing.T) {
	t.Parallel()
	builds := map[string]string{}
	for _, f := range ami.All() {
		wrong := func(format string, args ...any) { t.Helper(); t.Errorf(f.Name+": "+format, args...) }
		if f.Title == "" {
			wrong("no title")
		}
		for _, d := range f.Disks {
			if d.Device == "" || d.GiB <= 0 {
				wrong("incomplete disk %+v", d)
			}
		}
		if f.ReadAs != "" {
			if _, disk := f.DataDisk(); !disk || ami.Of(f.ReadAs).UserData == 0 {
				wrong("an old name needs a disk and a family that it is read as")
			}
			continue
		}
		if f.UserData == 0 {
			wrong("no format of user data")
		}
		if (f.UserData == ami.ShellScript) != (f.BootstrapScript != "") {
			wrong("BootstrapScript is %q with format %d", f.BootstrapScript, f.UserData)
		}
		if (f.UserData == ami.NodeConfig) != f.NeedsServiceCIDR {
			wrong("a NodeConfig, and nothing else, names the service CIDR")
		}
		if other, taken := builds[f.WindowsBuild]; taken && f.Windows() {
			wrong("has the build of %s", other)
		}
		builds[f.WindowsBuild] = f.Name
		if f.Windows() != (f.UserData == ami.PowerShell) || f.Windows() != (f.FixedPods > 0) {
			wrong("Windows has a build, PowerShell and a fixed number of pods, Linux none of these")
		}
		checkImages(t, f)
	}
}

// checkImages checks where the images of a family come from.
func checkImages(t *testing.T, f ami.Family) {
	t.Helper()
	published := f.Alias != ""
	if _, disk := f.DataDisk(); disk != published || (f.Images != nil) != published || (f.UserData == ami.Verbatim) == published {
		t.Errorf("%s: alias, images, disks and generated user data come together or not at all", f.Name)
	}
	if limited := f.FirstMinor > 0 || f.LastMinor > 0; limited != (f.Instead != "") {
		t.Errorf("%s: Instead is %q; it is for families with a first or last version", f.Name, f.Instead)
	}
	for alias := range strings.SplitSeq(f.Instead, " or ") {
		name, version, _ := strings.Cut(alias, "@")
		if other, known := ami.ByAlias(name); f.Instead != "" && (!known || other.Name == f.Name || version != ami.Latest) {
			t.Errorf("%s: %q is no alias to use instead", f.Name, alias)
		}
	}
	if f.Successor != "" && (f.LastMinor == 0 || ami.Of(f.Successor).Alias == "" || f.Successor == f.Name) {
		t.Errorf("%s: the successor %q takes over after a last version, by an alias of its own", f.Name, f.Successor)
	}
	if !published {
		return
	}
	if f.Alias != strings.ToLower(f.Name) {
		t.Errorf("%s: alias %s; admission compares it with the name in lower case", f.Name, f.Alias)
	}
	seen := map[string]bool{}
	for _, image := range f.Images("1.34", ami.Latest) {
		if seen[image.Parameter] || !strings.Contains(image.Parameter, "1.34") || !image.Mutable || len(image.Variants) == 0 {
			t.Errorf("%s: image %+v", f.Name, image)
		}
		seen[image.Parameter] = true
		for _, v := range image.Variants {
			if (v == ami.ServerCore) != f.Windows() {
				t.Errorf("%s: variant %d in %s", f.Name, v, image.Parameter)
			}
		}
	}
	if len(seen) == 0 {
		t.Errorf("%s: no images", f.Name)
	}
}

// A field that no entry sets says nothing about any family.
func TestEveryFieldIsUsed(t *testing.T) {
	t.Parallel()
	for i := range reflect.TypeFor[ami.Family]().NumField() {
		if !slices.ContainsFunc(ami.All(), func(f ami.Family) bool { return !reflect.ValueOf(f).Field(i).IsZero() }) {
			t.Errorf("no family sets %s", reflect.TypeFor[ami.Family]().Field(i).Name)
		}
	}
}

// A name that is in no table launches nothing.
func TestUnknownNames(t *testing.T) {
	t.Parallel()
	if f := ami.Of("Unheard"); f.UserData != 0 || f.Images != nil || f.Alias != "unheard" {
		t.Errorf("%+v", f)
	}
	for _, alias := range []string{"", "custom", "ubuntu", "unheard"} {
		if f, known := ami.ByAlias(alias); known {
			t.Errorf("alias %q is %s", alias, f.Name)
		}
	}
	if f, known := ami.ByAlias("AL2023"); !known || f.Name != ami.AL2023 {
		t.Errorf("AL2023 is %+v", f)
	}
}
