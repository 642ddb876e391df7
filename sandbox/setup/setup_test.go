package setup

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/iam"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

const (
	controllerRole = "KarpenterControllerRole-" + cluster
	nodeRole       = "KarpenterNodeInstanceRole"
	profile        = "KarpenterNodeInstanceProfile"
	queue          = "Karpenter-" + cluster
	spotRole       = "AWSServiceRoleForEC2Spot"
	issuer         = "oidc.eks." + region + ".amazonaws.com/id/SANDBOX"
	mark           = "setup-karpenter-iam/" + region + "/" + cluster
)

// allCreateFlags is what create is requested in most tests.
func allCreateFlags(command string, more ...string) []string {
	return append([]string{command, "--queue", "--spot-role"}, more...)
}

func roleARN(name string) string   { return "arn:aws:iam::" + account + ":role/" + name }
func policyARN(name string) string { return "arn:aws:iam::" + account + ":policy/" + name }

// values are what the documents are filled with.
func values() iam.Values {
	return iam.Values{
		Partition: "aws", Region: region, AccountID: account, ClusterName: cluster, NodeRoleName: nodeRole, QueueName: queue,
		OIDCProvider: issuer, Namespace: "kube-system", ServiceAccount: "karpenter",
	}
}

func fillDocument(t *testing.T, d iam.Document) string {
	t.Helper()
	text, err := iam.Fill(d, values())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// made is what an account has, in words that two accounts can be compared by: ids and times left out, white space of documents too.
type made struct {
	Roles        map[string]string // trust and policies
	Profiles     map[string]string // role
	Policies     map[string]string // document of the version in use
	Providers    map[string]string // audiences
	Entries      map[string]string // type
	Associations map[string]string // role
	Queues       map[string]map[string]string
	Rules        map[string]string // pattern and targets
}

func (a *emulated) createdResources(t *testing.T) made {
	t.Helper()
	m := a.accountModel(t)
	out := made{map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}, map[string]map[string]string{}, map[string]string{}}
	for name, r := range m.IAM.Roles {
		out.Roles[name] = removeSpaces(r.Trust) + " " + strings.Join(slices.Sorted(slices.Values(r.Policies)), " ")
	}
	for name, p := range m.IAM.Profiles {
		out.Profiles[name] = p.Role
	}
	for arn, p := range m.IAM.Policies {
		out.Policies[arn] = removeSpaces(p.Document)
	}
	for arn, p := range m.IAM.Providers {
		out.Providers[arn] = strings.Join(p.ClientIDs, " ")
	}
	for _, entry := range m.EKS.Cluster.AccessEntries {
		out.Entries[entry.Principal] = entry.Type
	}
	for _, one := range m.EKS.Associations {
		out.Associations[one.Namespace+"/"+one.ServiceAccount] = one.Role
	}
	for name, q := range m.SQS.Queues {
		out.Queues[name] = map[string]string{}
		for key, value := range q.Attributes {
			out.Queues[name][key] = removeSpaces(value)
		}
	}
	for name, r := range m.SQS.Rules {
		targets := ""
		for _, id := range slices.Sorted(maps.Keys(r.Targets)) {
			targets += " " + id + "=" + r.Targets[id]
		}
		out.Rules[name] = strings.Join(r.Pattern.Source, " ") + "|" + string(r.Pattern.DetailType[0]) + targets
	}
	return out
}

func removeSpaces(text string) string { return strings.Join(strings.Fields(text), "") }

// expectedResources is what create creates in an account that is not prepared, by the documents of package iam.
func expectedResources(t *testing.T, trust iam.Document) made {
	t.Helper()
	out := made{
		Roles: map[string]string{}, Profiles: map[string]string{profile: nodeRole}, Policies: map[string]string{}, Providers: map[string]string{},
		Entries: map[string]string{roleARN(nodeRole): "EC2_LINUX"}, Associations: map[string]string{}, Rules: map[string]string{},
		Queues: map[string]map[string]string{queue: {"MessageRetentionPeriod": "300", "VisibilityTimeout": "60", "SqsManagedSseEnabled": "true", "Policy": removeSpaces(fillDocument(t, iam.Queue()))}},
	}
	var arns, managed []string
	for _, d := range iam.Controller() {
		arns = append(arns, policyARN(d.Name+"-"+cluster))
		out.Policies[arns[len(arns)-1]] = removeSpaces(fillDocument(t, d))
	}
	for _, name := range iam.ManagedPolicies() {
		managed = append(managed, "arn:aws:iam::aws:policy/"+name)
	}
	slices.Sort(arns)
	slices.Sort(managed)
	out.Roles[controllerRole] = removeSpaces(fillDocument(t, trust)) + " " + strings.Join(arns, " ")
	out.Roles[nodeRole] = removeSpaces(fillDocument(t, iam.NodeTrust())) + " " + strings.Join(managed, " ")
	out.Roles[spotRole] = removeSpaces(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"spot.amazonaws.com"},"Action":"sts:AssumeRole"}]}`) + " "
	for _, d := range iam.EventRules() {
		_, kind, _ := strings.Cut(d.Text, `"detail-type": [`)
		source := "aws.ec2"
		if d.Name == "ScheduledChange" {
			source = "aws.health"
		}
		out.Rules["Karpenter-"+cluster+"-"+d.Name+"Rule"] = source + "|" + strings.Trim(kind, "]} \n\"") + " KarpenterInterruptionQueueTarget=arn:aws:sqs:" + region + ":" + account + ":" + queue
	}
	if trust.File == iam.IRSATrust().File {
		out.Providers["arn:aws:iam::"+account+":oidc-provider/"+issuer] = "sts.amazonaws.com"
	} else {
		out.Associations["kube-system/karpenter"] = roleARN(controllerRole)
	}
	return out
}

// checkNoWrites checks that a run made no call that writes.
func (r result) checkNoWrites(t *testing.T) {
	t.Helper()
	if len(r.writes) > 0 {
		t.Errorf("calls that write: %q\n%s", r.writes, r.output)
	}
}

// The whole way with both kinds of credentials, each step twice: what it makes is what the documents of iam/ say, status agrees, and nothing
// but the role for spot is left in the end.
func TestS_126_Life(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		flags  []string
		trust  iam.Document
		modern bool
	}{
		"S-122 pod identity": {trust: iam.PodIdentityTrust(), modern: true},
		"S-123 IRSA":         {trust: iam.IRSATrust(), flags: []string{"--auth", "irsa", "--no-access-entry"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needAWS(t, tc.modern)
			a := newAccount(t)
			empty := a.createdResources(t)

			a.runExpectingError(t, allCreateFlags("status", tc.flags...), "missing  role of the controller "+controllerRole, "missing  role of the nodes "+nodeRole, "missing  queue "+queue, "are missing or wrong").checkNoWrites(t)
			a.runSuccessfully(t, allCreateFlags("create", tc.flags...)...).checkReportWords(t, "created", "note")
			want := expectedResources(t, tc.trust)
			if !tc.modern {
				want.Entries = map[string]string{}
			}
			if diff := cmp.Diff(want, a.createdResources(t)); diff != "" {
				t.Fatalf("what create made (-want +got):\n%s", diff)
			}
			r := a.runSuccessfully(t, allCreateFlags("create", tc.flags...)...)
			r.checkNoWrites(t)
			r.checkReportWords(t, "exists", "note")
			a.runSuccessfully(t, "status").checkNoWrites(t) // the flags of create are kept
			a.runSuccessfully(t, "delete").checkReportWords(t, "deleted")
			empty.Roles[spotRole] = want.Roles[spotRole]
			if diff := cmp.Diff(empty, a.createdResources(t)); diff != "" {
				t.Errorf("S-139 what delete left (-want +got):\n%s", diff)
			}
			r = a.runSuccessfully(t, append([]string{"delete"}, tc.flags...)...)
			r.checkNoWrites(t)
			r.checkReportWords(t, "absent")
		})
	}
}

// once is the state of an account after a create that nothing went wrong in.
var once struct {
	sync.Mutex

	state []byte
}

// accountAfterCreate is an account after a create that nothing went wrong in.
func accountAfterCreate(t *testing.T) *emulated {
	t.Helper()
	needAWS(t, true)
	a := newAccount(t)
	once.Lock()
	defer once.Unlock()
	if once.state != nil {
		if err := a.Restore(once.state); err != nil {
			t.Fatal(err)
		}
		return a
	}
	a.runSuccessfully(t, allCreateFlags("create")...)
	var err error
	if once.state, err = a.Snapshot(); err != nil {
		t.Fatal(err)
	}
	return a
}

// --dry-run prints what would be done, and does none of it.
func TestDryRun(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	r := a.runSuccessfully(t, allCreateFlags("create", "--auth", "irsa", "--no-access-entry", "--dry-run")...)
	r.checkNoWrites(t)
	r.checkOutput(t, "would run: aws --region "+region+" iam create-role --role-name "+controllerRole, "would run: aws --region "+region+" sqs create-queue --queue-name "+queue)
	r = accountAfterCreate(t).runSuccessfully(t, "delete", "--dry-run")
	r.checkNoWrites(t)
	r.checkOutput(t, "would run: aws --region "+region+" iam delete-role --role-name "+nodeRole, "would run: aws --region "+region+" events delete-rule --name Karpenter-sandbox-RebalanceRule")
}

// What the guides name, and what operators look at (S-112, S-113).
func TestWhatIsMade(t *testing.T) {
	t.Parallel()
	a := accountAfterCreate(t)
	m := a.accountModel(t)
	t.Run("S-127 S-130 S-134 in the order of the guide", func(t *testing.T) {
		node := m.IAM.Roles[nodeRole]
		for _, name := range []string{"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly", "AmazonSSMManagedInstanceCore"} {
			if !slices.Contains(node.Policies, "arn:aws:iam::aws:policy/"+name) {
				t.Errorf("the role of the nodes has not %s: %q", name, node.Policies)
			}
		}
		if !strings.Contains(node.Trust, `"ec2.amazonaws.com"`) || m.IAM.Profiles[profile].Role != nodeRole {
			t.Errorf("trust %s, profile %+v", node.Trust, m.IAM.Profiles[profile])
		}
		var node1 []string
		for _, w := range a.copyOf(t).runSuccessfully(t, "delete").writes {
			if strings.Contains(w, nodeRole) || strings.Contains(w, profile) {
				node1 = append(node1, w)
			}
		}
		detach := "DetachRolePolicy " + nodeRole
		want := []string{"RemoveRoleFromInstanceProfile " + nodeRole, "DeleteInstanceProfile " + profile, detach, detach, detach, detach, "DeleteRole " + nodeRole}
		if diff := cmp.Diff(want, node1); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("S-131 nodes with the profile may join", func(t *testing.T) {
		if !a.MayJoin(profile) {
			t.Error("no access entry lets them in")
		}
	})
	t.Run("S-122 pods of the controller have the role", func(t *testing.T) {
		if !a.PodIdentity("kube-system", "karpenter") {
			t.Error("no association gives it to them")
		}
	})
	t.Run("marked", func(t *testing.T) {
		tags := map[string]map[string]string{
			controllerRole: m.IAM.Roles[controllerRole].Tags, nodeRole: m.IAM.Roles[nodeRole].Tags, profile: m.IAM.Profiles[profile].Tags, queue: m.SQS.Queues[queue].Tags,
			"access entry": m.EKS.Cluster.AccessEntries[0].Tags,
		}
		for arn, p := range m.IAM.Policies {
			tags[arn] = p.Tags
		}
		for name, r := range m.SQS.Rules {
			tags[name] = r.Tags
		}
		for _, one := range m.EKS.Associations {
			tags["association"] = one.Tags
		}
		for what, list := range tags {
			if list[mark] != "true" {
				t.Errorf("%s has the tags %v, without %s", what, list, mark)
			}
		}
	})
	for name, tc := range map[string]struct {
		call []string
		want string
	}{
		"S-112 who am I":              {[]string{"sts", "get-caller-identity"}, account},
		"S-112 S-128 role":            {[]string{"iam", "get-role", "--role-name", controllerRole}, "pods.eks.amazonaws.com"},
		"S-112 S-127 profile":         {[]string{"iam", "get-instance-profile", "--instance-profile-name", profile}, nodeRole},
		"S-113 S-138 queue":           {[]string{"sqs", "get-queue-url", "--queue-name", queue}, queue},
		"S-113 S-137 rules":           {[]string{"events", "list-rules", "--name-prefix", "Karpenter"}, "EC2 Spot Instance Interruption Warning"},
		"S-139 role for spot":         {[]string{"iam", "get-role", "--role-name", spotRole}, "aws-service-role/spot.amazonaws.com"},
		"S-129 what it is allowed to": {[]string{"iam", "list-attached-role-policies", "--role-name", controllerRole}, "KarpenterControllerNodeLifecyclePolicy-" + cluster},
	} {
		t.Run(name, func(t *testing.T) {
			if out := a.runAWS(t, tc.call...); !strings.Contains(out, tc.want) {
				t.Errorf("aws %s does not say %q:\n%s", strings.Join(tc.call, " "), tc.want, out)
			}
		})
	}
}

// Names that guides use, given by flags and kept.
func TestS_128_OtherNames(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	needAWS(t, true)
	a.runSuccessfully(t, "create", "--node-role=KarpenterNodeRole-sandbox", "--instance-profile", "KarpenterNodeInstanceProfile-sandbox", "--namespace", "karpenter",
		"--service-account", "autoscaler", "--controller-role", "KarpenterControllerRole", "--queue-name", "karpenter-sandbox")
	got := a.createdResources(t)
	if got.Profiles["KarpenterNodeInstanceProfile-sandbox"] != "KarpenterNodeRole-sandbox" || got.Associations["karpenter/autoscaler"] != roleARN("KarpenterControllerRole") || got.Queues["karpenter-sandbox"] == nil {
		t.Errorf("made %+v", got)
	}
	for arn, text := range map[string]string{
		policyARN("KarpenterControllerIAMIntegrationPolicy-sandbox"): roleARN("KarpenterNodeRole-sandbox"), policyARN("KarpenterControllerInterruptionPolicy-sandbox"): ":karpenter-sandbox",
	} {
		if !strings.Contains(got.Policies[arn], text) {
			t.Errorf("S-138 %s does not speak of %s: %s", arn, text, got.Policies[arn])
		}
	}
	again := a.runSuccessfully(t, "create", "--controller-role", "KarpenterControllerRole")
	again.checkNoWrites(t)
	again.checkOutput(t, "exists   role of the nodes KarpenterNodeRole-sandbox", "exists   queue karpenter-sandbox")
	a.runSuccessfully(t, "delete", "--controller-role", "KarpenterControllerRole")
	if diff := cmp.Diff(newAccount(t).createdResources(t), a.createdResources(t)); diff != "" {
		t.Errorf("what delete left (-want +got):\n%s", diff)
	}
}

// What others made is left as it is, by create and by delete.
func TestWhatOthersMade(t *testing.T) {
	t.Parallel()
	needAWS(t, true)
	a := startAccount(t, awsemu.Fixture{Queue: queue}) // prepared as the guides say, by hand
	a.set(t, func(m *awsemu.Model) {
		role := m.IAM.Roles[controllerRole]
		role.Policies = role.Policies[1:]
		m.IAM.Roles[controllerRole] = role
	})
	before := a.createdResources(t)
	r := a.runSuccessfully(t, allCreateFlags("create")...)
	r.checkNoWrites(t)
	r.checkOutput(t, "exists   role of the controller "+controllerRole+": not made by this script, left as it is",
		"wrong    policy KarpenterControllerNodeLifecyclePolicy-sandbox of the role of the controller "+controllerRole+": not attached; run aws iam attach-role-policy",
		"wrong    policy KarpenterControllerIAMIntegrationPolicy-sandbox: not made by this script, and not that of iam/policies", // it is for another role
		"exists   instance profile "+profile, "exists   access entry of "+nodeRole, "exists   role "+spotRole, "wrong    queue "+queue+": not made by this script")
	a.runSuccessfully(t, "delete", "--queue").checkOutput(t, "kept     role of the controller "+controllerRole+": not made by this script for the cluster "+cluster)
	if diff := cmp.Diff(before, a.createdResources(t)); diff != "" {
		t.Errorf("what delete left (-want +got):\n%s", diff)
	}
}

// Clusters that share the role of the nodes: the last one deletes it.
func TestSharedRole(t *testing.T) {
	t.Parallel()
	a := accountAfterCreate(t)
	subnets := a.accountModel(t).EKS.Cluster.Subnets
	a.runAWS(t, "eks", "create-cluster", "--name", "second", "--role-arn", roleARN(nodeRole), "--resources-vpc-config", "subnetIds="+strings.Join(subnets, ","), "--access-config", "authenticationMode=API")
	second := a.withVariables("CLUSTER_NAME=second")
	second.runSuccessfully(t, "create").checkOutput(t, "updated  role of the nodes "+nodeRole, "updated  instance profile "+profile)
	a.runSuccessfully(t, "delete").checkOutput(t, "kept     role of the nodes "+nodeRole+": used by "+region+"/second", "kept     instance profile "+profile+": used by "+region+"/second")
	if !a.MayJoin(profile) {
		t.Error("the nodes of the second cluster may no longer join")
	}
	a.withVariables("CLUSTER_NAME=third").runSuccessfully(t, "delete").checkOutput(t, "note     cluster third: not in "+region, "kept     role of the nodes "+nodeRole)
	second.runSuccessfully(t, "delete").checkOutput(t, "deleted  role of the nodes "+nodeRole)
	other := accountAfterCreate(t)
	other.set(t, func(m *awsemu.Model) {
		role := m.IAM.Roles[controllerRole]
		delete(role.Tags, mark)
		role.Tags["setup-karpenter-iam/us-east-1/"+cluster] = "true"
	})
	other.runExpectingError(t, allCreateFlags("create"), "the role "+controllerRole+" was made for the cluster us-east-1/"+cluster, "each cluster needs a name of its own").checkNoWrites(t)
}
