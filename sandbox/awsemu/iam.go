package awsemu

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	guide "github.com/dovetail-sh/dovetail/iam"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// IAMState is roles, instance profiles and the sessions that STS gave out.
type IAMState struct {
	Roles    map[string]Role            `json:"roles"`    // by name
	Profiles map[string]InstanceProfile `json:"profiles"` // by name; names are unique regardless of path
	Sessions map[string]Session         `json:"sessions"` // by access key id
	Policies map[string]Policy          `json:"policies"` // of the account, by ARN
	// Providers are the issuers of tokens that the account lets in, by ARN.
	Providers map[string]OIDCProvider `json:"providers"`
}

// InstanceProfile is the door through which an instance gets a role.
type InstanceProfile struct {
	Name    string            `json:"name"`
	ID      string            `json:"id"`
	Path    string            `json:"path"`
	Role    string            `json:"role,omitempty"` // AWS allows one
	Tags    map[string]string `json:"tags,omitempty"`
	Created time.Time         `json:"created"`
}

// Names of the fixture that others refer to.
const (
	spotRoleName    = "AWSServiceRoleForEC2Spot"
	spotServiceName = "spot.amazonaws.com"
	nodeRolePrefix  = "KarpenterNodeRole"
	seedRoleName    = "KarpenterNodeInstanceRole"
	seedProfileName = "KarpenterNodeInstanceProfile"
)

// maxProfiles and maxProfileTags are quotas of a real account.
const (
	maxProfiles    = 1000
	maxProfileTags = 50
)

func (e *Emulator) registerIAM() {
	for action, run := range map[string]func(*call) (any, error){
		"GetInstanceProfile": e.getInstanceProfile, "ListInstanceProfiles": e.listInstanceProfiles,
		"ListInstanceProfilesForRole": e.listInstanceProfilesForRole, "ListInstanceProfileTags": e.listInstanceProfileTags,
		"GetRole": e.getRole, "ListRoles": e.listRoles, "ListAttachedRolePolicies": e.listAttachedRolePolicies, "ListRoleTags": e.listRoleTags,
	} {
		e.register(wire.IAM, action, run)
	}
	for action, run := range map[string]func(*call) (any, error){
		"CreateInstanceProfile": e.createInstanceProfile, "DeleteInstanceProfile": e.deleteInstanceProfile,
		"AddRoleToInstanceProfile": e.addRoleToInstanceProfile, "RemoveRoleFromInstanceProfile": e.removeRoleFromInstanceProfile,
		"TagInstanceProfile": e.tagInstanceProfile, "UntagInstanceProfile": e.untagInstanceProfile,
		"CreateRole": e.createRole, "DeleteRole": e.deleteRole, "AttachRolePolicy": e.attachRolePolicy,
		"DetachRolePolicy": e.detachRolePolicy, "CreateServiceLinkedRole": e.createServiceLinkedRole,
		"UpdateAssumeRolePolicy": e.updateTrust, "UpdateRole": e.updateRole, "TagRole": e.tagRole, "UntagRole": e.untagRole,
	} {
		e.registerMutating(wire.IAM, action, run)
	}
	e.registerPolicies()
	e.registerLinkedRoles()
	e.registerOIDC()
	e.controls["roles"] = e.rolesControl()
}

// resetIAM brings the fixture back: the roles of the guides, with and without the cluster's name. They
// are from yesterday, so that no lag of new profiles concerns them.
func (e *Emulator) resetIAM(now time.Time) {
	e.model.IAM = nil
	state := e.iamState()
	if e.fixture.Bare {
		return
	}
	now = now.Add(-24 * time.Hour)
	for _, name := range e.fixture.guideRoles() {
		role := e.newRole(now, name, "/", ec2Trust)
		for _, policy := range guide.ManagedPolicies() {
			role.Policies = append(role.Policies, awsPolicies+policy)
		}
		state.Roles[name] = role
	}
	e.makeController(now)
	state.Providers[e.oidcARN(Issuer(e.fixture.Region, e.fixture.Cluster))] = OIDCProvider{ClientIDs: []string{stsAudience}, Created: now}
	state.Roles[spotRoleName] = e.newRole(now, spotRoleName, "/aws-service-role/"+spotServiceName+"/", spotTrust)
	state.Profiles[seedProfileName] = InstanceProfile{Name: seedProfileName, ID: e.iamID("AIPA"), Path: "/", Role: seedRoleName, Created: now}
}

// makeController makes the role of the controller with the policies of the installation guide. One whose placeholders the
// fixture has no values for is left out.
func (e *Emulator) makeController(now time.Time) {
	role := e.newRole(now, e.controllerRole(), "/", podTrust)
	values := guide.Values{
		Partition: "aws", Region: e.fixture.Region, AccountID: e.fixture.Account, ClusterName: e.fixture.Cluster, NodeRoleName: e.nodeRole(), QueueName: e.fixture.Queue,
	}
	for _, d := range guide.Controller() {
		text, err := guide.Fill(d, values)
		if err != nil {
			continue
		}
		name := d.Name + "-" + e.fixture.Cluster
		arn := e.accountARN("iam", "policy/"+name)
		e.iamState().Policies[arn] = Policy{Name: name, ID: e.iamID("ANPA"), Path: "/", Document: text, Created: now}
		role.Policies = append(role.Policies, arn)
	}
	e.iamState().Roles[role.Name] = role
}

func (e *Emulator) nodeRole() string       { return nodeRolePrefix + "-" + e.fixture.Cluster }
func (e *Emulator) controllerRole() string { return "KarpenterControllerRole-" + e.fixture.Cluster }

// iamState is the state, whole even after a partial import. The emulator must be locked.
func (e *Emulator) iamState() *IAMState {
	if e.model.IAM == nil {
		e.model.IAM = &IAMState{}
	}
	s := e.model.IAM
	if s.Roles == nil {
		s.Roles = map[string]Role{}
	}
	if s.Profiles == nil {
		s.Profiles = map[string]InstanceProfile{}
	}
	if s.Policies == nil {
		s.Policies = map[string]Policy{}
	}
	if s.Providers == nil {
		s.Providers = map[string]OIDCProvider{}
	}
	if s.Sessions == nil {
		s.Sessions = map[string]Session{}
	}
	return s
}

// profileUsable reports whether EC2 accepts a profile for a launch: it has a role, and is old enough
// to be known everywhere. The emulator must be locked.
func (e *Emulator) profileUsable(name string, now time.Time) bool {
	profile, found := e.iamState().Profiles[name]
	return found && profile.Role != "" && !now.Before(profile.Created.Add(time.Duration(e.rules.Lag["profiles"])))
}

// spotRolePresent reports whether the account may launch spot instances. The emulator must be locked.
func (e *Emulator) spotRolePresent() bool {
	_, found := e.iamState().Roles[spotRoleName]
	return found
}

// iamID is an id of 20 characters such as AIPA0123456789ABCDEF.
func (e *Emulator) iamID(prefix string) string {
	return prefix + strings.ToUpper(e.nextID("")[:20-len(prefix)])
}

// members renders a list of a query service; an empty one is an empty element, as AWS sends it.
type members[T any] struct {
	Member []T `xml:"member"`
}

type tagXML struct {
	Key   string
	Value string
}

type profileXML struct {
	Path                string
	InstanceProfileName string
	InstanceProfileID   string `xml:"InstanceProfileId"`
	Arn                 string
	CreateDate          string
	Roles               members[roleXML]
	Tags                *members[tagXML] `xml:",omitempty"`
}

type profileResult struct{ InstanceProfile profileXML }

type profileList struct {
	InstanceProfiles members[profileXML]
	IsTruncated      bool
	Marker           string `xml:",omitempty"`
}

func (e *Emulator) renderProfile(p InstanceProfile) profileXML {
	out := profileXML{
		Path: p.Path, InstanceProfileName: p.Name, InstanceProfileID: p.ID, CreateDate: wire.Time(p.Created),
		Arn: e.accountARN("iam", "instance-profile"+p.Path+p.Name), Tags: new(renderTags(p.Tags)),
	}
	if role, found := e.iamState().Roles[p.Role]; found {
		out.Roles.Member = []roleXML{e.renderRole(role)}
	}
	return out
}

func renderTags(tags map[string]string) members[tagXML] {
	var out members[tagXML]
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out.Member = append(out.Member, tagXML{Key: key, Value: tags[key]})
	}
	return out
}

// findProfile looks a profile up. The refusal must not contain the word that callers take for a
// missing role, not even through a name.
func (e *Emulator) findProfile(name string) (InstanceProfile, error) {
	if profile, found := e.iamState().Profiles[name]; found {
		return profile, nil
	}
	if strings.Contains(strings.ToLower(name), "role") {
		return InstanceProfile{}, wire.Errorf("NoSuchEntity", "The instance profile cannot be found.")
	}
	return InstanceProfile{}, wire.Errorf("NoSuchEntity", "Instance Profile %s cannot be found.", name)
}

func (e *Emulator) getInstanceProfile(c *call) (any, error) {
	profile, err := e.findProfile(c.Form.String("InstanceProfileName"))
	if err != nil {
		return nil, err
	}
	return profileResult{InstanceProfile: e.renderProfile(profile)}, nil
}

func (e *Emulator) createInstanceProfile(c *call) (any, error) {
	state, name, path := e.iamState(), c.Form.String("InstanceProfileName"), pathOf(c.Form.String("Path"))
	if err := validName("instanceProfileName", name, 128); err != nil {
		return nil, err
	}
	if err := validPath("path", path); err != nil {
		return nil, err
	}
	tags, err := tagsOf(c, nil)
	if err != nil {
		return nil, err
	}
	for existing := range state.Profiles {
		if strings.EqualFold(existing, name) {
			return nil, wire.Errorf("EntityAlreadyExists", "Instance Profile %s already exists.", name)
		}
	}
	if len(state.Profiles) >= maxProfiles {
		return nil, wire.Errorf("LimitExceeded", "Cannot exceed quota for InstanceProfilesPerAccount: %d", maxProfiles)
	}
	profile := InstanceProfile{Name: name, ID: e.iamID("AIPA"), Path: path, Tags: tags, Created: c.now}
	state.Profiles[name] = profile
	return profileResult{InstanceProfile: e.renderProfile(profile)}, nil
}

func (e *Emulator) deleteInstanceProfile(c *call) (any, error) {
	profile, err := e.findProfile(c.Form.String("InstanceProfileName"))
	if err != nil {
		return nil, err
	}
	if profile.Role != "" {
		return nil, wire.Errorf("DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.")
	}
	delete(e.iamState().Profiles, profile.Name)
	return nil, nil
}

func (e *Emulator) addRoleToInstanceProfile(c *call) (any, error) {
	profile, err := e.findProfile(c.Form.String("InstanceProfileName"))
	if err != nil {
		return nil, err
	}
	role, err := e.findRole(c.Form.String("RoleName"))
	if err != nil {
		return nil, err
	}
	if err := e.checkPermissions(c, e.passRole(role.Name)); err != nil {
		return nil, err
	}
	if profile.Role != "" {
		return nil, wire.Errorf("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1")
	}
	profile.Role = role.Name
	e.iamState().Profiles[profile.Name] = profile
	return nil, nil
}

func (e *Emulator) removeRoleFromInstanceProfile(c *call) (any, error) {
	profile, err := e.findProfile(c.Form.String("InstanceProfileName"))
	if err != nil {
		return nil, err
	}
	if name := c.Form.String("RoleName"); profile.Role != name || name == "" {
		return nil, wire.Errorf("NoSuchEntity", "The role with name %s is not in the instance profile.", name)
	}
	profile.Role = ""
	e.iamState().Profiles[profile.Name] = profile
	return nil, nil
}

func (e *Emulator) listInstanceProfiles(c *call) (any, error) {
	prefix := pathOf(c.Form.String("PathPrefix"))
	if !strings.HasPrefix(prefix, "/") {
		return nil, wire.Errorf("ValidationError", "The specified value for pathPrefix is invalid. It must begin with / and contain only printable characters.")
	}
	return e.profilePage(c, func(p InstanceProfile) bool { return strings.HasPrefix(p.Path, prefix) })
}

func (e *Emulator) listInstanceProfilesForRole(c *call) (any, error) {
	role, err := e.findRole(c.Form.String("RoleName"))
	if err != nil {
		return nil, err
	}
	return e.profilePage(c, func(p InstanceProfile) bool { return p.Role == role.Name })
}

func (e *Emulator) profilePage(c *call, want func(InstanceProfile) bool) (any, error) {
	state := e.iamState()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(state.Profiles)) {
		if want(state.Profiles[name]) {
			names = append(names, name)
		}
	}
	names, marker, err := iamPage(c, names)
	if err != nil {
		return nil, err
	}
	out := profileList{IsTruncated: marker != "", Marker: marker}
	for _, name := range names {
		profile := e.renderProfile(state.Profiles[name])
		profile.Tags = nil // AWS leaves them out of lists
		out.InstanceProfiles.Member = append(out.InstanceProfiles.Member, profile)
	}
	return out, nil
}

// iamPage cuts sorted names to the page that was requested. A marker is the last name of the page
// before, so that pages stay right while profiles come and go.
func iamPage(c *call, names []string) (page []string, marker string, err error) {
	size := c.Form.Int("MaxItems", 100)
	if size < 1 || size > 1000 {
		return nil, "", wire.Errorf("ValidationError", "1 validation error detected: Value '%d' at 'maxItems' failed to satisfy constraint: Member must be between 1 and 1000", size)
	}
	if after := c.Form.String("Marker"); after != "" {
		from, found := slices.BinarySearch(names, after)
		if found {
			from++
		}
		names = names[from:]
	}
	if len(names) > size {
		return names[:size], names[size-1], nil
	}
	return names, "", nil
}

func (e *Emulator) tagInstanceProfile(c *call) (any, error) {
	profile, err := e.findProfile(c.Form.String("InstanceProfileName"))
	if err != nil {
		return nil, err
	}
	if profile.Tags, err = tagsOf(c, profile.Tags); err != nil {
		return nil, err
	}
	e.iamState().Profiles[profile.Name] = profile
	return nil, nil
}

func (e *Emulator) untagInstanceProfile(c *call) (any, error) {
	profile, err := e.findProfile(c.Form.String("InstanceProfileName"))
	if err != nil {
		return nil, err
	}
	profile.Tags = maps.Clone(profile.Tags)
	for _, key := range c.Form.Strings("TagKeys") {
		delete(profile.Tags, key)
	}
	e.iamState().Profiles[profile.Name] = profile
	return nil, nil
}

func (e *Emulator) listInstanceProfileTags(c *call) (any, error) {
	profile, err := e.findProfile(c.Form.String("InstanceProfileName"))
	if err != nil {
		return nil, err
	}
	return tagList(profile.Tags), nil
}

// tagList is the response of the calls that list the tags of something.
func tagList(tags map[string]string) any {
	return struct {
		Tags        members[tagXML]
		IsTruncated bool
	}{Tags: renderTags(tags)}
}

// tagsOf adds the tags of a request to those that are there.
func tagsOf(c *call, have map[string]string) (map[string]string, error) {
	tags, seen := maps.Clone(have), map[string]bool{}
	if tags == nil {
		tags = map[string]string{}
	}
	for _, tag := range c.Form.List("Tags") {
		key := tag.String("Key")
		switch {
		case key == "" || len(key) > 128 || len(tag.String("Value")) > 256:
			return nil, wire.Errorf("ValidationError", "1 validation error detected: a tag key has 1 to 128 characters and a value at most 256")
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return nil, wire.Errorf("InvalidInput", "Tag keys that start with aws: are reserved for system use.")
		case seen[strings.ToLower(key)]:
			return nil, wire.Errorf("InvalidInput", "Duplicate tag keys found. Please note that Tag keys are case insensitive.")
		}
		seen[strings.ToLower(key)] = true
		tags[key] = tag.String("Value")
	}
	if len(tags) > maxProfileTags {
		return nil, wire.Errorf("LimitExceeded", "Cannot exceed quota for TagsPerInstanceProfile: %d", maxProfileTags)
	}
	return tags, nil
}

func pathOf(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

func validName(field, name string, longest int) error {
	if ok, err := regexp.MatchString(`^[\w+=,.@-]+$`, name); err != nil || !ok || len(name) > longest {
		return wire.Errorf("ValidationError", "The specified value for %s is invalid. It must contain only alphanumeric characters and/or the following: +=,.@_- and have 1 to %d of them.", field, longest)
	}
	return nil
}

func validPath(field, path string) error {
	if !strings.HasPrefix(path, "/") || !strings.HasSuffix(path, "/") || len(path) > 512 {
		return wire.Errorf("ValidationError", "The specified value for %s is invalid. It must begin and end with / and contain only alphanumeric characters and/or / characters.", field)
	}
	return nil
}
