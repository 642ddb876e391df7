package awsemu

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

func TestAliasParametersAreSeeded(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client := ssm.NewFromConfig(c.cfg)
	for _, version := range []string{"1.31", "1.34", "1.36"} {
		for _, image := range aliasPaths(version) {
			out, err := client.GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String(image.Path), WithDecryption: aws.Bool(true)})
			check(t, err)
			p := out.Parameter
			if *p.Name != image.Path || *p.Value != image.imageID() || p.Version != 1 || p.Type != "String" || p.LastModifiedDate.IsZero() || *p.DataType != "text" || *p.ARN != "arn:aws:ssm:eu-west-1::parameter"+image.Path {
				t.Errorf("parameter %+v", *p)
			}
		}
	}
	_, err := client.GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String("/aws/service/eks/optimized-ami/1.20/amazon-linux-2023/x86_64/standard/recommended/image_id")})
	wantCode(t, err, "ParameterNotFound", 400)
	_, err = client.GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String("")})
	wantCode(t, err, "ValidationException", 400)
}

func TestParametersOfTheAccount(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx := ssm.NewFromConfig(c.cfg), t.Context()
	c.set(t, http.MethodPut, "parameters", `{"/my/image":"ami-1","plain":"ami-2"}`)
	c.set(t, http.MethodPut, "parameters", `{"/my/image":"ami-3"}`)
	for name, tc := range map[string]struct {
		requested, name, value, code string
		version                      int64
	}{
		"by name":                       {requested: "/my/image", name: "/my/image", value: "ami-3", version: 2},
		"by ARN":                        {requested: "arn:aws:ssm:eu-west-1:111122223333:parameter/my/image", name: "/my/image", value: "ami-3", version: 2},
		"by version":                    {requested: "/my/image:2", name: "/my/image", value: "ami-3", version: 2},
		"by ARN and version":            {requested: "arn:aws:ssm:eu-west-1:111122223333:parameter/my/image:2", name: "/my/image", value: "ami-3", version: 2},
		"outside a hierarchy":           {requested: "plain", name: "plain", value: "ami-2", version: 1},
		"outside a hierarchy by ARN":    {requested: "arn:aws:ssm:eu-west-1:111122223333:parameter/plain", name: "plain", value: "ami-2", version: 1},
		"another version":               {requested: "/my/image:1", code: "ParameterVersionNotFound"},
		"a name that does not exist":    {requested: "/my/other", code: "ParameterNotFound"},
		"an ARN that does not exist":    {requested: "arn:aws:ssm:eu-west-1:111122223333:parameter/my/other", code: "ParameterNotFound"},
		"a name that is almost an ARN":  {requested: "arn:", code: "ParameterNotFound"},
		"a name without its first part": {requested: "/image", code: "ParameterNotFound"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := client.GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String(tc.requested)})
			if tc.code != "" {
				wantCode(t, err, tc.code, 400)
				return
			}
			check(t, err)
			if *out.Parameter.Name != tc.name || *out.Parameter.Value != tc.value || out.Parameter.Version != tc.version {
				t.Errorf("parameter %+v", *out.Parameter)
			}
		})
	}
}

func TestManyParameters(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx := ssm.NewFromConfig(c.cfg), t.Context()
	c.set(t, http.MethodPut, "parameters", `{"/my/a":"1","/my/b":"2","/my/c/d":"3","/mine":"4"}`)
	out, err := client.GetParameters(ctx, &ssm.GetParametersInput{Names: []string{"/my/a", "/none"}})
	check(t, err)
	if len(out.Parameters) != 1 || len(out.InvalidParameters) != 1 || out.InvalidParameters[0] != "/none" {
		t.Errorf("parameters %+v", out)
	}
	_, err = client.GetParameters(ctx, &ssm.GetParametersInput{Names: []string{}})
	wantCode(t, err, "ValidationException", 400)
	flat, err := client.GetParametersByPath(ctx, &ssm.GetParametersByPathInput{Path: aws.String("/my")})
	check(t, err)
	if len(flat.Parameters) != 2 || flat.NextToken != nil {
		t.Errorf("below the path: %+v", flat.Parameters)
	}
	values := ""
	pager := ssm.NewGetParametersByPathPaginator(client, &ssm.GetParametersByPathInput{Path: aws.String("/my/"), Recursive: aws.Bool(true), MaxResults: aws.Int32(2)})
	for pager.HasMorePages() {
		page, err := pager.NextPage(ctx)
		check(t, err)
		for _, p := range page.Parameters {
			values += *p.Value
		}
	}
	if values != "123" {
		t.Errorf("values %q", values)
	}
	_, err = client.GetParametersByPath(ctx, &ssm.GetParametersByPathInput{Path: aws.String("my")})
	wantCode(t, err, "ValidationException", 400)
	c.set(t, http.MethodPut, "parameters", `{"/my/a":null}`)
	_, err = client.GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("/my/a")})
	wantCode(t, err, "ParameterNotFound", 400)
	var all map[string]Parameter
	c.callControlAPI(t, http.MethodGet, "parameters", "", &all)
	if all["/my/b"].Value != "2" {
		t.Errorf("parameters %v", all)
	}
}

// What the installation guides do: look the recommended release up by its image, and pin that.
func TestTrust_D03_ReleasesCanBePinned(t *testing.T) {
	t.Parallel()
	env := newEC2Env(t)
	client := ssm.NewFromConfig(env.sdk)
	get := func(name string) string {
		t.Helper()
		out, err := client.GetParameter(t.Context(), &ssm.GetParameterInput{Name: &name})
		if err != nil {
			t.Fatal(err)
		}
		return *out.Parameter.Value
	}
	for folder, older := range map[string]string{
		"/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard": "v20260128",
		"/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/arm64/nvidia":    "v20260101",
		"/aws/service/eks/optimized-ami/1.32/amazon-linux-2":                    "v20260115",
	} {
		recommended := get(folder + "/recommended/image_id")
		out, err := env.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{recommended}})
		if err != nil {
			t.Fatal(err)
		}
		name := *out.Images[0].Name
		if pinned := get(folder + "/" + name + "/image_id"); pinned != recommended || get(folder+"/recommended/image_name") != name {
			t.Errorf("%s is %s, recommended is %s", name, pinned, recommended)
		}
		previous := name[:strings.LastIndex(name, "-v")+1] + older
		if _, err := env.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{get(folder + "/" + previous + "/image_id")}}); err != nil {
			t.Errorf("%s: %v", previous, err)
		}
	}
	if version := get("/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/release_version"); version != "1.34.0-20260211" {
		t.Errorf("release %s", version)
	}
}
