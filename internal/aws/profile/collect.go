package profile

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
)

// Remove deletes every profile that was made for a class, that of earlier releases included. It is
// for classes that are being deleted and that no claim uses.
func (p *Profiles) Remove(ctx context.Context, class *awsv1.EC2NodeClass) error {
	if p.o.Isolated {
		return nil
	}
	err := p.removeAll(ctx, class)
	if awserr.Unauthorized(err) && class.Spec.InstanceProfile != nil {
		return nil // who names profiles need not let the controller see any
	}
	return err
}

func (p *Profiles) removeAll(ctx context.Context, class *awsv1.EC2NodeClass) error {
	list, err := p.list(ctx, p.path(string(class.UID)))
	if err != nil {
		return err
	}
	var failures []error
	for _, one := range list {
		failures = append(failures, p.delete(ctx, *one.InstanceProfileName, roleOf(&one)))
	}
	dropFacts(p, p.guarded, func(o owner) bool { return o.class == class.UID })
	return errors.Join(append(failures, p.removeLegacy(ctx, class.Name))...)
}

// removeLegacy deletes the profile that old releases made, if it is there.
func (p *Profiles) removeLegacy(ctx context.Context, class string) error {
	name := p.legacyName(class)
	if len(name) > maxName {
		return nil
	}
	response, err := p.o.IAM.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
	switch {
	case awserr.NotFound(err):
		return nil
	case err != nil:
		return callError("get instance profile "+name, err)
	}
	return p.delete(ctx, name, roleOf(response.InstanceProfile))
}

// Collect deletes the profiles of this cluster that no class and no claim uses. It is the work of
// `instanceprofile.garbagecollection`.
func (p *Profiles) Collect(ctx context.Context, objects client.Reader) error {
	if p.o.Isolated {
		return nil
	}
	// Profiles first: one that is made during the list is then not in the list.
	list, err := p.list(ctx, p.path())
	if err != nil || len(list) == 0 {
		return err
	}
	used, err := inUse(ctx, objects)
	if err != nil {
		return err
	}
	var failures []error
	for _, one := range list {
		name := *one.InstanceProfileName
		if used[name] || p.isRecent(one) {
			continue
		}
		err := p.delete(ctx, name, roleOf(&one))
		if err == nil {
			log.FromContext(ctx).Info("garbage collected instance profile", "instance-profile", name)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// isRecent reports whether a profile was made or replaced within the hour. The date of its creation
// counts too: it outlives a restart.
func (p *Profiles) isRecent(one iamtypes.InstanceProfile) bool {
	_, protected := loadFact(p, p.protected, *one.InstanceProfileName)
	return protected || one.CreateDate != nil && p.o.Now().Before(one.CreateDate.Add(protectedFor))
}

// inUse are the profiles that classes and claims name.
func inUse(ctx context.Context, objects client.Reader) (map[string]bool, error) {
	classes, claims := &awsv1.EC2NodeClassList{}, &karpv1.NodeClaimList{}
	if err := objects.List(ctx, classes); err != nil {
		return nil, fmt.Errorf("list EC2NodeClasses: %w", err)
	}
	if err := objects.List(ctx, claims); err != nil {
		return nil, fmt.Errorf("list NodeClaims: %w", err)
	}
	used := map[string]bool{}
	for i := range classes.Items {
		used[classes.Items[i].Status.InstanceProfile] = true
		if named := classes.Items[i].Spec.InstanceProfile; named != nil {
			used[*named] = true
		}
	}
	for i := range claims.Items {
		used[claims.Items[i].Annotations[awsv1.AnnotationInstanceProfileName]] = true
	}
	return used, nil
}

func (p *Profiles) list(ctx context.Context, prefix string) ([]iamtypes.InstanceProfile, error) {
	var list []iamtypes.InstanceProfile
	input := &iam.ListInstanceProfilesInput{PathPrefix: &prefix}
	for {
		page, err := p.o.IAM.ListInstanceProfiles(ctx, input)
		if err != nil {
			return nil, callError("list instance profiles below "+prefix, err)
		}
		for _, one := range page.InstanceProfiles {
			if one.InstanceProfileName != nil {
				list = append(list, one)
			}
		}
		if !page.IsTruncated || page.Marker == nil {
			return list, nil
		}
		input.Marker = page.Marker
	}
}

// delete takes the role off a profile and deletes it. What is gone already is fine.
func (p *Profiles) delete(ctx context.Context, name, role string) error {
	if role != "" {
		_, err := p.o.IAM.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &name, RoleName: &role})
		if err != nil && !awserr.NotFound(err) {
			return callError("remove role "+role+" from instance profile "+name, err)
		}
	}
	_, err := p.o.IAM.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: &name})
	if err != nil && !awserr.NotFound(err) {
		return callError("delete instance profile "+name, err)
	}
	dropFacts(p, p.known, func(known string) bool { return known == name })
	dropFacts(p, p.protected, func(known string) bool { return known == name })
	return nil
}
