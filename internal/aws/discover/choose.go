package discover

import (
	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// Choice determines which of some images an instance type gets. Make one per class and use it for many types.
type Choice struct {
	images []awsv1.AMI
	needs  []reqs.Set
}

// Choose prepares the choice among images, as status.amis lists them.
func Choose(images []awsv1.AMI) Choice {
	c := Choice{images: images, needs: make([]reqs.Set, 0, len(images))}
	for _, image := range images {
		entries := make([]reqs.Entry, 0, len(image.Requirements))
		for _, r := range image.Requirements {
			entries = append(entries, reqs.Entry{Key: r.Key, Operator: r.Operator, Values: r.Values})
		}
		needs, _ := reqs.FromEntries(entries, reqs.Vocabulary{})
		c.needs = append(c.needs, needs)
	}
	return c
}

// For returns the first image whose requirements the instance type meets. The build of Windows is a
// property of the image, so a type need not have it.
func (c Choice) For(t *catalog.InstanceType) (awsv1.AMI, bool) {
	supplied := reqs.Options{AllowUndefined: map[string]bool{corev1.LabelWindowsBuild: true}}
	for i := range c.images {
		if _, ok := reqs.Compatible(c.needs[i], t.Labels, supplied); ok {
			return c.images[i], true
		}
	}
	return awsv1.AMI{}, false
}

// Image is the first image of the class's status whose requirements the instance type meets.
func Image(class *awsv1.EC2NodeClass, t *catalog.InstanceType) (awsv1.AMI, bool) {
	return Choose(class.Status.AMIs).For(t)
}
