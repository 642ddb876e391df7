package awsemu

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// Association gives the pods of a service account a role (EKS Pod Identity).
type Association struct {
	Cluster        string            `json:"cluster"`
	Namespace      string            `json:"namespace"`
	ServiceAccount string            `json:"serviceAccount"`
	Role           string            `json:"role"` // ARN
	NoSessionTags  bool              `json:"noSessionTags,omitempty"`
	Tags           map[string]string `json:"tags,omitempty"`
	Created        time.Time         `json:"created"`
	Modified       time.Time         `json:"modified"`
}

func (e *Emulator) registerPodIdentity() {
	e.register(wire.EKS, "DescribePodIdentityAssociation", e.describeAssociation)
	e.register(wire.EKS, "ListPodIdentityAssociations", e.listAssociations)
	e.registerMutating(wire.EKS, "CreatePodIdentityAssociation", e.createAssociation)
	e.registerMutating(wire.EKS, "UpdatePodIdentityAssociation", e.updateAssociation)
	e.registerMutating(wire.EKS, "DeletePodIdentityAssociation", e.deleteAssociation)
}

// associationOf finds the association of a service account of a cluster.
func (e *Emulator) associationOf(cluster, namespace, account string) (id string, found bool) {
	for id, a := range e.eksState().Associations {
		if a.Cluster == cluster && a.Namespace == namespace && a.ServiceAccount == account {
			return id, true
		}
	}
	return "", false
}

// podAssociation finds the association of a service account. All clusters are on one API server, and the pods of each: that
// of the fixture is checked first.
func (e *Emulator) podAssociation(namespace, account string) (id string, found bool) {
	for _, cluster := range e.allClusters() {
		if id, found := e.associationOf(cluster.Name, namespace, account); found {
			return id, true
		}
	}
	return "", false
}

// Associate gives the pods of a service account of the fixture's cluster a role, unless they have one.
func (e *Emulator) Associate(namespace, account, role string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, found := e.associationOf(e.fixture.Cluster, namespace, account); found {
		return
	}
	now := e.clock.Now()
	e.eksState().addAssociation(e.nextID("a-"), Association{
		Cluster: e.fixture.Cluster, Namespace: namespace, ServiceAccount: account, Role: e.accountARN("iam", "role/"+role), Created: now, Modified: now,
	})
	e.notifyChange()
}

// PodIdentity says whether the pods of a service account have a role by an association.
func (e *Emulator) PodIdentity(namespace, account string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, found := e.podAssociation(namespace, account)
	return found
}

// associationPath reads cluster and id of a path.
func (e *Emulator) associationPath(c *call) (cluster, id string, err error) {
	cluster, rest, _ := strings.Cut(strings.TrimPrefix(c.Path, "/clusters/"), "/")
	if _, err := e.clusterNamed(cluster); err != nil {
		return "", "", err
	}
	return cluster, strings.TrimPrefix(strings.TrimPrefix(rest, "pod-identity-associations"), "/"), nil
}

func (e *Emulator) findAssociation(c *call) (id string, a Association, err error) {
	cluster, id, err := e.associationPath(c)
	if err != nil {
		return "", a, err
	}
	a, found := e.eksState().Associations[id]
	if !found || a.Cluster != cluster {
		return "", a, wire.Errorf("ResourceNotFoundException", "No association found for association-id: %s", id)
	}
	return id, a, nil
}

func (e *Emulator) associationARN(id string, a Association) string {
	return e.accountARN("eks", "podidentityassociation/"+a.Cluster+"/"+id)
}

// summary is what lists say of an association.
func (e *Emulator) associationSummary(id string, a Association) map[string]any {
	return map[string]any{
		"clusterName": a.Cluster, "namespace": a.Namespace, "serviceAccount": a.ServiceAccount, "associationId": id, "associationArn": e.associationARN(id, a),
	}
}

func (e *Emulator) renderAssociation(id string, a Association) map[string]any {
	out := e.associationSummary(id, a)
	tags := maps.Clone(a.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	maps.Copy(out, map[string]any{
		"roleArn": a.Role, "tags": tags, "createdAt": wire.Epoch(a.Created), "modifiedAt": wire.Epoch(a.Modified), "disableSessionTags": a.NoSessionTags,
	})
	return map[string]any{"association": out}
}

func (e *Emulator) describeAssociation(c *call) (any, error) {
	id, a, err := e.findAssociation(c)
	if err != nil {
		return nil, err
	}
	return e.renderAssociation(id, a), nil
}

func (e *Emulator) listAssociations(c *call) (any, error) {
	cluster, _, err := e.associationPath(c)
	if err != nil {
		return nil, err
	}
	most, err := c.pageSize()
	if err != nil {
		return nil, err
	}
	list := []map[string]any{}
	response := map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(e.eksState().Associations)) {
		a := e.eksState().Associations[id]
		if a.Cluster != cluster || id <= c.Query.Get("nextToken") ||
			cmp.Or(c.Query.Get("namespace"), a.Namespace) != a.Namespace || cmp.Or(c.Query.Get("serviceAccount"), a.ServiceAccount) != a.ServiceAccount {
			continue
		}
		if len(list) == most {
			response["nextToken"] = list[most-1]["associationId"]
			break
		}
		list = append(list, e.associationSummary(id, a))
	}
	response["associations"] = list
	return response, nil
}

// associationInput is the body of the calls that make or change an association.
type associationInput struct {
	Namespace          string            `json:"namespace"`
	ServiceAccount     string            `json:"serviceAccount"`
	RoleArn            string            `json:"roleArn"`
	Tags               map[string]string `json:"tags"`
	DisableSessionTags *bool             `json:"disableSessionTags"`
}

func (e *Emulator) createAssociation(c *call) (any, error) {
	cluster, _, err := e.associationPath(c)
	if err != nil {
		return nil, err
	}
	var in associationInput
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	if in.Namespace == "" || in.ServiceAccount == "" {
		return nil, wire.Errorf("InvalidParameterException", "namespace and serviceAccount must not be empty")
	}
	if err := e.checkAssociable(in.RoleArn); err != nil {
		return nil, err
	}
	if id, found := e.associationOf(cluster, in.Namespace, in.ServiceAccount); found {
		return nil, wire.Errorf("ResourceInUseException", "Association already exists: %s", id)
	}
	a := Association{
		Cluster: cluster, Namespace: in.Namespace, ServiceAccount: in.ServiceAccount, Role: in.RoleArn, Tags: in.Tags, Created: c.now, Modified: c.now,
		NoSessionTags: in.DisableSessionTags != nil && *in.DisableSessionTags,
	}
	id := e.nextID("a-")
	e.eksState().addAssociation(id, a)
	return e.renderAssociation(id, a), nil
}

func (s *EKSState) addAssociation(id string, a Association) {
	if s.Associations == nil {
		s.Associations = map[string]Association{}
	}
	s.Associations[id] = a
}

// checkAssociable refuses roles that do not exist. Whom a role trusts is found out when a pod wants credentials.
func (e *Emulator) checkAssociable(arn string) error {
	if _, found := e.roleByARN(arn); !found {
		return wire.Errorf("InvalidParameterException", "Role provided in the request does not exist.")
	}
	return nil
}

func (e *Emulator) updateAssociation(c *call) (any, error) {
	id, a, err := e.findAssociation(c)
	if err != nil {
		return nil, err
	}
	var in associationInput
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	if in.RoleArn != "" {
		if err := e.checkAssociable(in.RoleArn); err != nil {
			return nil, err
		}
		a.Role = in.RoleArn
	}
	if in.DisableSessionTags != nil {
		a.NoSessionTags = *in.DisableSessionTags
	}
	a.Modified = c.now
	e.eksState().addAssociation(id, a)
	return e.renderAssociation(id, a), nil
}

func (e *Emulator) deleteAssociation(c *call) (any, error) {
	id, a, err := e.findAssociation(c)
	if err != nil {
		return nil, err
	}
	delete(e.eksState().Associations, id)
	return e.renderAssociation(id, a), nil
}
