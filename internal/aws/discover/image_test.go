package discover_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

func image(id, name string, architecture ec2types.ArchitectureValues, created, deprecated string) ec2types.Image {
	out := ec2types.Image{ImageId: &id, Name: &name, Architecture: architecture, CreationDate: &created}
	if deprecated != "" {
		out.DeprecationTime = &deprecated
	}
	return out
}

const (
	x86 = ec2types.ArchitectureValuesX8664
	arm = ec2types.ArchitectureValuesArm64
)

func aliased(alias string) *awsv1.EC2NodeClass {
	return class(awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: alias}}})
}

// EC2NodeClass 8, S-074: the parameters of every family and version.
func TestAliasParameters(t *testing.T) {
	t.Parallel()
	const eks = "/aws/service/eks/optimized-ami/1.34/"
	for alias, want := range map[string][]string{
		"al2@latest": {
			eks + "amazon-linux-2/recommended/image_id", eks + "amazon-linux-2-arm64/recommended/image_id", eks + "amazon-linux-2-gpu/recommended/image_id",
		},
		"al2@v20240807": {
			eks + "amazon-linux-2/amazon-eks-node-1.34-v20240807/image_id", eks + "amazon-linux-2-arm64/amazon-eks-arm64-node-1.34-v20240807/image_id",
			eks + "amazon-linux-2-gpu/amazon-eks-gpu-node-1.34-v20240807/image_id",
		},
		"al2023@latest": {
			eks + "amazon-linux-2023/x86_64/standard/recommended/image_id", eks + "amazon-linux-2023/x86_64/nvidia/recommended/image_id",
			eks + "amazon-linux-2023/x86_64/neuron/recommended/image_id", eks + "amazon-linux-2023/arm64/standard/recommended/image_id",
			eks + "amazon-linux-2023/arm64/nvidia/recommended/image_id",
		},
		"al2023@v20250116": {
			eks + "amazon-linux-2023/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.34-v20250116/image_id",
			eks + "amazon-linux-2023/x86_64/nvidia/amazon-eks-node-al2023-x86_64-nvidia-1.34-v20250116/image_id",
			eks + "amazon-linux-2023/x86_64/neuron/amazon-eks-node-al2023-x86_64-neuron-1.34-v20250116/image_id",
			eks + "amazon-linux-2023/arm64/standard/amazon-eks-node-al2023-arm64-standard-1.34-v20250116/image_id",
			eks + "amazon-linux-2023/arm64/nvidia/amazon-eks-node-al2023-arm64-nvidia-1.34-v20250116/image_id",
		},
		"bottlerocket@latest": {
			"/aws/service/bottlerocket/aws-k8s-1.34/x86_64/latest/image_id", "/aws/service/bottlerocket/aws-k8s-1.34/arm64/latest/image_id",
			"/aws/service/bottlerocket/aws-k8s-1.34-nvidia/x86_64/latest/image_id", "/aws/service/bottlerocket/aws-k8s-1.34-nvidia/arm64/latest/image_id",
		},
		"bottlerocket@v1.20.4": {
			"/aws/service/bottlerocket/aws-k8s-1.34/x86_64/1.20.4/image_id", "/aws/service/bottlerocket/aws-k8s-1.34/arm64/1.20.4/image_id",
			"/aws/service/bottlerocket/aws-k8s-1.34-nvidia/x86_64/1.20.4/image_id", "/aws/service/bottlerocket/aws-k8s-1.34-nvidia/arm64/1.20.4/image_id",
		},
		"windows2022@latest": {"/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.34/image_id"},
	} {
		t.Run(alias, func(t *testing.T) {
			t.Parallel()
			f := &fake{}
			got, err := discoverer(f, newClock()).Images(quiet(t), aliased(alias), "1.34")
			if err != nil || len(got) > 0 || len(f.requests) > 0 {
				t.Fatalf("got %v, %v; without any parameter no image is requested, but %v were", got, err, f.requests)
			}
			if diff := cmp.Diff(want, f.readSSM); diff != "" {
				t.Errorf("parameters (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAliasVariants(t *testing.T) {
	t.Parallel()
	const eks = "/aws/service/eks/optimized-ami/1.32/"
	gpu := func(op corev1.NodeSelectorOperator) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: "karpenter.k8s.aws/instance-gpu-count", Operator: op}
	}
	accelerator := func(op corev1.NodeSelectorOperator) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: "karpenter.k8s.aws/instance-accelerator-count", Operator: op}
	}
	in := func(key, value string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: "In", Values: []string{value}}
	}
	for name, tc := range map[string]struct {
		alias      string
		parameters map[string]string
		images     []ec2types.Image
		want       []awsv1.AMI
	}{
		"standard, and one image for two variants": {
			alias:      "al2@latest",
			parameters: map[string]string{eks + "amazon-linux-2/recommended/image_id": "ami-std", eks + "amazon-linux-2-gpu/recommended/image_id": "ami-gpu"},
			images:     []ec2types.Image{image("ami-std", "std", x86, "2025-01-02T00:00:00.000Z", ""), image("ami-gpu", "gpu", x86, "2025-01-01T00:00:00.000Z", "2025-06-01T00:00:00.000Z")},
			want: []awsv1.AMI{
				{ID: "ami-std", Name: "std", Requirements: []corev1.NodeSelectorRequirement{in("kubernetes.io/arch", "amd64"), gpu("DoesNotExist"), accelerator("DoesNotExist")}},
				{ID: "ami-gpu", Name: "gpu", Deprecated: true, Requirements: []corev1.NodeSelectorRequirement{in("kubernetes.io/arch", "amd64"), accelerator("Exists")}},
				{ID: "ami-gpu", Name: "gpu", Deprecated: true, Requirements: []corev1.NodeSelectorRequirement{in("kubernetes.io/arch", "amd64"), gpu("Exists")}},
			},
		},
		"windows": {
			alias:      "windows2019@latest",
			parameters: map[string]string{"/aws/service/ami-windows-latest/Windows_Server-2019-English-Core-EKS_Optimized-1.32/image_id": "ami-w"},
			images:     []ec2types.Image{image("ami-w", "w", x86, "2025-01-02T00:00:00.000Z", "")},
			want: []awsv1.AMI{{ID: "ami-w", Name: "w", Requirements: []corev1.NodeSelectorRequirement{
				in("kubernetes.io/os", "windows"), in("kubernetes.io/arch", "amd64"), in("node.kubernetes.io/windows-build", "10.0.17763"),
			}}},
		},
		"E14 a parameter whose image is gone": {
			alias:      "windows2022@latest",
			parameters: map[string]string{"/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.32/image_id": "ami-w"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{parameters: tc.parameters, images: func(*ec2.DescribeImagesInput) *ec2.DescribeImagesOutput {
				return &ec2.DescribeImagesOutput{Images: tc.images}
			}}
			got, err := discoverer(f, newClock()).Images(quiet(t), aliased(tc.alias), "1.32")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
		})
	}
}

// EC2NodeClass 8: of images for the same instance types one is left.
func TestOneImagePerArchitecture(t *testing.T) {
	t.Parallel()
	const old, young, past = "2025-01-01T00:00:00.000Z", "2025-02-01T00:00:00.000Z", "2025-03-01T00:00:00.000Z"
	for name, tc := range map[string]struct {
		images []ec2types.Image
		want   []string
	}{
		"the newer one":                      {images: []ec2types.Image{image("ami-1", "a", x86, old, ""), image("ami-2", "a", x86, young, "")}, want: []string{"ami-2"}},
		"not the deprecated one":             {images: []ec2types.Image{image("ami-1", "a", x86, old, ""), image("ami-2", "a", x86, young, past)}, want: []string{"ami-1"}},
		"a deprecated one if there is none":  {images: []ec2types.Image{image("ami-1", "a", x86, old, past)}, want: []string{"ami-1"}},
		"deprecation that is still to come":  {images: []ec2types.Image{image("ami-1", "a", x86, old, ""), image("ami-2", "a", x86, young, "2030-01-01T00:00:00.000Z")}, want: []string{"ami-2"}},
		"the greater name":                   {images: []ec2types.Image{image("ami-2", "a", x86, old, ""), image("ami-1", "b", x86, old, "")}, want: []string{"ami-1"}},
		"one for each architecture, by date": {images: []ec2types.Image{image("ami-1", "a", x86, old, ""), image("ami-2", "a", arm, young, "")}, want: []string{"ami-2", "ami-1"}},
		"then by id":                         {images: []ec2types.Image{image("ami-2", "a", x86, old, ""), image("ami-1", "a", arm, old, "")}, want: []string{"ami-1", "ami-2"}},
		"no other architectures":             {images: []ec2types.Image{image("ami-1", "a", ec2types.ArchitectureValuesI386, old, "")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{images: func(*ec2.DescribeImagesInput) *ec2.DescribeImagesOutput {
				return &ec2.DescribeImagesOutput{Images: tc.images}
			}}
			got, err := discoverer(f, newClock()).Images(quiet(t), class(awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{ID: "ami-1"}}}), "1.34")
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, a := range got {
				ids = append(ids, a.ID)
			}
			if diff := cmp.Diff(tc.want, ids); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImageQueries(t *testing.T) {
	t.Parallel()
	type call struct {
		Filters string
		Owners  []string
	}
	for name, tc := range map[string]struct {
		terms []awsv1.AMISelectorTerm
		want  []call
	}{
		"ids and parameters are one call": {
			terms: []awsv1.AMISelectorTerm{{ID: "ami-1"}, {SSMParameter: "/mine"}, {ID: "ami-2"}},
			want:  []call{{Filters: "image-id=ami-1,ami-mine,ami-2 state=available"}},
		},
		"names are looked for among our own and Amazon's": {terms: []awsv1.AMISelectorTerm{{Name: "my-*"}}, want: []call{{Filters: "name=my-* state=available", Owners: []string{"self", "amazon"}}}},
		"names of an owner": {terms: []awsv1.AMISelectorTerm{{Name: "x", Owner: "111122223333", Tags: awsv1.Tags{"a": "1"}}}, want: []call{{Filters: "tag:a=1 name=x state=available", Owners: []string{"111122223333"}}}},
		"tags of anybody":   {terms: []awsv1.AMISelectorTerm{{Tags: awsv1.Tags{"a": "*"}}, {Tags: awsv1.Tags{"b": "2"}, Owner: "self"}}, want: []call{{Filters: "tag-key=a state=available"}, {Filters: "tag:b=2 state=available", Owners: []string{"self"}}}},
		"a parameter that does not exist is left out": {terms: []awsv1.AMISelectorTerm{{SSMParameter: "/none"}}},
		"a parameter that holds no image is left out": {terms: []awsv1.AMISelectorTerm{{SSMParameter: "/text"}}},
		"an owner alone selects nothing":              {terms: []awsv1.AMISelectorTerm{{Owner: "self"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []call
			f := &fake{parameters: map[string]string{"/mine": "ami-mine", "/text": "hello"}, images: func(in *ec2.DescribeImagesInput) *ec2.DescribeImagesOutput {
				got = append(got, call{Filters: text(in.Filters), Owners: in.Owners})
				if !*in.IncludeDeprecated || *in.MaxResults != 1000 {
					t.Errorf("deprecated %v, page of %d", *in.IncludeDeprecated, *in.MaxResults)
				}
				return &ec2.DescribeImagesOutput{}
			}}
			if _, err := discoverer(f, newClock()).Images(quiet(t), class(awsv1.EC2NodeClassSpec{AMISelectorTerms: tc.terms}), "1.34"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// AWS provider 10: parameters of aliases are kept for a day, those of users five minutes; a new
// Kubernetes version requests new ones at once.
func TestParametersAreKept(t *testing.T) {
	t.Parallel()
	const windows = "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.34/image_id"
	f := &fake{parameters: map[string]string{"/mine": "ami-1", windows: "ami-2"}, images: func(*ec2.DescribeImagesInput) *ec2.DescribeImagesOutput {
		return &ec2.DescribeImagesOutput{}
	}}
	c := newClock()
	d := discoverer(f, c)
	mine := class(awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{SSMParameter: "/mine"}}})
	theirs := aliased("windows2022@latest")
	theirs.UID = "u2"
	query := func(nodes *awsv1.EC2NodeClass, version string, want int) {
		t.Helper()
		if _, err := d.Images(quiet(t), nodes, version); err != nil {
			t.Fatal(err)
		}
		if len(f.readSSM) != want {
			t.Fatalf("%d reads, want %d: %v", len(f.readSSM), want, f.readSSM)
		}
	}
	query(mine, "1.34", 1)
	query(theirs, "1.34", 2)
	c.pass(4 * time.Minute)
	query(mine, "1.34", 2)
	c.pass(2 * time.Minute)
	query(mine, "1.34", 3)
	c.pass(23 * time.Hour)
	query(theirs, "1.34", 3)
	query(theirs, "1.35", 4)
	c.pass(2 * time.Hour)
	query(theirs, "1.34", 5)
}

// E13: an error of SSM or EC2 is never an empty or a partial response.
func TestFM_E13_ErrorsReturnNoImages(t *testing.T) {
	t.Parallel()
	f := &fake{ssmError: errThrottled}
	if got, err := discoverer(f, newClock()).Images(quiet(t), aliased("al2023@latest"), "1.34"); !errors.Is(err, errThrottled) || got != nil {
		t.Errorf("SSM: got %v, %v", got, err)
	}
	f = &fake{err: errThrottled, parameters: map[string]string{"/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.34/image_id": "ami-1"}}
	if got, err := discoverer(f, newClock()).Images(quiet(t), aliased("windows2022@latest"), "1.34"); !errors.Is(err, errThrottled) || got != nil {
		t.Errorf("EC2: got %v, %v", got, err)
	}
}

func TestInvalidateParameters(t *testing.T) {
	t.Parallel()
	const path = "/aws/service/bottlerocket/aws-k8s-1.34/x86_64/"
	for name, tc := range map[string]struct {
		alias  string
		images []ec2types.Image
		want   bool // the parameter is read again
	}{
		"the image is fine":                 {alias: "bottlerocket@latest", images: []ec2types.Image{image("ami-1", "a", x86, "", "2030-01-01T00:00:00.000Z")}},
		"the image is deprecated":           {alias: "bottlerocket@latest", images: []ec2types.Image{image("ami-1", "a", x86, "", "2025-12-31T00:00:00.000Z")}, want: true},
		"the image is gone":                 {alias: "bottlerocket@latest", want: true},
		"a pinned version stays what it is": {alias: "bottlerocket@1.20.0", images: []ec2types.Image{image("ami-1", "a", x86, "", "2025-12-31T00:00:00.000Z")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, version, _ := strings.Cut(tc.alias, "@")
			f := &fake{parameters: map[string]string{path + version + "/image_id": "ami-1"}, images: func(*ec2.DescribeImagesInput) *ec2.DescribeImagesOutput {
				return &ec2.DescribeImagesOutput{Images: tc.images}
			}}
			c := newClock()
			d := discoverer(f, c)
			if _, err := d.Images(quiet(t), aliased(tc.alias), "1.34"); err != nil {
				t.Fatal(err)
			}
			if err := d.InvalidateParameters(quiet(t)); err != nil {
				t.Fatal(err)
			}
			f.readSSM = nil
			c.pass(time.Minute)
			if _, err := d.Images(quiet(t), aliased(tc.alias), "1.34"); err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(f.readSSM, path+version+"/image_id"); got != tc.want {
				t.Errorf("read again: %v, want %v", got, tc.want)
			}
		})
	}
}

// The log of dropped parameters is the same whatever order a cache is in.
func TestForgottenParametersAreInOrder(t *testing.T) {
	t.Parallel()
	class := &awsv1.EC2NodeClass{}
	parameters := map[string]string{"/e": "ami-2"}
	for _, name := range []string{"/d", "/b", "/c", "/a", "/e"} {
		class.Spec.AMISelectorTerms = append(class.Spec.AMISelectorTerms, awsv1.AMISelectorTerm{SSMParameter: name})
		if parameters[name] == "" {
			parameters[name] = "ami-1"
		}
	}
	for range 20 {
		d := discoverer(&fake{parameters: parameters, images: func(*ec2.DescribeImagesInput) *ec2.DescribeImagesOutput { return &ec2.DescribeImagesOutput{} }}, newClock())
		if _, err := d.Images(quiet(t), class, "1.34"); err != nil {
			t.Fatal(err)
		}
		var lines []string
		logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 1})
		if err := d.InvalidateParameters(log.IntoContext(t.Context(), logger)); err != nil {
			t.Fatal(err)
		}
		want := []string{
			`"level"=1 "msg"="dropped cached SSM parameters of a deprecated image" "image"="ami-1" "parameters"=["/a" "/b" "/c" "/d"]`,
			`"level"=1 "msg"="dropped cached SSM parameters of a deprecated image" "image"="ami-2" "parameters"=["/e"]`,
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Fatalf("log (-want +got):\n%s", diff)
		}
	}
}

func TestUnsupportedAlias(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		alias, version, want string
	}{
		"L-17 AL2 up to 1.32":          {"al2@v1", "1.32", ""},
		"AL2 from 1.33 on":             {"al2@v1", "1.33", "no AL2 image for Kubernetes 1.33"},
		"Windows 2025 before 1.35":     {"windows2025@latest", "1.34", "windows2022@latest"},
		"Windows 2025 from 1.35 on":    {"windows2025@latest", "1.35", ""},
		"others at any time":           {"al2023@latest", "1.40", ""},
		"the version is not known yet": {"al2@v1", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := discover.UnsupportedAlias(aliased(tc.alias), tc.version)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// EC2NodeClass 8: the first image whose requirements the instance type meets.
func TestImageOfAnInstanceType(t *testing.T) {
	t.Parallel()
	in := func(values ...string) reqs.Req { return reqs.Req{Values: values} }
	labels := func(arch, os string, gpus reqs.Req) reqs.Set {
		return reqs.Set{
			corev1.LabelArchStable: in(arch), corev1.LabelOSStable: in(os), awsv1.LabelInstanceGPUCount: gpus, awsv1.LabelInstanceAcceleratorCount: {},
		}
	}
	need := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
	}
	amis := []awsv1.AMI{
		{ID: "ami-windows", Requirements: []corev1.NodeSelectorRequirement{need(corev1.LabelOSStable, "In", "windows"), need(corev1.LabelWindowsBuild, "In", "10.0.20348")}},
		{ID: "ami-gpu", Requirements: []corev1.NodeSelectorRequirement{need(corev1.LabelArchStable, "In", "amd64"), need(awsv1.LabelInstanceGPUCount, "Exists")}},
		{ID: "ami-new", Requirements: []corev1.NodeSelectorRequirement{need(corev1.LabelArchStable, "In", "amd64"), need(awsv1.LabelInstanceGPUCount, "DoesNotExist")}},
		{ID: "ami-old", Requirements: []corev1.NodeSelectorRequirement{need(corev1.LabelArchStable, "In", "amd64")}},
	}
	for name, tc := range map[string]struct {
		labels reqs.Set
		want   string
	}{
		"the first that fits":             {labels("amd64", "linux", reqs.Req{}), "ami-new"},
		"a GPU needs its image":           {labels("amd64", "linux", in("4")), "ami-gpu"},
		"Windows":                         {labels("amd64", "windows", reqs.Req{}), "ami-windows"},
		"nothing for this architecture":   {labels("arm64", "linux", reqs.Req{}), ""},
		"a type that says nothing at all": {reqs.Set{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, found := discover.Image(&awsv1.EC2NodeClass{Status: awsv1.EC2NodeClassStatus{AMIs: amis}}, &catalog.InstanceType{Labels: tc.labels})
			if got.ID != tc.want || found != (tc.want != "") {
				t.Errorf("got %q, want %q", got.ID, tc.want)
			}
		})
	}
}
