package aws

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
	"github.com/dovetail-sh/dovetail/internal/aws/price"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

const (
	callTimeout     = 4 * time.Minute  // of one HTTP exchange; a long poll of the queue takes 20 s of it
	reachTimeout    = 30 * time.Second // of the first call: who starts the controller waits for it
	metadataTimeout = 5 * time.Second  // of the instance metadata service, which is absent in many places
)

// clients are one client per service.
type clients struct {
	region  string
	ec2     *ec2.Client
	eks     *eks.Client
	iam     *iam.Client
	pricing *pricing.Client
	sqs     *sqs.Client
	ssm     *ssm.Client
	shifts  *arczonalshift.Client
}

// newClients reads the configuration of the SDK from where it always is: environment, files, metadata
// of the container or the instance. Credentials are refreshed by the SDK (C20).
func newClients(ctx context.Context, version string, m *metric.Set, more ...func(*awsconfig.LoadOptions) error) (*clients, error) {
	logger := log.FromContext(ctx)
	cfg, err := awsconfig.LoadDefaultConfig(ctx, append(more,
		awsconfig.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(callTimeout)),
		// By itself the SDK would write to stderr, in a form of its own.
		awsconfig.WithLogger(logging.LoggerFunc(func(class logging.Classification, format string, v ...any) {
			logger.V(1).Info("AWS SDK: "+fmt.Sprintf(format, v...), "classification", class)
		})),
		awsconfig.WithAPIOptions([]func(*middleware.Stack) error{
			awsmiddleware.AddUserAgentKey("karpenter.sh-" + version),
			func(stack *middleware.Stack) error { return addMetering(stack, m) },
		}),
	)...)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of the AWS SDK: %w", err)
	}
	cfg.HTTPClient = bufferedBodyClient{cfg.HTTPClient} // after the SDK gave it the certificates of AWS_CA_BUNDLE
	if cfg.Region == "" {
		if cfg.Region, err = regionOfInstance(ctx, cfg); err != nil {
			return nil, fmt.Errorf("the AWS region is not known: set AWS_REGION, or let the pod reach the instance metadata service (hop limit 2): %w", err)
		}
	}
	return &clients{
		region:  cfg.Region,
		ec2:     ec2.NewFromConfig(cfg),
		eks:     eks.NewFromConfig(cfg),
		iam:     iam.NewFromConfig(cfg),
		pricing: pricing.NewFromConfig(cfg, func(o *pricing.Options) { o.Region = price.EndpointRegion(cfg.Region) }),
		sqs:     sqs.NewFromConfig(cfg),
		ssm:     ssm.NewFromConfig(cfg),
		shifts:  arczonalshift.NewFromConfig(cfg),
	}, nil
}

func regionOfInstance(ctx context.Context, cfg aws.Config) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	out, err := imds.NewFromConfig(cfg).GetRegion(ctx, &imds.GetRegionInput{})
	if err != nil {
		return "", err
	}
	return out.Region, nil
}

// dryRunner is what the check of the connection calls.
type dryRunner interface {
	DescribeInstanceTypes(context.Context, *ec2.DescribeInstanceTypesInput, ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error)
}

// checkReachable checks that EC2 responds and that the controller may use it, before anything depends on it.
func checkReachable(ctx context.Context, api dryRunner, region, cluster string) error {
	limited, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	_, err := api.DescribeInstanceTypes(limited, &ec2.DescribeInstanceTypesInput{DryRun: new(true)})
	unknown, noName := errors.AsType[*net.DNSError](err)
	switch code := awserr.Code(err); {
	case awserr.DryRunPassed(err):
		return nil
	case noName:
		return fmt.Errorf("the name %s cannot be resolved; check the DNS of the pod, and if the DNS of the cluster runs on nodes that this controller makes, set dnsPolicy=Default in the values of the chart: %w", unknown.Name, err)
	case err == nil:
		return fmt.Errorf("EC2 in %s carried out a dry run as a real request; check AWS_ENDPOINT_URL", region)
	case withoutCredentials(err):
		return nameMissing(err, cluster, os.Getenv)
	case slices.Contains([]string{"AuthFailure", "InvalidClientTokenId", "SignatureDoesNotMatch", "UnrecognizedClientException", "ExpiredToken", "ExpiredTokenException", "RequestExpired"}, code):
		return fmt.Errorf("EC2 in %s does not accept the credentials of the controller; check the role annotation or pod identity association of its service account, AWS_ACCESS_KEY_ID, and the clock: %w", region, err)
	case awserr.Unauthorized(err):
		return fmt.Errorf("EC2 in %s can be reached, but the role of the controller may not use it; compare its policies with the installation guide (docs/reference/iam.md): %w", region, err)
	default:
		return fmt.Errorf("EC2 in %s cannot be used; check the network (endpoint, proxy, security groups): %w", region, err)
	}
}
