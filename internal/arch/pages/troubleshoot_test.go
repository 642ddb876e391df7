package pages_test

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
)

const troubleshooting = "docs/how-to/troubleshoot.md"

// The rows of the troubleshooting table of the installation guide (install 17) and of the seeds, and what their answer on the page
// must name. Where a row is answered on a page of its own, that page is linked.
var troubles = map[string][]string{
	"S-175 NodePool READY is False":             {"NodeClassReady", "UnhealthyDependents", "kubectl describe nodepool", "kubectl describe ec2nodeclass"},
	"S-176 no subnet is tagged":                 {"SubnetsReady", "SubnetsNotFound", "no subnet matches spec.subnetSelectorTerms", "within a minute"},
	"S-177 no security group is tagged":         {"SecurityGroupsReady", "SecurityGroupsNotFound", "no security group matches spec.securityGroupSelectorTerms"},
	"S-178 wrong alias or AMI":                  {"AMIsReady", "AMINotFound", "UnsupportedAlias", "Use `al2023@latest` or `al2023`; both are valid"},
	"S-179 node role missing":                   {"InstanceProfileReady", "RoleNotFound", "spec.role"},
	"S-185 missing controller permission":       {"CreateFleetAuthCheckFailed", "RunInstancesAuthCheckFailed", "CreateLaunchTemplateAuthCheckFailed", "kubectl annotate ec2nodeclass", "reference/iam.md"},
	"restricted tag":                            {"TagValidationFailed", "set by the controller"},
	"user data too big":                         {"UserDataSizeLimitExceeded", "karpenter_ec2nodeclasses_userdata_bytes"},
	"S-180 pod Pending, no node":                {"FailedScheduling", "NoCompatibleInstanceTypes", "kubectl describe pod", "--field-selector=status.phase=Pending"},
	"S-181 pod without requests":                {"set-requests.md", "LimitRange"},
	"NodePool limit reached":                    {"exceeds its limits", "status.resources", "grep limits -A 5"},
	"NodeClaim appears and vanishes":            {"InsufficientCapacityError", "3 minutes", "karpenter_cloudprovider_instance_type_offering_available"},
	"spot role missing":                         {"SpotServiceLinkedRoleMissing", "AuthFailure.ServiceLinkedRoleCreationNotPermitted", "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"},
	"NodeClaim stuck unlaunched":                {"`Launched` is Unknown", "5 minutes"},
	"node never registers":                      {"`Registered` is Unknown", "NodeNotFound", "15 minutes", "UnregisteredTaintMissing", "NodeRegistrationHealthy"},
	"node not initialized":                      {"`Initialized` is Unknown", "ResourceNotRegistered", "StartupTaintsExist", "NodeNotReady", "nvidia.com/gpu", "vpc.amazonaws.com/pod-eni"},
	"node Unauthorized":                         {"access entry or aws-auth", "journalctl -u kubelet"},
	"pods without IP":                           {"maxPods", "prefix delegation", "reservedENIs"},
	"instance ends at once":                     {"StateReason", "KMS"},
	"memory estimate wrong":                     {"ConsistentStateFound", "vmMemoryOverheadPercent"},
	"S-184 interruptions not handled":           {"reading the interruption queue", "there is no queue", "karpenter_interruption_received_messages_total", "aws sqs get-queue-attributes", "aws events list-rules --name-prefix Karpenter"},
	"STS timeout at start":                      {"web identity", "dnsPolicy=Default"},
	"pricing timeout in private subnet":         {"set isolated-vpc", "private-clusters.md"},
	"controller exits at start":                 {"CLUSTER_NAME: not given", "check the network", "set cluster-endpoint", "--previous"},
	"second replica Pending":                    {"anti-affinity", "replicas=1"},
	"S-182 nodes not removed":                   {"DisruptionBlocked", "Unconsolidatable", "karpenter.sh/do-not-disrupt", "a budget of the NodePool says 0", "is not initialized", "AwaitingVolumeDetachment", "VolumesDetached"},
	"S-183 consolidation too eager":             {"WhenEmpty", "consolidateAfter", "tune-consolidation.md"},
	"S-185 service account, role, trust":        {"kubectl get serviceaccount karpenter", "aws iam get-role", "aws sts get-caller-identity", "eks.amazonaws.com/role-arn"},
	"unknown field on apply":                    {"unknown field", "upgrade the CRD chart"},
	"Helm ownership error on CRD chart":         {"invalid ownership metadata", "migrate-from-karpenter.md#the-swap"},
	"AWS node still present after uninstall":    {"karpenter.sh/termination", "uninstall.md"},
	"debug logging":                             {"logLevel=debug", "LOG_LEVEL=debug"},
	"S-186 the controller on nodes it manages":  {"Never run the controller only on nodes that it manages", "high-availability.md"},
	"S-101 pricing and availability in the log": {`grep "instance type"`},
}

func TestS_175_S_186_EverySymptomIsOnThePage(t *testing.T) {
	t.Parallel()
	page := read(t, troubleshooting)
	for row, texts := range troubles {
		for _, text := range texts {
			if !strings.Contains(page, text) {
				t.Errorf("%s: %s does not say %q", row, troubleshooting, text)
			}
		}
	}
}

// What the page quotes in the column "It shows" is what the software says: each quotation is in the source of the program, or in
// the tests of sandbox/trouble, which read it from kubectl. … stands for a part that differs.
func TestTroubleshootingQuotesTheProgram(t *testing.T) {
	t.Parallel()
	said := sources(t, "internal", "api") + testsOf(t, "sandbox/trouble")
	said = strings.NewReplacer(`\"`, `"`, "%w", "", "` + ", "").Replace(said)
	quote := regexp.MustCompile("`([^`]+)`")
	checked := 0
	column := -1
	for line := range strings.Lines(read(t, troubleshooting)) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "¦"), "|")
		if !strings.HasPrefix(line, "|") {
			column = -1
			continue
		}
		for i, cell := range cells {
			if strings.TrimSpace(cell) == "It shows" {
				column = i
			}
		}
		if column < 0 || column >= len(cells) {
			continue
		}
		for _, m := range quote.FindAllStringSubmatch(cells[column], -1) {
			if others[m[1]] || strings.HasPrefix(m[1], "kubectl ") {
				continue
			}
			for part := range strings.SplitSeq(m[1], "…") {
				checked++
				if part = strings.TrimSpace(part); !strings.Contains(said, part) {
					t.Errorf("the page quotes %q, and %q is said nowhere in the program or in sandbox/trouble", m[1], part)
				}
			}
		}
	}
	if checked < 60 {
		t.Errorf("%d quotations were checked; is the table read at all?", checked)
	}
}

// others are quotations of programs that are not ours.
var others = map[string]bool{
	"failed to assign an IP address":       true, // the CNI of AWS
	"didn't match pod anti-affinity rules": true, // kube-scheduler
	"invalid ownership metadata":           true, // helm
	"optionalRights.foreignLeases":         true, // a value of the chart
}

// sources is the text of the program below some folders, without tests.
func sources(t *testing.T, dirs ...string) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range dirs {
		err := fs.WalkDir(root, dir, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") {
				all.WriteString(read(t, name))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

func testsOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := fs.Glob(root, path.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(dir, err)
	}
	var all strings.Builder
	for _, file := range files {
		all.WriteString(read(t, file))
	}
	return all.String()
}
