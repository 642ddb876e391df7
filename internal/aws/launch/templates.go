package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
)

// templateFor is how long a template is kept after its last use.
const templateFor = time.Minute

// templates keeps the launch templates that are in use and deletes them some time after. It is safe for
// concurrent use.
type templates struct {
	ec2     EC2
	now     func() time.Time
	cluster func() string

	mu sync.Mutex
	by map[string]*template
}

type template struct {
	making  sync.Mutex // held during the call to EC2, so that there is only one call
	exists  bool
	holders int // launches that use it; it is not deleted while they do
	used    time.Time
}

func newTemplates(o Options) *templates {
	return &templates{ec2: o.EC2, now: o.Now, cluster: o.Cluster.Name, by: map[string]*template{}}
}

// holdTemplate makes sure that a template exists and keeps it until release.
func (t *templates) holdTemplate(ctx context.Context, input *ec2.CreateLaunchTemplateInput) (release func(), err error) {
	name := *input.LaunchTemplateName
	t.mu.Lock()
	entry := t.by[name]
	if entry == nil {
		entry = &template{}
		t.by[name] = entry
	}
	entry.holders++
	entry.used = t.now()
	t.mu.Unlock()
	release = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		entry.holders--
		entry.used = t.now()
	}
	entry.making.Lock()
	defer entry.making.Unlock()
	if entry.exists {
		return release, nil
	}
	if err := t.ensureTemplate(ctx, input); err != nil {
		release()
		return nil, err
	}
	entry.exists = true
	return release, nil
}

// ensureTemplate looks a template up and makes it if it is not there.
func (t *templates) ensureTemplate(ctx context.Context, input *ec2.CreateLaunchTemplateInput) error {
	name := *input.LaunchTemplateName
	found, err := t.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{name}})
	switch {
	case err == nil && len(found.LaunchTemplates) > 0:
		return nil
	case err != nil && awserr.Code(err) != awserr.CodeTemplateNotFound:
		return fmt.Errorf("describe launch template %s: %w", name, err)
	}
	if _, err := t.ec2.CreateLaunchTemplate(ctx, input); err != nil && awserr.Code(err) != awserr.CodeTemplateExists {
		return fmt.Errorf("create launch template %s: %w", name, err)
	}
	log.FromContext(ctx).V(1).Info("created launch template", "launch-template", name)
	return nil
}

// recheckTemplate says that a template may be gone, so that it is looked up again (A10).
func (t *templates) recheckTemplate(name string) {
	t.mu.Lock()
	entry := t.by[name]
	t.mu.Unlock()
	if entry != nil {
		entry.making.Lock()
		defer entry.making.Unlock()
		entry.exists = false
	}
}

// loadExisting adopts the templates that an earlier leader left. Unused ones expire.
func (t *templates) loadExisting(ctx context.Context) error {
	return t.forEachTemplate(ctx, []ec2types.Filter{{Name: new("tag:" + tagClusterName), Values: []string{t.cluster()}}}, func(name string) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.by[name] == nil {
			t.by[name] = &template{exists: true, used: t.now()}
		}
		return nil
	})
}

// DeleteTemplates deletes the launch templates of a class, for programs that launch nothing.
func DeleteTemplates(ctx context.Context, api EC2, cluster string, class *awsv1.EC2NodeClass) error {
	return (&templates{ec2: api, cluster: func() string { return cluster }}).deleteOfClass(ctx, class)
}

// deleteOfClass deletes the templates of a class.
func (t *templates) deleteOfClass(ctx context.Context, class *awsv1.EC2NodeClass) error {
	var failed []error
	err := t.forEachTemplate(ctx, []ec2types.Filter{
		{Name: new("tag:" + tagClusterName), Values: []string{t.cluster()}},
		{Name: new("tag:" + awsv1.LabelNodeClass), Values: []string{class.Name}},
	}, func(name string) error {
		t.mu.Lock()
		delete(t.by, name)
		t.mu.Unlock()
		failed = append(failed, t.deleteTemplate(ctx, name))
		return nil
	})
	return errors.Join(append(failed, err)...)
}

func (t *templates) forEachTemplate(ctx context.Context, filters []ec2types.Filter, do func(name string) error) error {
	input := &ec2.DescribeLaunchTemplatesInput{Filters: filters, MaxResults: new(int32(200))}
	for {
		page, err := t.ec2.DescribeLaunchTemplates(ctx, input)
		if err != nil {
			return fmt.Errorf("describe launch templates of cluster %s: %w", t.cluster(), err)
		}
		for _, found := range page.LaunchTemplates {
			if err := do(value(found.LaunchTemplateName)); err != nil {
				return err
			}
		}
		if value(page.NextToken) == "" {
			return nil
		}
		input.NextToken = page.NextToken
	}
}

// deleteUnused deletes templates that were not used for a while. If a deletion fails, it is retried.
func (t *templates) deleteUnused(ctx context.Context) {
	var expired []string
	now := t.now()
	t.mu.Lock()
	for name, entry := range t.by {
		if entry.holders == 0 && now.Sub(entry.used) >= templateFor {
			expired = append(expired, name)
			delete(t.by, name)
		}
	}
	t.mu.Unlock()
	slices.Sort(expired)
	for _, name := range expired {
		if err := t.deleteTemplate(ctx, name); err != nil {
			log.FromContext(ctx).Error(err, "failed to delete launch template", "launch-template", name)
			t.mu.Lock()
			if t.by[name] == nil {
				t.by[name] = &template{used: now} // not known to exist; deleted with a later sweep
			}
			t.mu.Unlock()
		}
	}
}

func (t *templates) deleteTemplate(ctx context.Context, name string) error {
	_, err := t.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: &name})
	if err != nil && !awserr.NotFound(err) {
		return fmt.Errorf("delete launch template %s: %w", name, err)
	}
	return nil
}
