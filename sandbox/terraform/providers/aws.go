package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// cloud is what calls to AWS are made with.
type cloud struct {
	region string
	ec2    *ec2.Client
	eks    *eks.Client
	events *eventbridge.Client
	iam    *iam.Client
	sqs    *sqs.Client
	ssm    *ssm.Client
	sts    *sts.Client
}

type awsProvider struct{}

func newAWS() provider.Provider { return awsProvider{} }

func (awsProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "aws"
}

func (awsProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		Attributes: map[string]schema.Attribute{
			"region":  schema.StringAttribute{Optional: true},
			"profile": schema.StringAttribute{Optional: true},
		},
		Blocks: map[string]schema.Block{
			"default_tags": schema.ListNestedBlock{NestedObject: schema.NestedBlockObject{Attributes: map[string]schema.Attribute{
				"tags": schema.MapAttribute{Optional: true, ElementType: types.StringType},
			}}},
		},
	}
}

func (awsProvider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	o, err := read(req.Config.Raw)
	if err != nil {
		resp.Diagnostics.AddError("Configuration of the provider", err.Error())
		return
	}
	var options []func(*config.LoadOptions) error
	if region := o.stringValue("region"); region != "" {
		options = append(options, config.WithRegion(region))
	}
	if profile := o.stringValue("profile"); profile != "" {
		options = append(options, config.WithSharedConfigProfile(profile))
	}
	c, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		resp.Diagnostics.AddError("Configuration of AWS", err.Error())
		return
	}
	if c.Region == "" {
		resp.Diagnostics.AddError("Configuration of AWS", "no region is set: set region in the provider block, or AWS_REGION")
		return
	}
	client := &cloud{
		region: c.Region, ec2: ec2.NewFromConfig(c), eks: eks.NewFromConfig(c), events: eventbridge.NewFromConfig(c), iam: iam.NewFromConfig(c),
		sqs: sqs.NewFromConfig(c), ssm: ssm.NewFromConfig(c), sts: sts.NewFromConfig(c),
	}
	given := configured[*cloud]{client: client, tags: o.singleBlock("default_tags").textMap("tags")}
	resp.ResourceData, resp.DataSourceData = given, given
}

func (awsProvider) Resources(context.Context) []func() resource.Resource {
	var out []func() resource.Resource
	for _, k := range slices.Concat(iamKinds(), eksKinds(), queueKinds(), eventKinds(), ec2Kinds()) {
		out = append(out, func() resource.Resource { return &managed[*cloud]{kind: k} })
	}
	return out
}

func (awsProvider) DataSources(context.Context) []func() datasource.DataSource {
	var out []func() datasource.DataSource
	for _, l := range allLookups() {
		out = append(out, func() datasource.DataSource { return &source[*cloud]{lookup: l} })
	}
	return out
}

// toErrGone turns the error codes for what does not exist into errGone.
func toErrGone(err error) error {
	if hasCode(err, "NoSuchEntity", "ResourceNotFoundException", "NotFoundException", "AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist",
		"InvalidGroup.NotFound", "InvalidLaunchTemplateId.NotFound", "InvalidSecurityGroupRuleId.NotFound", "ParameterNotFound") {
		return errors.Join(errGone, err)
	}
	return err
}

func hasCode(err error, codes ...string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && slices.Contains(codes, api.ErrorCode())
}

// errorOf leaves out what a call returns beside the error.
func errorOf[T any](_ T, err error) error { return toErrGone(err) }

// tagList makes the tags that a service has a type of its own for.
func tagList[T any](tags map[string]string, one func(key, value *string) T) []T {
	var out []T
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, one(aws.String(key), aws.String(tags[key])))
	}
	return out
}

// userTags reads them, without those of AWS.
func userTags[T any](tags []T, one func(T) (key, value *string)) map[string]string {
	out := map[string]string{}
	for _, t := range tags {
		if key, value := one(t); !strings.HasPrefix(aws.ToString(key), "aws:") {
			out[aws.ToString(key)] = aws.ToString(value)
		}
	}
	return out
}

// anyChanged says whether any of the arguments differs.
func anyChanged(was, o object, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return !equal(was[name], o[name]) })
}
