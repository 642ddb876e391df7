package awsemu

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	guide "github.com/dovetail-sh/dovetail/iam"
)

func TestInstanceProfileLife(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx := iam.NewFromConfig(c.cfg), t.Context()
	name, role := aws.String("sandbox_42"), aws.String("KarpenterNodeRole-sandbox")

	created, err := client.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{
		InstanceProfileName: name, Path: aws.String("/karpenter/eu-west-1/sandbox/uid/"), Tags: []types.Tag{{Key: aws.String("b"), Value: aws.String("2")}, {Key: aws.String("a"), Value: aws.String("1")}},
	})
	check(t, err)
	if p := created.InstanceProfile; len(p.Roles) != 0 || len(*p.InstanceProfileId) != 20 || *p.Arn != "arn:aws:iam::111122223333:instance-profile/karpenter/eu-west-1/sandbox/uid/sandbox_42" || *p.Tags[0].Key != "a" || p.CreateDate.IsZero() {
		t.Errorf("created %+v", *p)
	}
	_, err = client.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: role})
	check(t, err)
	_, err = client.TagInstanceProfile(ctx, &iam.TagInstanceProfileInput{InstanceProfileName: name, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("3")}}})
	check(t, err)
	_, err = client.UntagInstanceProfile(ctx, &iam.UntagInstanceProfileInput{InstanceProfileName: name, TagKeys: []string{"b"}})
	check(t, err)
	got, err := client.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: name})
	check(t, err)
	if p := got.InstanceProfile; len(p.Roles) != 1 || *p.Roles[0].RoleName != *role || *p.Roles[0].Arn != "arn:aws:iam::111122223333:role/KarpenterNodeRole-sandbox" || len(p.Tags) != 1 || *p.Tags[0].Value != "3" {
		t.Errorf("got %+v", *p)
	}
	tags, err := client.ListInstanceProfileTags(ctx, &iam.ListInstanceProfileTagsInput{InstanceProfileName: name})
	check(t, err)
	if len(tags.Tags) != 1 {
		t.Errorf("tags %+v", tags.Tags)
	}
	of, err := client.ListInstanceProfilesForRole(ctx, &iam.ListInstanceProfilesForRoleInput{RoleName: role})
	check(t, err)
	if len(of.InstanceProfiles) != 1 || of.IsTruncated || len(of.InstanceProfiles[0].Tags) != 0 || len(of.InstanceProfiles[0].Roles) != 1 {
		t.Errorf("profiles of the role: %+v", of.InstanceProfiles)
	}
	_, err = client.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: name, RoleName: role})
	check(t, err)
	_, err = client.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: name})
	check(t, err)
	_, err = client.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "NoSuchEntity", 404)
}

func TestIAMErrors(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx := iam.NewFromConfig(c.cfg), t.Context()
	c.runLocked(func(now time.Time) {
		for i := range maxProfiles {
			c.iamState().Profiles[fmt.Sprintf("filler-%04d", i)] = InstanceProfile{Name: fmt.Sprintf("filler-%04d", i), Path: "/", Created: now}
		}
	})
	create := func(name, path string, tags ...types.Tag) error {
		in := &iam.CreateInstanceProfileInput{InstanceProfileName: &name, Tags: tags}
		if path != "" {
			in.Path = &path
		}
		_, err := client.CreateInstanceProfile(ctx, in)
		return err
	}
	add := func(profile, role string) error {
		_, err := client.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &profile, RoleName: &role})
		return err
	}
	tag := func(key string) types.Tag { return types.Tag{Key: &key, Value: aws.String("v")} }
	_, removeErr := client.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: aws.String(seedProfileName), RoleName: aws.String("KarpenterNodeRole")})
	_, deleteErr := client.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: aws.String(seedProfileName)})
	_, deleteRoleErr := client.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: aws.String(seedRoleName)})
	_, deletePolicyErr := client.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: aws.String("KarpenterNodeRole")})
	_, roleErr := client.GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String("none")})
	_, detachErr := client.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: aws.String(seedRoleName), PolicyArn: aws.String("arn:aws:iam::aws:policy/Other")})
	_, createRoleErr := client.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String(seedRoleName), AssumeRolePolicyDocument: aws.String(ec2Trust)})
	_, policyErr := client.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String("x"), AssumeRolePolicyDocument: aws.String("{")})
	_, linkErr := client.CreateServiceLinkedRole(ctx, &iam.CreateServiceLinkedRoleInput{AWSServiceName: aws.String("other.amazonaws.com")})
	_, prefixErr := client.ListInstanceProfiles(ctx, &iam.ListInstanceProfilesInput{PathPrefix: aws.String("karpenter")})
	_, itemsErr := client.ListInstanceProfiles(ctx, &iam.ListInstanceProfilesInput{MaxItems: aws.Int32(1001)})
	for name, tc := range map[string]struct {
		err      error
		code     string
		status   int
		wantRole bool
		noRole   bool
	}{
		"a role that is missing is named as one":           {err: add(seedProfileName, "none"), code: "NoSuchEntity", status: 404, wantRole: true},
		"a missing profile does not mention the word":      {err: add("none", "KarpenterNodeRole"), code: "NoSuchEntity", status: 404, noRole: true},
		"not even when its name holds it":                  {err: add("my-Role-x", "KarpenterNodeRole"), code: "NoSuchEntity", status: 404, noRole: true},
		"a profile takes one role":                         {err: add(seedProfileName, "KarpenterNodeRole"), code: "LimitExceeded", status: 409},
		"the account has so many profiles":                 {err: create("one-more", ""), code: "LimitExceeded", status: 409},
		"names are unique, whatever the path and the case": {err: create("karpenternodeinstanceprofile", "/other/"), code: "EntityAlreadyExists", status: 409},
		"paths end with a slash":                           {err: create("x", "/karpenter"), code: "ValidationError", status: 400},
		"names have an alphabet":                           {err: create("a b", ""), code: "ValidationError", status: 400},
		"reserved tags":                                    {err: create("x", "", tag("aws:x")), code: "InvalidInput", status: 400},
		"tags twice":                                       {err: create("x", "", tag("a"), tag("A")), code: "InvalidInput", status: 400},
		"remove another role":                              {err: removeErr, code: "NoSuchEntity", status: 404},
		"delete a profile with a role":                     {err: deleteErr, code: "DeleteConflict", status: 409},
		"delete a role in a profile":                       {err: deleteRoleErr, code: "DeleteConflict", status: 409},
		"delete a role with policies":                      {err: deletePolicyErr, code: "DeleteConflict", status: 409},
		"get a missing role":                               {err: roleErr, code: "NoSuchEntity", status: 404, wantRole: true},
		"detach what is not attached":                      {err: detachErr, code: "NoSuchEntity", status: 404},
		"create a role again":                              {err: createRoleErr, code: "EntityAlreadyExists", status: 409},
		"trust that is no JSON":                            {err: policyErr, code: "MalformedPolicyDocument", status: 400},
		"other service-linked roles":                       {err: linkErr, code: "InvalidInput", status: 400},
		"path prefix without a slash":                      {err: prefixErr, code: "ValidationError", status: 400},
		"page too large":                                   {err: itemsErr, code: "ValidationError", status: 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantCode(t, tc.err, tc.code, tc.status)
			hasWord := strings.Contains(strings.ToLower(messageOf(tc.err)), "role")
			if (tc.wantRole && !hasWord) || (tc.noRole && hasWord) {
				t.Errorf("message %q", messageOf(tc.err))
			}
		})
	}
}

func TestListInstanceProfilesPages(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client := iam.NewFromConfig(c.cfg)
	c.runLocked(func(now time.Time) {
		for i := range 7 {
			name := fmt.Sprintf("p%d", i)
			c.iamState().Profiles[name] = InstanceProfile{Name: name, Path: "/karpenter/eu-west-1/sandbox/" + name + "/", Created: now}
		}
	})
	var names []string
	pages := 0
	pager := iam.NewListInstanceProfilesPaginator(client, &iam.ListInstanceProfilesInput{PathPrefix: aws.String("/karpenter/"), MaxItems: aws.Int32(3)})
	for pager.HasMorePages() {
		page, err := pager.NextPage(t.Context())
		check(t, err)
		pages++
		for _, p := range page.InstanceProfiles {
			names = append(names, *p.InstanceProfileName)
		}
	}
	if want := []string{"p0", "p1", "p2", "p3", "p4", "p5", "p6"}; pages != 3 || !slices.Equal(names, want) {
		t.Errorf("%d pages with %v", pages, names)
	}
	all, err := client.ListInstanceProfiles(t.Context(), &iam.ListInstanceProfilesInput{})
	check(t, err)
	if len(all.InstanceProfiles) != 8 || all.IsTruncated || all.Marker != nil {
		t.Errorf("without prefix: %d profiles, truncated %v", len(all.InstanceProfiles), all.IsTruncated)
	}
}

// The script of the seeds (S-126, S-127, S-134): create, then clean up in its order.
func TestSetUpAndCleanUpOfTheNodeRole(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client, ctx := iam.NewFromConfig(c.cfg), t.Context()
	role, profile := aws.String("MyNodeRole"), aws.String("MyNodeProfile")
	_, err := client.CreateRole(ctx, &iam.CreateRoleInput{RoleName: role, AssumeRolePolicyDocument: aws.String(ec2Trust)})
	check(t, err)
	var arns []string
	for _, policy := range guide.ManagedPolicies()[:3] {
		arns = append(arns, "arn:aws:iam::aws:policy/"+policy)
		_, err = client.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: role, PolicyArn: &arns[len(arns)-1]})
		check(t, err)
	}
	attached, err := client.ListAttachedRolePolicies(ctx, &iam.ListAttachedRolePoliciesInput{RoleName: role})
	check(t, err)
	if len(attached.AttachedPolicies) != 3 || *attached.AttachedPolicies[0].PolicyName != "AmazonEKSWorkerNodePolicy" {
		t.Errorf("attached %+v", attached.AttachedPolicies)
	}
	got, err := client.GetRole(ctx, &iam.GetRoleInput{RoleName: role})
	check(t, err)
	if len(*got.Role.RoleId) != 20 || !strings.Contains(*got.Role.AssumeRolePolicyDocument, "ec2.amazonaws.com") {
		t.Errorf("role %+v", *got.Role)
	}
	_, err = client.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: profile})
	check(t, err)
	_, err = client.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: profile, RoleName: role})
	check(t, err)

	_, err = client.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: profile, RoleName: role})
	check(t, err)
	_, err = client.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: profile})
	check(t, err)
	for i := range arns {
		_, err = client.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: role, PolicyArn: &arns[i]})
		check(t, err)
	}
	_, err = client.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: role})
	check(t, err)
	list, err := client.ListRoles(ctx, &iam.ListRolesInput{})
	check(t, err)
	if len(list.Roles) != 5 {
		t.Errorf("%d roles are left, want the 5 of the fixture", len(list.Roles))
	}
}

func TestSpotRoleIsRemovedAndCreated(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	client := iam.NewFromConfig(c.cfg)
	create := func() error {
		made, err := client.CreateServiceLinkedRole(t.Context(), &iam.CreateServiceLinkedRoleInput{AWSServiceName: aws.String(spotServiceName), Description: aws.String("for spot")})
		if err == nil && aws.ToString(made.Role.Description) != "for spot" {
			t.Errorf("the description is %q", aws.ToString(made.Role.Description))
		}
		return err
	}
	present := func() (found bool) {
		c.runLocked(func(time.Time) { found = c.spotRolePresent() })
		return found
	}
	err := create()
	wantCode(t, err, "InvalidInput", 400)
	if !strings.Contains(messageOf(err), "has been taken in this account") || !present() {
		t.Errorf("message %q, present %v", messageOf(err), present())
	}
	c.set(t, http.MethodPut, "roles", `["KarpenterNodeRole-sandbox","New"]`)
	if present() {
		t.Error("the spot role is still there")
	}
	var names []string
	c.callControlAPI(t, http.MethodGet, "roles", "", &names)
	if !slices.Equal(names, []string{"KarpenterNodeRole-sandbox", "New"}) {
		t.Errorf("roles %v", names)
	}
	profile, err := client.GetInstanceProfile(t.Context(), &iam.GetInstanceProfileInput{InstanceProfileName: aws.String(seedProfileName)})
	check(t, err)
	if len(profile.InstanceProfile.Roles) != 0 {
		t.Error("the profile still has a role that is gone")
	}
	check(t, create())
	if !present() {
		t.Error("the spot role was not created")
	}
	if status := c.callControlAPI(t, http.MethodPut, "roles", `["a b"]`, nil); status != http.StatusBadRequest {
		t.Errorf("a bad name gives %d", status)
	}
}

func TestProfileUsable(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	c.set(t, http.MethodPut, "lag", `{"profiles":"10s"}`)
	usable := func(name string) (ok bool) {
		c.runLocked(func(now time.Time) { ok = c.profileUsable(name, now) })
		return ok
	}
	if !usable(seedProfileName) {
		t.Error("the profile of the fixture is not new")
	}
	c.runLocked(func(now time.Time) {
		c.iamState().Profiles["new"] = InstanceProfile{Name: "new", Role: seedRoleName, Created: now}
	})
	if usable("new") {
		t.Error("usable at once in spite of the lag")
	}
	c.clock.Advance(10 * time.Second)
	if !usable("new") {
		t.Error("not usable after the lag")
	}
	c.runLocked(func(now time.Time) {
		c.iamState().Profiles["empty"] = InstanceProfile{Name: "empty", Created: now.Add(-time.Hour)}
	})
	if usable("empty") || usable("none") {
		t.Error("usable without a role, or without being")
	}
}

func messageOf(err error) string {
	if api, ok := asAPIError(err); ok {
		return api.ErrorMessage()
	}
	return ""
}

// An account that is not prepared has nothing that the guides create, and comes back from a snapshot.
func TestBareAccount(t *testing.T) {
	t.Parallel()
	f := testFixture()
	f.Bare = true
	e := New(Options{Clock: NewClock(time.Now, 0), Seed: 1, Fixture: f})
	text, err := e.Snapshot()
	check(t, err)
	check(t, e.Restore(text))
	m := e.model
	if n := len(m.IAM.Roles) + len(m.IAM.Profiles) + len(m.IAM.Providers) + len(m.EKS.Cluster.AccessEntries) + len(m.EKS.Associations) + len(m.SQS.Queues) + len(m.SQS.Rules); n != 0 {
		t.Errorf("%d things are there: %+v %+v %+v", n, m.IAM, m.EKS, m.SQS)
	}
	if e.MayJoin(seedProfileName) || e.PodIdentity("kube-system", "karpenter") {
		t.Error("nodes may join, or pods have a role")
	}
}
