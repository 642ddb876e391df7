package awsemu

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// AccessEntry lets a principal into the cluster.
type AccessEntry struct {
	Principal string            `json:"principal"` // ARN of a role or a user
	Type      string            `json:"type"`
	Username  string            `json:"username,omitempty"`
	Groups    []string          `json:"groups,omitempty"`
	Tags      map[string]string `json:"tags,omitempty"`
	Created   time.Time         `json:"created"`
	Modified  time.Time         `json:"modified,omitzero"`
}

// Types of access entries. Nodes need one of the first two.
const (
	entryLinux    = "EC2_LINUX"
	entryWindows  = "EC2_WINDOWS"
	entryStandard = "STANDARD"
)

func entryTypes() []string {
	return []string{entryLinux, entryWindows, entryStandard, "EC2", "FARGATE_LINUX", "HYBRID_LINUX", "HYPERPOD_LINUX"}
}

// UnmarshalJSON reads an entry, or the name of a role that gets the usual one for nodes.
func (a *AccessEntry) UnmarshalJSON(data []byte) error {
	var role string
	if json.Unmarshal(data, &role) == nil {
		*a = AccessEntry{Principal: role, Type: entryLinux}
		return nil
	}
	type plain AccessEntry
	var p plain
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	*a = AccessEntry(p)
	return nil
}

func cloneEntries(list []AccessEntry) []AccessEntry {
	out := slices.Clone(list)
	for n := range out {
		out[n].Groups, out[n].Tags = slices.Clone(out[n].Groups), maps.Clone(out[n].Tags)
	}
	return out
}

// completeEntry fills what the control leaves out.
func (e *Emulator) completeEntry(now time.Time, a *AccessEntry) error {
	if a.Principal == "" {
		return fmt.Errorf("principal: is required; the name of a role, or an ARN")
	}
	if !strings.HasPrefix(a.Principal, "arn:") {
		a.Principal = e.accountARN("iam", "role/"+a.Principal)
	}
	a.Type = cmp.Or(a.Type, entryLinux)
	if !slices.Contains(entryTypes(), a.Type) {
		return fmt.Errorf("type: %q is not known; want one of %v", a.Type, entryTypes())
	}
	if a.Created.IsZero() {
		a.Created = now
	}
	return nil
}

// MayJoin reports whether a node whose instance has this profile is let into the cluster: the role of
// the profile needs an access entry for nodes.
func (e *Emulator) MayJoin(profile string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	role := e.iamState().Profiles[profile].Role
	return role != "" && slices.ContainsFunc(e.allClusters(), func(c *Cluster) bool {
		return slices.ContainsFunc(c.AccessEntries, func(a AccessEntry) bool {
			return a.Principal[strings.LastIndex(a.Principal, "/")+1:] == role && (a.Type == entryLinux || a.Type == entryWindows)
		})
	})
}

func (e *Emulator) registerAccessEntries() {
	e.register(wire.EKS, "DescribeAccessEntry", e.describeAccessEntry)
	e.register(wire.EKS, "ListAccessEntries", e.listAccessEntries)
	e.registerMutating(wire.EKS, "CreateAccessEntry", e.createAccessEntry)
	e.registerMutating(wire.EKS, "UpdateAccessEntry", e.updateAccessEntry)
	e.registerMutating(wire.EKS, "DeleteAccessEntry", e.deleteAccessEntry)
}

// accessPath reads the cluster and the principal of a path.
func (e *Emulator) accessPath(c *call) (cluster *Cluster, principal string, err error) {
	name, rest, _ := strings.Cut(strings.TrimPrefix(c.Path, "/clusters/"), "/")
	if cluster, err = e.clusterNamed(name); err != nil {
		return nil, "", err
	}
	return cluster, strings.TrimPrefix(strings.TrimPrefix(rest, "access-entries"), "/"), nil
}

// entryOf finds the entry that a path names, by its place.
func (e *Emulator) entryOf(c *call) (cluster *Cluster, at int, err error) {
	cluster, principal, err := e.accessPath(c)
	if err != nil {
		return nil, 0, err
	}
	at = slices.IndexFunc(cluster.AccessEntries, func(a AccessEntry) bool { return a.Principal == principal })
	if at < 0 {
		return nil, 0, wire.Errorf("ResourceNotFoundException", "The specified principalArn could not be found. You can view your available access entries with 'list-access-entries'.")
	}
	return cluster, at, nil
}

func (e *Emulator) renderEntry(cluster *Cluster, a AccessEntry) map[string]any {
	username := a.Username
	if username == "" {
		username = "system:node:{{EC2PrivateDNSName}}"
	}
	groups := append([]string{}, a.Groups...)
	if len(groups) == 0 && a.Type != entryStandard {
		groups = []string{"system:nodes"}
	}
	modified := a.Modified
	if modified.IsZero() {
		modified = a.Created
	}
	tags := maps.Clone(a.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	return map[string]any{"accessEntry": map[string]any{
		"clusterName": cluster.Name, "principalArn": a.Principal, "type": a.Type, "username": username, "kubernetesGroups": groups,
		"accessEntryArn": e.entryARN(cluster.Name, a),
		"createdAt":      wire.Epoch(a.Created), "modifiedAt": wire.Epoch(modified), "tags": tags,
	}}
}

// entryARN names an entry: arn:aws:eks:<region>:<account>:access-entry/<cluster>/role/<account>/<name>/<id>.
func (e *Emulator) entryARN(cluster string, a AccessEntry) string {
	kind, name, _ := strings.Cut(a.Principal[strings.LastIndex(a.Principal, ":")+1:], "/")
	return e.accountARN("eks", "access-entry/"+cluster+"/"+kind+"/"+e.fixture.Account+"/"+name+"/"+stableID("", a.Principal))
}

func (e *Emulator) describeAccessEntry(c *call) (any, error) {
	cluster, at, err := e.entryOf(c)
	if err != nil {
		return nil, err
	}
	return e.renderEntry(cluster, cluster.AccessEntries[at]), nil
}

// pageSize is how many entries a list of EKS has at most.
func (c *call) pageSize() (int, error) {
	const most = 100
	text := c.Query.Get("maxResults")
	if text == "" {
		return most, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, wire.Errorf("InvalidParameterException", "maxResults must be between 1 and %d, not %q", most, text)
	}
	return n, nil
}

func (e *Emulator) listAccessEntries(c *call) (any, error) {
	cluster, _, err := e.accessPath(c)
	if err != nil {
		return nil, err
	}
	most, err := c.pageSize()
	if err != nil {
		return nil, err
	}
	principals := []string{}
	for _, a := range cluster.AccessEntries {
		if a.Principal > c.Query.Get("nextToken") {
			principals = append(principals, a.Principal)
		}
	}
	slices.Sort(principals)
	response := map[string]any{"accessEntries": principals}
	if len(principals) > most {
		response["accessEntries"], response["nextToken"] = principals[:most], principals[most-1]
	}
	return response, nil
}

// accessInput is the body of the calls that make or change an entry.
type accessInput struct {
	PrincipalArn     string            `json:"principalArn"`
	Type             string            `json:"type"`
	Username         string            `json:"username"`
	KubernetesGroups []string          `json:"kubernetesGroups"`
	Tags             map[string]string `json:"tags"`
}

func (e *Emulator) createAccessEntry(c *call) (any, error) {
	cluster, _, err := e.accessPath(c)
	if err != nil {
		return nil, err
	}
	var in accessInput
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	entry := AccessEntry{
		Principal: in.PrincipalArn, Type: cmp.Or(in.Type, entryStandard), Username: in.Username, Groups: in.KubernetesGroups, Tags: in.Tags, Created: c.now,
	}
	if err := e.checkEntry(entry); err != nil {
		return nil, err
	}
	for _, a := range cluster.AccessEntries {
		if a.Principal == entry.Principal {
			return nil, wire.Errorf("ResourceInUseException", "The specified access entry resource is already in use on this cluster.")
		}
	}
	if entry.Type == entryStandard && entry.Username == "" {
		entry.Username = entry.Principal
	}
	cluster.AccessEntries = append(cluster.AccessEntries, entry)
	return e.renderEntry(cluster, entry), nil
}

// checkEntry refuses what EKS refuses: principals that do not exist, and groups of nodes.
func (e *Emulator) checkEntry(a AccessEntry) error {
	invalid := func(format string, args ...any) error {
		return wire.Errorf("InvalidParameterException", format, args...)
	}
	if !slices.Contains(entryTypes(), a.Type) {
		return invalid("The type %q is not known", a.Type)
	}
	if strings.Contains(a.Principal, ":role/") {
		if _, found := e.roleByARN(a.Principal); !found {
			return invalid("The specified principalArn is invalid: invalid principal.")
		}
	} else if !strings.HasPrefix(a.Principal, "arn:aws:iam::") {
		return invalid("The specified principalArn is invalid: invalid ARN.")
	}
	if a.Type != entryStandard && (len(a.Groups) > 0 || a.Username != "") {
		return invalid("The kubernetesGroups and username cannot be set for the type %s.", a.Type)
	}
	for _, group := range a.Groups {
		if strings.HasPrefix(group, "system:") || strings.HasPrefix(group, "eks:") {
			return invalid("The kubernetes group name %s is invalid, it cannot start with system: or eks:.", group)
		}
	}
	return nil
}

func (e *Emulator) updateAccessEntry(c *call) (any, error) {
	cluster, at, err := e.entryOf(c)
	if err != nil {
		return nil, err
	}
	var in accessInput
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	entry := cluster.AccessEntries[at]
	entry.Modified = c.now
	if in.Username != "" {
		entry.Username = in.Username
	}
	if in.KubernetesGroups != nil {
		entry.Groups = in.KubernetesGroups
	}
	if err := e.checkEntry(entry); err != nil {
		return nil, err
	}
	cluster.AccessEntries[at] = entry
	return e.renderEntry(cluster, entry), nil
}

func (e *Emulator) deleteAccessEntry(c *call) (any, error) {
	cluster, at, err := e.entryOf(c)
	if err != nil {
		return nil, err
	}
	cluster.AccessEntries = slices.Delete(slices.Clone(cluster.AccessEntries), at, at+1)
	return nil, nil
}
