package discover

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
)

const imagePageSize = 1000

// parameter is the content of a parameter.
type parameter struct {
	value   string
	mutable bool
}

// Images returns what the AMI terms of a class select under a Kubernetes version such as 1.34, in the
// order in which an instance type chooses among them. Nothing means that nothing usable exists.
func (d *Discoverer) Images(ctx context.Context, class *awsv1.EC2NodeClass, kubernetes string) ([]awsv1.AMI, error) {
	key := canonical(class.Spec.AMISelectorTerms, kubernetes)
	list, err := d.images.loadOrCall(ctx, key, d.recordUse(class, images, key), func() ([]awsv1.AMI, error) {
		found, err := d.candidates(ctx, class, kubernetes)
		return newestImages(found, d.o.Now()), err
	})
	if err != nil {
		return nil, fmt.Errorf("find images of EC2NodeClass %s: %w", class.Name, err)
	}
	ids := make([]string, 0, len(list))
	for _, image := range list {
		ids = append(ids, image.ID)
	}
	d.logIfChanged(ctx, class, images, slices.Compact(slices.Sorted(slices.Values(ids))))
	return list, nil
}

// candidate is an image with one set of requirements that it came with.
type candidate struct {
	image    ec2types.Image
	variants [][]corev1.NodeSelectorRequirement // nil: no requirement but the architecture
}

func (d *Discoverer) candidates(ctx context.Context, class *awsv1.EC2NodeClass, kubernetes string) ([]candidate, error) {
	if a, found := aliasOf(class); found {
		return d.resolveAliases(ctx, a.queries(kubernetes))
	}
	queries, err := d.imageQueries(ctx, class.Spec.AMISelectorTerms)
	if err != nil {
		return nil, err
	}
	images, err := d.describeImages(ctx, queries)
	if err != nil {
		return nil, err
	}
	list := make([]candidate, 0, len(images))
	// any order: newestImages sorts them
	for _, image := range images {
		list = append(list, candidate{image: image})
	}
	return list, nil
}

// resolveAliases looks the parameters of an alias up. Parameters that do not exist are left out; any other
// error fails the whole lookup, or else instance types would lose their image because of it (E13).
func (d *Discoverer) resolveAliases(ctx context.Context, queries []query) ([]candidate, error) {
	variants := map[string][][]corev1.NodeSelectorRequirement{}
	for _, q := range queries {
		id, found, err := d.readParameter(ctx, q.parameter, aliasLifetime, q.mutable)
		if err != nil {
			return nil, err
		}
		if found {
			variants[id] = append(variants[id], q.variants...)
		}
	}
	if len(variants) == 0 {
		return nil, nil
	}
	images, err := d.describeImages(ctx, []*ec2.DescribeImagesInput{imageInput(nil, filter("image-id", slices.Sorted(maps.Keys(variants))...))})
	if err != nil {
		return nil, err
	}
	list := make([]candidate, 0, len(images))
	// any order: newestImages sorts them
	for _, image := range images {
		list = append(list, candidate{image: image, variants: variants[value(image.ImageId)]})
	}
	return list, nil
}

// imageQueries are the calls that terms without an alias need.
func (d *Discoverer) imageQueries(ctx context.Context, terms []awsv1.AMISelectorTerm) ([]*ec2.DescribeImagesInput, error) {
	var ids []string
	var queries []*ec2.DescribeImagesInput
	for _, t := range terms {
		switch {
		case t.ID != "":
			ids = append(ids, t.ID)
		case t.SSMParameter != "":
			id, found, err := d.readParameter(ctx, t.SSMParameter, parameterLifetime, true)
			if err != nil {
				return nil, err
			}
			if !found || !strings.HasPrefix(id, "ami-") {
				log.FromContext(ctx).Info("ignoring an ssmParameter that holds no image id", "parameter", t.SSMParameter, "exists", found, "value", id)
				continue
			}
			ids = append(ids, id)
		case t.Name != "" || len(t.Tags) > 0:
			queries = append(queries, namedOrTagged(t))
		}
	}
	if len(ids) > 0 {
		queries = append(queries, imageInput(nil, filter("image-id", ids...)))
	}
	return queries, nil
}

func namedOrTagged(t awsv1.AMISelectorTerm) *ec2.DescribeImagesInput {
	var owners []string
	if t.Owner != "" {
		owners = []string{t.Owner}
	}
	filters := tagFilters(t.Tags)
	if t.Name != "" {
		filters = append(filters, filter("name", t.Name))
		if len(owners) == 0 {
			owners = []string{"self", "amazon"} // names are not unique; others' images are not to be trusted
		}
	}
	return imageInput(owners, filters...)
}

func imageInput(owners []string, filters ...ec2types.Filter) *ec2.DescribeImagesInput {
	return &ec2.DescribeImagesInput{
		Owners:            owners,
		Filters:           append(filters, filter("state", string(ec2types.ImageStateAvailable))),
		IncludeDeprecated: new(true),
		MaxResults:        new(int32(imagePageSize)),
	}
}

func (d *Discoverer) describeImages(ctx context.Context, queries []*ec2.DescribeImagesInput) (map[string]ec2types.Image, error) {
	byID := map[string]ec2types.Image{}
	for _, input := range queries {
		for {
			page, err := d.o.EC2.DescribeImages(ctx, input)
			if err != nil {
				return nil, fmt.Errorf("describe images: %w", err)
			}
			for _, image := range page.Images {
				byID[value(image.ImageId)] = image
			}
			if input.NextToken = page.NextToken; value(input.NextToken) == "" {
				break
			}
		}
	}
	return byID, nil
}

// readParameter reads a parameter of SSM. One that does not exist is reported as not found, and is not cached.
func (d *Discoverer) readParameter(ctx context.Context, name string, lifetime time.Duration, mutable bool) (text string, found bool, err error) {
	if kept, known := d.parameters.load(name); known {
		return kept.value, true, nil
	}
	response, err := d.o.SSM.GetParameter(ctx, &ssm.GetParameterInput{Name: &name})
	switch {
	case awserr.NotFound(err):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("get SSM parameter %s: %w", name, err)
	case response.Parameter == nil || value(response.Parameter.Value) == "":
		return "", false, nil
	}
	text = value(response.Parameter.Value)
	d.parameters.storeFor(name, parameter{value: text, mutable: mutable}, lifetime)
	return text, true, nil
}

// InvalidateParameters drops the parameters that may name a newer image later and whose image is deprecated or
// deleted by now. It is the work of `providers.ssm.invalidation`.
func (d *Discoverer) InvalidateParameters(ctx context.Context) error {
	names := map[string][]string{} // by image
	known := d.parameters.snapshot()
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if p := known[name]; p.mutable && strings.HasPrefix(p.value, "ami-") {
			names[p.value] = append(names[p.value], name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	ids := slices.Sorted(maps.Keys(names))
	images := map[string]ec2types.Image{}
	for part := range slices.Chunk(ids, maxFilterValues) {
		found, err := d.describeImages(ctx, []*ec2.DescribeImagesInput{imageInput(nil, filter("image-id", part...))})
		if err != nil {
			return err
		}
		maps.Copy(images, found)
	}
	for _, id := range ids {
		parameters := names[id]
		if image, exists := images[id]; exists && !deprecated(image, d.o.Now()) {
			continue
		}
		d.parameters.dropMatching(func(name string) bool { return slices.Contains(parameters, name) })
		log.FromContext(ctx).V(1).Info("dropped cached SSM parameters of a deprecated image", "image", id, "parameters", parameters)
	}
	return nil
}

// maxFilterValues is how many values EC2 accepts in one filter.
const maxFilterValues = 200

func deprecated(image ec2types.Image, now time.Time) bool {
	end, err := time.Parse(time.RFC3339, value(image.DeprecationTime))
	return err == nil && end.Before(now)
}

func created(image ec2types.Image) time.Time {
	at, err := time.Parse(time.RFC3339, value(image.CreationDate))
	if err != nil {
		return time.Time{}
	}
	return at
}

// newestImages leaves one image for each set of requirements and sorts them.
func newestImages(found []candidate, now time.Time) []awsv1.AMI {
	type choice struct {
		ami     awsv1.AMI
		created time.Time
		text    string
	}
	best := map[string]choice{}
	better := func(a, b choice) bool {
		if a.ami.Deprecated != b.ami.Deprecated {
			return b.ami.Deprecated
		}
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.ami.Name, b.ami.Name), cmp.Compare(a.ami.ID, b.ami.ID)) > 0
	}
	for _, c := range found {
		architecture, known := architectureOf(c.image)
		if !known {
			continue
		}
		variants := c.variants
		if len(variants) == 0 {
			variants = [][]corev1.NodeSelectorRequirement{nil}
		}
		for _, v := range variants {
			list := inOrder(append(slices.Clone(v), corev1.NodeSelectorRequirement{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{architecture}}))
			next := choice{
				ami:     awsv1.AMI{ID: value(c.image.ImageId), Name: value(c.image.Name), Deprecated: deprecated(c.image, now), Requirements: list},
				created: created(c.image), text: fmt.Sprint(list),
			}
			if have, taken := best[next.text]; !taken || better(next, have) {
				best[next.text] = next
			}
		}
	}
	sorted := slices.SortedFunc(maps.Values(best), func(a, b choice) int {
		return cmp.Or(b.created.Compare(a.created), cmp.Compare(a.ami.ID, b.ami.ID), cmp.Compare(a.text, b.text))
	})
	list := make([]awsv1.AMI, 0, len(sorted))
	for _, c := range sorted {
		list = append(list, c.ami)
	}
	return list
}

// inOrder sorts requirements by the length of their key, then by key.
func inOrder(list []corev1.NodeSelectorRequirement) []corev1.NodeSelectorRequirement {
	slices.SortFunc(list, func(a, b corev1.NodeSelectorRequirement) int {
		return cmp.Or(cmp.Compare(len(a.Key), len(b.Key)), cmp.Compare(a.Key, b.Key))
	})
	return list
}

func architectureOf(image ec2types.Image) (string, bool) {
	switch image.Architecture {
	case ec2types.ArchitectureValuesX8664:
		return "amd64", true
	case ec2types.ArchitectureValuesArm64:
		return "arm64", true
	default:
		return "", false
	}
}
