package provider

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/google/go-cmp/cmp"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

func (l *awsEnv) newDiscoverer() *discover.Discoverer {
	return discover.New(discover.Options{EC2: ec2.NewFromConfig(l.sdk), SSM: ssm.NewFromConfig(l.sdk), Now: l.currentTime})
}

// Subnet terms select by tags, ids and wildcards; terms are alternatives, tags of one term are not
// (EC2NodeClass 7).
func TestSubnetTerms(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.putControl("subnets", `[{"id":"subnet-extra","zone":"`+zoneA+`","free":4000,"tags":{"team":"blue","karpenter.sh/discovery":"other"}}]`)
	a, b, c := l.subnet(zoneA), l.subnet(zoneB), l.subnet(zoneC)
	type terms = []awsv1.SubnetSelectorTerm
	for name, tc := range map[string]struct {
		terms terms
		want  []string
	}{
		"a tag":                          {terms{{Tags: awsv1.Tags{"karpenter.sh/discovery": cluster}}}, []string{a, b, c}},
		"a tag of any value":             {terms{{Tags: awsv1.Tags{"karpenter.sh/discovery": "*"}}}, []string{a, b, c, "subnet-extra"}},
		"a tag with a wildcard inside":   {terms{{Tags: awsv1.Tags{"Name": "sandbox-*-eu-west-1?"}}}, []string{a, b, c}},
		"two tags, both needed":          {terms{{Tags: awsv1.Tags{"karpenter.sh/discovery": "*", "team": "blue"}}}, []string{"subnet-extra"}},
		"ids":                            {terms{{ID: a}, {ID: b}}, []string{a, b}},
		"an id that does not exist":      {terms{{ID: a}, {ID: "subnet-gone"}}, []string{a}},
		"an id or a tag, each once":      {terms{{ID: a}, {Tags: awsv1.Tags{"karpenter.sh/discovery": cluster}}}, []string{a, b, c}},
		"the id of a term that has both": {terms{{ID: a, Tags: awsv1.Tags{"team": "blue"}}, {ID: b}}, []string{a, b}},
		"nothing":                        {terms{{Tags: awsv1.Tags{"karpenter.sh/discovery": "nobody"}}}, nil},
		"most free addresses come first": {terms{{ID: a}, {ID: "subnet-extra"}}, []string{"subnet-extra", a}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := l.newDiscoverer().Subnets(t.Context(), l.newClass(func(c *awsv1.EC2NodeClass) { c.Spec.SubnetSelectorTerms = tc.terms }))
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, s := range found {
				ids = append(ids, s.ID)
			}
			if len(ids) > 1 && slices.Contains(tc.want, "subnet-extra") && ids[0] != "subnet-extra" {
				t.Errorf("%v: the subnet with most free addresses is not first", ids)
			}
			if diff := cmp.Diff(sorted(tc.want), sorted(ids)); diff != "" {
				t.Errorf("subnets (-want +got):\n%s", diff)
			}
		})
	}
}

// Security groups select by tags, ids and group names, which may hold wildcards.
func TestSecurityGroupTerms(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.putControl("groups", `[{"id":"sg-blue","name":"blue-nodes","tags":{"team":"blue"}},{"id":"sg-red","name":"red-nodes","tags":{"team":"red"}}]`)
	type terms = []awsv1.SecurityGroupSelectorTerm
	for name, tc := range map[string]struct {
		terms terms
		want  []string
	}{
		"a tag":              {terms{{Tags: awsv1.Tags{"team": "blue"}}}, []string{"sg-blue"}},
		"any value of a tag": {terms{{Tags: awsv1.Tags{"team": "*"}}}, []string{"sg-blue", "sg-red"}},
		"names":              {terms{{Name: "blue-nodes"}, {Name: "red-nodes"}}, []string{"sg-blue", "sg-red"}},
		"a wildcard name":    {terms{{Name: "r?d-*"}}, []string{"sg-red"}},
		"an id and a name":   {terms{{ID: "sg-red"}, {Name: "blue-nodes"}}, []string{"sg-blue", "sg-red"}},
		"nothing":            {terms{{ID: "sg-gone"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := l.newDiscoverer().SecurityGroups(t.Context(), l.newClass(func(c *awsv1.EC2NodeClass) { c.Spec.SecurityGroupSelectorTerms = tc.terms }), false)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, g := range found {
				ids = append(ids, g.ID)
			}
			if diff := cmp.Diff(tc.want, ids); diff != "" {
				t.Errorf("security groups (-want +got):\n%s", diff)
			}
		})
	}
}

// Ids of one kind go into one call, each set of tags into its own (EC2NodeClass 7).
func TestTermsOfOneKindShareACall(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	a, b := l.subnet(zoneA), l.subnet(zoneB)
	class := l.newClass(func(c *awsv1.EC2NodeClass) {
		c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{ID: a}, {ID: b}, {Tags: awsv1.Tags{"x": "1"}}, {Tags: awsv1.Tags{"x": "2"}}}
	})
	d := l.newDiscoverer()
	for range 3 {
		if _, err := d.Subnets(t.Context(), class); err != nil {
			t.Fatal(err)
		}
	}
	if calls := l.countCalls(wire.EC2, "DescribeSubnets"); calls != 3 {
		t.Errorf("%d calls for two ids and two sets of tags requested three times, want 3", calls)
	}
	l.advanceClock(time.Minute)
	if _, err := d.Subnets(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	if calls := l.countCalls(wire.EC2, "DescribeSubnets"); calls != 6 {
		t.Errorf("%d calls after the responses are a minute old, want 6", calls)
	}
}

// Every alias resolves to the images of its public parameters under the version of the cluster
// (EC2NodeClass 8).
func TestAliases(t *testing.T) {
	t.Parallel()
	eks := func(k, rest string) string { return "/aws/service/eks/optimized-ami/" + k + "/" + rest + "/image_id" }
	linux := func(k, release string) []string {
		var list []string
		for _, kind := range []string{"x86_64/standard", "x86_64/nvidia", "x86_64/neuron", "arm64/standard", "arm64/nvidia"} {
			arch, variant, _ := strings.Cut(kind, "/")
			name := release
			if release != "recommended" {
				name = "amazon-eks-node-al2023-" + arch + "-" + variant + "-" + k + "-" + release
			}
			list = append(list, eks(k, "amazon-linux-2023/"+kind+"/"+name))
		}
		return list
	}
	bottlerocket := func(k, version string) []string {
		var list []string
		for _, kind := range []string{k + "/x86_64", k + "/arm64", k + "-nvidia/x86_64", k + "-nvidia/arm64"} {
			list = append(list, "/aws/service/bottlerocket/aws-k8s-"+kind+"/"+version+"/image_id")
		}
		return list
	}
	windows := func(k, year string) []string {
		return []string{"/aws/service/ami-windows-latest/Windows_Server-" + year + "-English-Core-EKS_Optimized-" + k + "/image_id"}
	}
	l := newAWSEnv(t)
	for name, tc := range map[string]struct {
		alias, kubernetes string
		want              []string // parameters
		entries           int      // of the status, where an image serves several variants
	}{
		"al2023@latest":              {"al2023@latest", "1.34", linux("1.34", "recommended"), 5},
		"al2023 without version":     {"al2023", "1.34", linux("1.34", "recommended"), 5},
		"al2023 of an older cluster": {"al2023@latest", "1.31", linux("1.31", "recommended"), 5},
		"al2023 pinned":              {"al2023@v20260101", "1.34", linux("1.34", "v20260101"), 5},
		"al2 on 1.32": {"al2@latest", "1.32", []string{
			eks("1.32", "amazon-linux-2/recommended"), eks("1.32", "amazon-linux-2-arm64/recommended"), eks("1.32", "amazon-linux-2-gpu/recommended"),
		}, 4},
		"al2 pinned": {"al2@v20260101", "1.32", []string{
			eks("1.32", "amazon-linux-2/amazon-eks-node-1.32-v20260101"), eks("1.32", "amazon-linux-2-arm64/amazon-eks-arm64-node-1.32-v20260101"),
			eks("1.32", "amazon-linux-2-gpu/amazon-eks-gpu-node-1.32-v20260101"),
		}, 4},
		"bottlerocket@latest":          {"bottlerocket@latest", "1.34", bottlerocket("1.34", "latest"), 5},
		"bottlerocket pinned with a v": {"bottlerocket@v1.52.0", "1.34", bottlerocket("1.34", "1.52.0"), 5},
		"bottlerocket pinned":          {"bottlerocket@1.52.0", "1.34", bottlerocket("1.34", "1.52.0"), 5},
		"windows2019":                  {"windows2019@latest", "1.34", windows("1.34", "2019"), 1},
		"windows2022":                  {"windows2022@latest", "1.34", windows("1.34", "2022"), 1},
		"windows2025":                  {"windows2025@latest", "1.35", windows("1.35", "2025"), 1},
		"an unpublished version":       {"al2023@v19990101", "1.34", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			class := l.newClass(func(c *awsv1.EC2NodeClass) { c.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: tc.alias}} })
			found, err := l.newDiscoverer().Images(t.Context(), class, tc.kubernetes)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]bool{}
			for _, path := range tc.want {
				want[l.imageOfParameter(path)] = true
			}
			got := map[string]bool{}
			for _, image := range found {
				got[image.ID] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
			if len(found) != tc.entries {
				t.Errorf("%d entries, want %d: %+v", len(found), tc.entries, found)
			}
		})
	}
}

// Images by id, name, tags and parameter; one per architecture is left: the newest that is not
// deprecated (EC2NodeClass 8).
func TestImageTerms(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	l.putControl("images", `[
		{"id":"ami-old","name":"golden-1","created":"2029-01-01T00:00:00Z","tags":{"team":"blue"}},
		{"id":"ami-new","name":"golden-2","created":"2029-02-01T00:00:00Z","tags":{"team":"blue"}},
		{"id":"ami-outdated","name":"golden-3","created":"2029-03-01T00:00:00Z","deprecated":"2029-04-01T00:00:00Z","tags":{"team":"blue"}},
		{"id":"ami-arm","name":"golden-arm","architecture":"arm64","tags":{"team":"blue"}},
		{"id":"ami-pending","name":"golden-4","state":"pending","tags":{"team":"blue"}},
		{"id":"ami-foreign","name":"golden-9","owner":"999999999999","tags":{"team":"red"}}]`)
	l.putControl("parameters", `{"/aws/service/mine":"ami-old","/aws/service/text":"no image"}`)
	type terms = []awsv1.AMISelectorTerm
	for name, tc := range map[string]struct {
		terms      terms
		want       []string
		deprecated bool
	}{
		"an id":                                {terms{{ID: "ami-old"}}, []string{"ami-old"}, false},
		"an id that is deprecated":             {terms{{ID: "ami-outdated"}}, []string{"ami-outdated"}, true},
		"an id that does not exist":            {terms{{ID: "ami-gone"}}, nil, false},
		"a name with a wildcard":               {terms{{Name: "golden-?"}}, []string{"ami-new"}, false},
		"a name of a foreign owner":            {terms{{Name: "golden-9"}}, nil, false},
		"a name with its owner":                {terms{{Name: "golden-9", Owner: "999999999999"}}, []string{"ami-foreign"}, false},
		"a tag, one image per architecture":    {terms{{Tags: awsv1.Tags{"team": "blue"}}}, []string{"ami-arm", "ami-new"}, false},
		"a parameter":                          {terms{{SSMParameter: "/aws/service/mine"}}, []string{"ami-old"}, false},
		"a parameter that holds no image":      {terms{{SSMParameter: "/aws/service/text"}, {ID: "ami-old"}}, []string{"ami-old"}, false},
		"a parameter that does not exist":      {terms{{SSMParameter: "/aws/service/gone"}, {ID: "ami-old"}}, []string{"ami-old"}, false},
		"a public image by the name of Amazon": {terms{{Name: "amazon-eks-node-al2023-x86_64-standard-1.34-v20260211"}}, []string{l.imageOfParameter(al2023)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := l.newDiscoverer().Images(t.Context(), l.newClass(func(c *awsv1.EC2NodeClass) { c.Spec.AMISelectorTerms = tc.terms }), "1.34")
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, image := range found {
				ids = append(ids, image.ID)
				if image.Deprecated != tc.deprecated {
					t.Errorf("%s is deprecated: %v", image.ID, image.Deprecated)
				}
			}
			if diff := cmp.Diff(tc.want, sorted(ids)); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
		})
	}
}

// The parameter of latest is kept until its image is deprecated, then requested again.
func TestALatestImageThatIsDeprecatedIsLookedUpAgain(t *testing.T) {
	t.Parallel()
	l := newAWSEnv(t)
	d, class := l.newDiscoverer(), l.newClass(func(c *awsv1.EC2NodeClass) {
		c.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "windows2022@latest"}}
	})
	const path = "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.34/image_id"
	first := l.imageOfParameter(path)
	images := func() string {
		l.advanceClock(time.Minute) // drop images, not parameters
		found, err := d.Images(t.Context(), class, "1.34")
		if err != nil || len(found) != 1 {
			t.Fatalf("images: %v %v", found, err)
		}
		return found[0].ID
	}
	if got := images(); got != first {
		t.Fatalf("image %s, want %s", got, first)
	}
	l.putControl("images", `[{"id":"ami-next","platform":"windows"}]`)
	l.putControl("parameters", `{"`+path+`":"ami-next"}`)
	if got := images(); got != first {
		t.Errorf("image %s while the first is good, want %s", got, first)
	}
	l.putControl("images", `[{"id":"`+first+`","deprecated":"2029-01-01T00:00:00Z"}]`)
	if err := d.InvalidateParameters(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := images(); got != "ami-next" {
		t.Errorf("image %s once the first is deprecated, want the next", got)
	}
}

// E13, E15: a response without anything is empty; no response is an error. They are never mixed up.
func TestFM_E13_E15_NothingFoundIsNotAnError(t *testing.T) {
	t.Parallel()
	lookups := map[string]func(*testing.T, *discover.Discoverer, *awsv1.EC2NodeClass) (int, error){
		"ec2:DescribeSubnets": func(t *testing.T, d *discover.Discoverer, c *awsv1.EC2NodeClass) (int, error) {
			t.Helper()
			found, err := d.Subnets(t.Context(), c)
			return len(found), err
		},
		"ec2:DescribeSecurityGroups": func(t *testing.T, d *discover.Discoverer, c *awsv1.EC2NodeClass) (int, error) {
			t.Helper()
			found, err := d.SecurityGroups(t.Context(), c, false)
			return len(found), err
		},
		"ec2:DescribeImages": func(t *testing.T, d *discover.Discoverer, c *awsv1.EC2NodeClass) (int, error) {
			t.Helper()
			found, err := d.Images(t.Context(), c, "1.34")
			return len(found), err
		},
		"ssm:GetParameter": func(t *testing.T, d *discover.Discoverer, c *awsv1.EC2NodeClass) (int, error) {
			t.Helper()
			found, err := d.Images(t.Context(), c, "1.34")
			return len(found), err
		},
	}
	faults := map[string]func(*awsEnv, string){
		"denied":    func(l *awsEnv, action string) { l.denyAction(action) },
		"throttled": func(l *awsEnv, action string) { l.throttleActions(action) },
		"broken": func(l *awsEnv, action string) {
			l.injectFault(awsemu.Fault{Action: action, Code: "InternalError", Status: 500})
		},
		"cut off": func(l *awsEnv, action string) { l.injectFault(awsemu.Fault{Action: action, Drop: awsemu.DropBefore}) },
	}
	for action, look := range lookups {
		for name, spoil := range faults {
			t.Run(action+" "+name, func(t *testing.T) {
				t.Parallel()
				l := newAWSEnv(t)
				d, class := l.newDiscoverer(), l.newClass()
				spoil(l, action)
				if found, err := look(t, d, class); err == nil {
					t.Errorf("found %d things and no error", found)
				}
				l.remove("faults")
				l.remove("throttle")
				l.remove("permissions")
				if found, err := look(t, d, class); err != nil || found == 0 {
					t.Errorf("after the fault: %d things, %v", found, err)
				}
			})
		}
	}
	t.Run("empty", func(t *testing.T) {
		t.Parallel()
		l := newAWSEnv(t)
		unused := awsv1.Tags{"karpenter.sh/discovery": "nobody"}
		class := l.newClass(func(c *awsv1.EC2NodeClass) {
			c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{Tags: unused}}
			c.Spec.SecurityGroupSelectorTerms = []awsv1.SecurityGroupSelectorTerm{{Tags: unused}}
			c.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Tags: unused}}
		})
		for action, look := range lookups {
			if found, err := look(t, l.newDiscoverer(), class); err != nil || found != 0 {
				t.Errorf("%s: %d things, %v", action, found, err)
			}
		}
	})
}
