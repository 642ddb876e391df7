package main

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
)

func iamKinds() []kind[*cloud] {
	return []kind[*cloud]{
		roleKind(), policyKind(), attachmentKind(), rolePolicyKind(), profileKind(), oidcKind(), linkedRoleKind(),
	}
}

func iamTag(key, value *string) types.Tag { return types.Tag{Key: key, Value: value} }

func iamTagParts(t types.Tag) (key, value *string) { return t.Key, t.Value }

// nameOf is the name that the user chose, or one with the prefix that the user chose.
func nameOf(o object) string {
	if name := o.stringValue("name"); name != "" {
		return name
	}
	prefix := o.stringValue("name_prefix")
	if prefix == "" {
		prefix = "terraform-"
	}
	return prefix + time.Now().UTC().Format("20060102150405") + "00000001"
}

// decodeDocument is a policy document as IAM returns it.
func decodeDocument(document *string) string {
	text, err := url.QueryUnescape(aws.ToString(document))
	if err != nil {
		return aws.ToString(document)
	}
	return text
}

func roleKind() kind[*cloud] {
	return kind[*cloud]{
		name: "aws_iam_role",
		fields: map[string]field{
			"name": forcingReplacement(optionalComputed(text)), "name_prefix": forcingReplacement(optionalComputed(text)), "path": forcingReplacement(withDefault("/")), "description": optionalField(text),
			"assume_role_policy": jsonField(requiredField(text)), "max_session_duration": withDefault(int64(3600)), "force_detach_policies": withDefault(false),
			"permissions_boundary": optionalField(text), "arn": computedField(text), "unique_id": computedField(text), "create_date": computedField(text),
		},
		create: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.iam.CreateRole(ctx, &iam.CreateRoleInput{
				RoleName: aws.String(nameOf(o)), Path: o.stringPointer("path"), Description: o.stringPointer("description"), AssumeRolePolicyDocument: o.stringPointer("assume_role_policy"),
				MaxSessionDuration: o.number32("max_session_duration"), PermissionsBoundary: o.stringPointer("permissions_boundary"), Tags: tagList(o.textMap("tags_all"), iamTag),
			})
			if err == nil {
				o["id"] = aws.ToString(out.Role.RoleName)
			}
			return err
		},
		read: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: o.stringPointer("id")})
			if err != nil {
				return toErrGone(err)
			}
			r := out.Role
			o["name"], o["path"], o["description"], o["arn"], o["unique_id"] = r.RoleName, r.Path, r.Description, r.Arn, r.RoleId
			o["assume_role_policy"], o["max_session_duration"], o["create_date"] = decodeDocument(r.AssumeRolePolicyDocument), r.MaxSessionDuration, r.CreateDate.Format(time.RFC3339)
			o["tags_all"] = userTags(r.Tags, iamTagParts)
			return nil
		},
		update: func(ctx context.Context, c *cloud, was, o object) error {
			if anyChanged(was, o, "assume_role_policy") {
				if _, err := c.iam.UpdateAssumeRolePolicy(ctx, &iam.UpdateAssumeRolePolicyInput{RoleName: o.stringPointer("id"), PolicyDocument: o.stringPointer("assume_role_policy")}); err != nil {
					return err
				}
			}
			if !anyChanged(was, o, "description", "max_session_duration") {
				return nil
			}
			return errorOf(c.iam.UpdateRole(ctx, &iam.UpdateRoleInput{
				RoleName: o.stringPointer("id"), Description: aws.String(o.stringValue("description")), MaxSessionDuration: o.number32("max_session_duration"),
			}))
		},
		remove: removeRole,
		tag: func(ctx context.Context, c *cloud, o object, set map[string]string) error {
			return errorOf(c.iam.TagRole(ctx, &iam.TagRoleInput{RoleName: o.stringPointer("id"), Tags: tagList(set, iamTag)}))
		},
		untag: func(ctx context.Context, c *cloud, o object, keys []string) error {
			return errorOf(c.iam.UntagRole(ctx, &iam.UntagRoleInput{RoleName: o.stringPointer("id"), TagKeys: keys}))
		},
	}
}

// removeRole takes the role out of instance profiles first, and detaches its policies if the user wants that.
func removeRole(ctx context.Context, c *cloud, o object) error {
	role := o.stringPointer("id")
	profiles, err := c.iam.ListInstanceProfilesForRole(ctx, &iam.ListInstanceProfilesForRoleInput{RoleName: role})
	if err != nil {
		return toErrGone(err)
	}
	for _, p := range profiles.InstanceProfiles {
		if _, err := c.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{RoleName: role, InstanceProfileName: p.InstanceProfileName}); err != nil {
			return err
		}
	}
	if o.boolValue("force_detach_policies") {
		attached, err := c.iam.ListAttachedRolePolicies(ctx, &iam.ListAttachedRolePoliciesInput{RoleName: role})
		if err != nil {
			return err
		}
		for _, p := range attached.AttachedPolicies {
			if _, err := c.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: role, PolicyArn: p.PolicyArn}); err != nil {
				return err
			}
		}
	}
	return errorOf(c.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: role}))
}

func policyKind() kind[*cloud] {
	return kind[*cloud]{
		name: "aws_iam_policy",
		fields: map[string]field{
			"name": forcingReplacement(optionalComputed(text)), "name_prefix": forcingReplacement(optionalComputed(text)), "path": forcingReplacement(withDefault("/")), "description": forcingReplacement(optionalField(text)),
			"policy": jsonField(requiredField(text)), "arn": computedField(text), "policy_id": computedField(text), "attachment_count": {shape: number, changes: true},
		},
		create: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.iam.CreatePolicy(ctx, &iam.CreatePolicyInput{
				PolicyName: aws.String(nameOf(o)), Path: o.stringPointer("path"), Description: o.stringPointer("description"), PolicyDocument: o.stringPointer("policy"), Tags: tagList(o.textMap("tags_all"), iamTag),
			})
			if err == nil {
				o["id"] = aws.ToString(out.Policy.Arn)
			}
			return err
		},
		read: readPolicy,
		update: func(ctx context.Context, c *cloud, was, o object) error {
			if !anyChanged(was, o, "policy") {
				return nil
			}
			if err := removeOldVersions(ctx, c, o, 4); err != nil { // there may be five
				return err
			}
			return errorOf(c.iam.CreatePolicyVersion(ctx, &iam.CreatePolicyVersionInput{PolicyArn: o.stringPointer("id"), PolicyDocument: o.stringPointer("policy"), SetAsDefault: true}))
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			if err := removeOldVersions(ctx, c, o, 1); err != nil {
				return err
			}
			return errorOf(c.iam.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: o.stringPointer("id")}))
		},
		tag: func(ctx context.Context, c *cloud, o object, set map[string]string) error {
			return errorOf(c.iam.TagPolicy(ctx, &iam.TagPolicyInput{PolicyArn: o.stringPointer("id"), Tags: tagList(set, iamTag)}))
		},
		untag: func(ctx context.Context, c *cloud, o object, keys []string) error {
			return errorOf(c.iam.UntagPolicy(ctx, &iam.UntagPolicyInput{PolicyArn: o.stringPointer("id"), TagKeys: keys}))
		},
	}
}

func readPolicy(ctx context.Context, c *cloud, o object) error {
	out, err := c.iam.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: o.stringPointer("id")})
	if err != nil {
		return toErrGone(err)
	}
	p := out.Policy
	version, err := c.iam.GetPolicyVersion(ctx, &iam.GetPolicyVersionInput{PolicyArn: p.Arn, VersionId: p.DefaultVersionId})
	if err != nil {
		return toErrGone(err)
	}
	o["name"], o["path"], o["description"], o["arn"], o["policy_id"] = p.PolicyName, p.Path, p.Description, p.Arn, p.PolicyId
	o["attachment_count"], o["policy"], o["tags_all"] = p.AttachmentCount, decodeDocument(version.PolicyVersion.Document), userTags(p.Tags, iamTagParts)
	return nil
}

// removeOldVersions leaves the default version of a policy, and at most as many as are said with it.
func removeOldVersions(ctx context.Context, c *cloud, o object, most int) error {
	out, err := c.iam.ListPolicyVersions(ctx, &iam.ListPolicyVersionsInput{PolicyArn: o.stringPointer("id")})
	if err != nil {
		return toErrGone(err)
	}
	left := len(out.Versions)
	for i := len(out.Versions) - 1; i >= 0 && left > most; i-- { // the oldest are last
		if v := out.Versions[i]; !v.IsDefaultVersion {
			if _, err := c.iam.DeletePolicyVersion(ctx, &iam.DeletePolicyVersionInput{PolicyArn: o.stringPointer("id"), VersionId: v.VersionId}); err != nil {
				return err
			}
			left--
		}
	}
	return nil
}

func attachmentKind() kind[*cloud] {
	return kind[*cloud]{
		name:   "aws_iam_role_policy_attachment",
		fields: map[string]field{"role": forcingReplacement(requiredField(text)), "policy_arn": forcingReplacement(requiredField(text))},
		create: func(ctx context.Context, c *cloud, o object) error {
			_, err := c.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: o.stringPointer("role"), PolicyArn: o.stringPointer("policy_arn")})
			if err == nil {
				o["id"] = o.stringValue("role") + "/" + o.stringValue("policy_arn")
			}
			return err
		},
		read: func(ctx context.Context, c *cloud, o object) error {
			pages := iam.NewListAttachedRolePoliciesPaginator(c.iam, &iam.ListAttachedRolePoliciesInput{RoleName: o.stringPointer("role")})
			for pages.HasMorePages() {
				page, err := pages.NextPage(ctx)
				if err != nil {
					return toErrGone(err)
				}
				for _, p := range page.AttachedPolicies {
					if aws.ToString(p.PolicyArn) == o.stringValue("policy_arn") {
						return nil
					}
				}
			}
			return errGone
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			return errorOf(c.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: o.stringPointer("role"), PolicyArn: o.stringPointer("policy_arn")}))
		},
	}
}

func rolePolicyKind() kind[*cloud] {
	put := func(ctx context.Context, c *cloud, o object) error {
		name := nameOf(o)
		_, err := c.iam.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: o.stringPointer("role"), PolicyName: &name, PolicyDocument: o.stringPointer("policy")})
		if err == nil {
			o["id"], o["name"] = o.stringValue("role")+":"+name, name
		}
		return err
	}
	return kind[*cloud]{
		name: "aws_iam_role_policy",
		fields: map[string]field{
			"role": forcingReplacement(requiredField(text)), "name": forcingReplacement(optionalComputed(text)), "name_prefix": forcingReplacement(optionalComputed(text)), "policy": jsonField(requiredField(text)),
		},
		create: put,
		read: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.iam.GetRolePolicy(ctx, &iam.GetRolePolicyInput{RoleName: o.stringPointer("role"), PolicyName: o.stringPointer("name")})
			if err != nil {
				return toErrGone(err)
			}
			o["policy"] = decodeDocument(out.PolicyDocument)
			return nil
		},
		update: func(ctx context.Context, c *cloud, _, o object) error { return put(ctx, c, o) },
		remove: func(ctx context.Context, c *cloud, o object) error {
			return errorOf(c.iam.DeleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: o.stringPointer("role"), PolicyName: o.stringPointer("name")}))
		},
	}
}

func profileKind() kind[*cloud] {
	return kind[*cloud]{
		name: "aws_iam_instance_profile",
		fields: map[string]field{
			"name": forcingReplacement(optionalComputed(text)), "name_prefix": forcingReplacement(optionalComputed(text)), "path": forcingReplacement(withDefault("/")), "role": optionalField(text),
			"arn": computedField(text), "unique_id": computedField(text), "create_date": computedField(text),
		},
		create: func(ctx context.Context, c *cloud, o object) error {
			name := nameOf(o)
			if _, err := c.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: &name, Path: o.stringPointer("path"), Tags: tagList(o.textMap("tags_all"), iamTag)}); err != nil {
				return err
			}
			o["id"] = name
			return setProfileRole(ctx, c, name, "", o.stringValue("role"))
		},
		read: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: o.stringPointer("id")})
			if err != nil {
				return toErrGone(err)
			}
			p := out.InstanceProfile
			o["name"], o["path"], o["arn"], o["unique_id"], o["role"] = p.InstanceProfileName, p.Path, p.Arn, p.InstanceProfileId, nil
			o["create_date"], o["tags_all"] = p.CreateDate.Format(time.RFC3339), userTags(p.Tags, iamTagParts)
			for _, r := range p.Roles {
				o["role"] = r.RoleName
			}
			return nil
		},
		update: func(ctx context.Context, c *cloud, was, o object) error {
			return setProfileRole(ctx, c, o.stringValue("id"), was.stringValue("role"), o.stringValue("role"))
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			if err := setProfileRole(ctx, c, o.stringValue("id"), o.stringValue("role"), ""); err != nil {
				return err
			}
			return errorOf(c.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: o.stringPointer("id")}))
		},
		tag: func(ctx context.Context, c *cloud, o object, set map[string]string) error {
			return errorOf(c.iam.TagInstanceProfile(ctx, &iam.TagInstanceProfileInput{InstanceProfileName: o.stringPointer("id"), Tags: tagList(set, iamTag)}))
		},
		untag: func(ctx context.Context, c *cloud, o object, keys []string) error {
			return errorOf(c.iam.UntagInstanceProfile(ctx, &iam.UntagInstanceProfileInput{InstanceProfileName: o.stringPointer("id"), TagKeys: keys}))
		},
	}
}

func setProfileRole(ctx context.Context, c *cloud, profile, was, role string) error {
	if was == role {
		return nil
	}
	if was != "" {
		if _, err := c.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &profile, RoleName: &was}); err != nil && !hasCode(err, "NoSuchEntity") {
			return err
		}
	}
	if role == "" {
		return nil
	}
	return errorOf(c.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &profile, RoleName: &role}))
}

func oidcKind() kind[*cloud] {
	return kind[*cloud]{
		name: "aws_iam_openid_connect_provider",
		fields: map[string]field{
			"url": forcingReplacement(requiredField(text)), "client_id_list": requiredField(textSet), "thumbprint_list": optionalComputed(texts), "arn": computedField(text),
		},
		create: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.iam.CreateOpenIDConnectProvider(ctx, &iam.CreateOpenIDConnectProviderInput{
				Url: o.stringPointer("url"), ClientIDList: o.stringValues("client_id_list"), ThumbprintList: o.stringValues("thumbprint_list"), Tags: tagList(o.textMap("tags_all"), iamTag),
			})
			if err == nil {
				o["id"] = aws.ToString(out.OpenIDConnectProviderArn)
			}
			return err
		},
		read: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.iam.GetOpenIDConnectProvider(ctx, &iam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: o.stringPointer("id")})
			if err != nil {
				return toErrGone(err)
			}
			o["arn"], o["client_id_list"], o["thumbprint_list"], o["tags_all"] = o.stringValue("id"), out.ClientIDList, out.ThumbprintList, userTags(out.Tags, iamTagParts)
			if found := aws.ToString(out.Url); strings.TrimPrefix(o.stringValue("url"), "https://") != found { // IAM leaves the scheme out
				o["url"] = found
			}
			return nil
		},
		update: func(ctx context.Context, c *cloud, was, o object) error {
			if !anyChanged(was, o, "thumbprint_list") {
				return nil
			}
			return errorOf(c.iam.UpdateOpenIDConnectProviderThumbprint(ctx, &iam.UpdateOpenIDConnectProviderThumbprintInput{OpenIDConnectProviderArn: o.stringPointer("id"), ThumbprintList: o.stringValues("thumbprint_list")}))
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			return errorOf(c.iam.DeleteOpenIDConnectProvider(ctx, &iam.DeleteOpenIDConnectProviderInput{OpenIDConnectProviderArn: o.stringPointer("id")}))
		},
		tag: func(ctx context.Context, c *cloud, o object, set map[string]string) error {
			return errorOf(c.iam.TagOpenIDConnectProvider(ctx, &iam.TagOpenIDConnectProviderInput{OpenIDConnectProviderArn: o.stringPointer("id"), Tags: tagList(set, iamTag)}))
		},
		untag: func(ctx context.Context, c *cloud, o object, keys []string) error {
			return errorOf(c.iam.UntagOpenIDConnectProvider(ctx, &iam.UntagOpenIDConnectProviderInput{OpenIDConnectProviderArn: o.stringPointer("id"), TagKeys: keys}))
		},
	}
}

func linkedRoleKind() kind[*cloud] {
	return kind[*cloud]{
		name: "aws_iam_service_linked_role",
		fields: map[string]field{
			"aws_service_name": forcingReplacement(requiredField(text)), "custom_suffix": forcingReplacement(optionalField(text)), "description": optionalField(text),
			"arn": computedField(text), "name": computedField(text), "path": computedField(text), "unique_id": computedField(text), "create_date": computedField(text),
		},
		create: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.iam.CreateServiceLinkedRole(ctx, &iam.CreateServiceLinkedRoleInput{
				AWSServiceName: o.stringPointer("aws_service_name"), CustomSuffix: o.stringPointer("custom_suffix"), Description: o.stringPointer("description"),
			})
			if err == nil {
				o["id"], o["name"] = aws.ToString(out.Role.Arn), aws.ToString(out.Role.RoleName)
			}
			return err
		},
		read: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String(roleNameOf(o.stringValue("id")))})
			if err != nil {
				return toErrGone(err)
			}
			r := out.Role
			o["arn"], o["name"], o["path"], o["unique_id"], o["create_date"] = r.Arn, r.RoleName, r.Path, r.RoleId, r.CreateDate.Format(time.RFC3339)
			if d := aws.ToString(r.Description); d != "" {
				o["description"] = d
			}
			o["tags_all"] = userTags(r.Tags, iamTagParts)
			return nil
		},
		update: func(ctx context.Context, c *cloud, was, o object) error {
			if !anyChanged(was, o, "description") {
				return nil
			}
			return errorOf(c.iam.UpdateRole(ctx, &iam.UpdateRoleInput{RoleName: aws.String(roleNameOf(o.stringValue("id"))), Description: aws.String(o.stringValue("description"))}))
		},
		remove: removeLinkedRole,
		tag: func(ctx context.Context, c *cloud, o object, set map[string]string) error {
			return errorOf(c.iam.TagRole(ctx, &iam.TagRoleInput{RoleName: aws.String(roleNameOf(o.stringValue("id"))), Tags: tagList(set, iamTag)}))
		},
		untag: func(ctx context.Context, c *cloud, o object, keys []string) error {
			return errorOf(c.iam.UntagRole(ctx, &iam.UntagRoleInput{RoleName: aws.String(roleNameOf(o.stringValue("id"))), TagKeys: keys}))
		},
	}
}

func roleNameOf(arn string) string { return arn[strings.LastIndex(arn, "/")+1:] }

// removeLinkedRole requests the deletion and waits for what the service says.
func removeLinkedRole(ctx context.Context, c *cloud, o object) error {
	out, err := c.iam.DeleteServiceLinkedRole(ctx, &iam.DeleteServiceLinkedRoleInput{RoleName: aws.String(roleNameOf(o.stringValue("id")))})
	if err != nil {
		return toErrGone(err)
	}
	return waitUntil(ctx, func() (bool, error) {
		status, err := c.iam.GetServiceLinkedRoleDeletionStatus(ctx, &iam.GetServiceLinkedRoleDeletionStatusInput{DeletionTaskId: out.DeletionTaskId})
		if err != nil {
			return false, toErrGone(err)
		}
		if status.Status == types.DeletionTaskStatusTypeFailed {
			return false, failedDeletion(status.Reason)
		}
		return status.Status == types.DeletionTaskStatusTypeSucceeded, nil
	})
}
