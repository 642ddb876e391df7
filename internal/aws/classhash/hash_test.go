package classhash_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/classhash"
	_ "github.com/dovetail-sh/dovetail/internal/seed" // the same values in every run
)

const fullClass = `
metadata: {name: c}
spec:
  subnetSelectorTerms: [{tags: {discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {discovery: demo}}]
  amiSelectorTerms: [{alias: al2023@latest}]
  role: nodes
  userData: echo hi
  tags: {team: a, env: dev}
  kubelet: {maxPods: 20, clusterDNS: [10.0.0.1, 10.0.0.2]}
  blockDeviceMappings:
  - {deviceName: /dev/xvda, rootVolume: true, ebs: {volumeSize: 20Gi, volumeType: gp3, encrypted: true}}
  - {deviceName: /dev/xvdb, ebs: {volumeSize: 1T, iops: 3000}}
  instanceStorePolicy: RAID0
  networkInterfaces: [{networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}, {networkCardIndex: 0, deviceIndex: 1, interfaceType: efa-only}]
  detailedMonitoring: true
  associatePublicIPAddress: true
  metadataOptions: {httpTokens: optional}
  connectionTracking: {udpTimeout: 40}
  context: ctx
  cpuOptions: {nestedVirtualization: enabled}
  placementGroupSelector: {name: g}
`

var facts = awsv1.Facts{ClusterName: "demo", KubernetesMinor: 34}

func classHash(t *testing.T, text string) string {
	t.Helper()
	c := &awsv1.EC2NodeClass{}
	if err := yaml.UnmarshalStrict([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	h, err := classhash.Of(c, facts, "ca")
	if err != nil {
		t.Fatal(err)
	}
	return h.Sum
}

// The values below are frozen. A different value under the same version string replaces every node
// of every cluster at the next upgrade: change the version, not the table.
func TestHashesAreFrozen(t *testing.T) {
	t.Parallel()
	if classhash.Version != "dovetail-2" {
		t.Fatal("a new hash version needs a table of its own")
	}
	for name, tc := range map[string]struct{ got, want string }{
		"EC2NodeClass 16 full class":           {classHash(t, fullClass), "2058571857673695178"},
		"EC2NodeClass 16 smallest class":       {classHash(t, "spec: {subnetSelectorTerms: [{id: subnet-1}], role: r, amiSelectorTerms: [{alias: al2023}]}"), "12227200385208701671"},
		"EC2NodeClass 16 bottlerocket by name": {classHash(t, "spec: {subnetSelectorTerms: [{id: subnet-1}], instanceProfile: p, amiFamily: Bottlerocket, amiSelectorTerms: [{id: ami-1}]}"), "9707958636599215274"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: hash %s, frozen as %s", name, tc.got, tc.want)
		}
	}
}

func TestClassHashChangesWithEveryStaticFieldAndNoOther(t *testing.T) {
	t.Parallel()
	base := classHash(t, fullClass)
	for name, tc := range map[string]struct {
		oldnew     []string
		wantChange bool
	}{
		"EC2NodeClass 16 family":                                {[]string{"al2023@latest", "bottlerocket@latest"}, true},
		"EC2NodeClass 16 role":                                  {[]string{"role: nodes", "role: other"}, true},
		"EC2NodeClass 16 role becomes profile":                  {[]string{"role: nodes", "instanceProfile: nodes"}, true},
		"EC2NodeClass 16 user data":                             {[]string{"echo hi", "echo ho"}, true},
		"EC2NodeClass 16 tags":                                  {[]string{"env: dev", "env: prod"}, true},
		"EC2NodeClass 16 kubelet":                               {[]string{"maxPods: 20", "maxPods: 21"}, true},
		"EC2NodeClass 16 kubelet: false is not absent":          {[]string{"maxPods: 20", "maxPods: 20, cpuCFSQuota: false"}, true},
		"EC2NodeClass 16 volume size":                           {[]string{"20Gi", "30Gi"}, true},
		"EC2NodeClass 16 root volume":                           {[]string{"rootVolume: true", "rootVolume: false"}, true},
		"EC2NodeClass 16 instance store":                        {[]string{"  instanceStorePolicy: RAID0\n", ""}, true},
		"EC2NodeClass 16 network interfaces":                    {[]string{"deviceIndex: 1", "deviceIndex: 2"}, true},
		"EC2NodeClass 16 monitoring":                            {[]string{"  detailedMonitoring: true\n", ""}, true},
		"EC2NodeClass 16 public address":                        {[]string{"  associatePublicIPAddress: true\n", ""}, true},
		"EC2NodeClass 16 metadata options":                      {[]string{"httpTokens: optional", "httpTokens: required"}, true},
		"EC2NodeClass 16 connection tracking":                   {[]string{"udpTimeout: 40", "udpTimeout: 41"}, true},
		"EC2NodeClass 16 context":                               {[]string{"context: ctx", "context: other"}, true},
		"EC2NodeClass 16 cpu options":                           {[]string{"nestedVirtualization: enabled", "nestedVirtualization: disabled"}, true},
		"EC2NodeClass 16 placement group":                       {[]string{"{name: g}", "{name: h}"}, true},
		"EC2NodeClass 16 selectors are compared, not hashed":    {[]string{"discovery: demo", "discovery: other"}, false},
		"EC2NodeClass 16 another version of the same family":    {[]string{"al2023@latest", "al2023@v20250101"}, false},
		"EC2NodeClass 16 ipPrefixCount never drifts":            {[]string{"context: ctx", "context: ctx\n  ipPrefixCount: 2"}, false},
		"EC2NodeClass 16 order of members of the kubelet block": {[]string{"maxPods: 20, clusterDNS: [10.0.0.1, 10.0.0.2]", "clusterDNS: [10.0.0.1, 10.0.0.2], maxPods: 20"}, false},
		"EC2NodeClass 16 zero equals unset":                     {[]string{"iops: 3000", "iops: 3000, throughput: 0, kmsKeyID: ''"}, false},
		"EC2NodeClass 16 the default written down":              {[]string{"httpTokens: optional", "httpTokens: optional, httpEndpoint: enabled, httpPutResponseHopLimit: 1"}, false},
		"EC2NodeClass 16 another spelling of the same size":     {[]string{"1T", "1000G"}, false},
		"L-17 AL2 where AL2023 is used anyway is AL2023":        {[]string{"al2023@latest", "al2@latest"}, false},
		"L-06 alias without a version":                          {[]string{"al2023@latest", "al2023"}, false},
		"encrypted: false is not the image's choice":            {[]string{"encrypted: true", "encrypted: false"}, true},
		"deleteOnTermination: false is a choice":                {[]string{"encrypted: true", "encrypted: true, deleteOnTermination: false"}, true},
		"no public address is not the subnet's choice":          {[]string{"associatePublicIPAddress: true", "associatePublicIPAddress: false"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if changed := classHash(t, strings.NewReplacer(tc.oldnew...).Replace(fullClass)) != base; changed != tc.wantChange {
				t.Errorf("hash changed: %v, want %v", changed, tc.wantChange)
			}
		})
	}
	absent := classHash(t, strings.Replace(fullClass, "  associatePublicIPAddress: true\n", "", 1))
	if absent == classHash(t, strings.Replace(fullClass, "associatePublicIPAddress: true", "associatePublicIPAddress: false", 1)) {
		t.Error("associatePublicIPAddress false hashes like absent, but launches another machine")
	}
	c := &awsv1.EC2NodeClass{}
	if err := yaml.Unmarshal([]byte(fullClass), c); err != nil {
		t.Fatal(err)
	}
	if rotated, err := classhash.Of(c, facts, "new ca"); err != nil || rotated.Sum == base {
		t.Errorf("EC2NodeClass 16: a new CA bundle must drift the nodes (%v)", err)
	}
}

// What AWS returned does not enter the hash, and without the version there is none.
func TestClassHashDependsOnConstantsAlone(t *testing.T) {
	t.Parallel()
	c := &awsv1.EC2NodeClass{}
	if err := yaml.Unmarshal([]byte(fullClass), c); err != nil {
		t.Fatal(err)
	}
	base := classHash(t, fullClass)
	for name, f := range map[string]awsv1.Facts{
		"L-11 a role that is a profile": {ClusterName: "demo", KubernetesMinor: 34, RoleIsProfile: true},
		"strict compatibility":          {ClusterName: "demo", KubernetesMinor: 34, Strict: true},
		"a newer Kubernetes":            {ClusterName: "demo", KubernetesMinor: 35},
	} {
		if got, err := classhash.Of(c, f, "ca"); err != nil || got.Sum != base {
			t.Errorf("%s changes the hash (%v)", name, err)
		}
	}
	if _, err := classhash.Of(c, awsv1.Facts{ClusterName: "demo"}, "ca"); !errors.Is(err, classhash.ErrVersionUnknown) {
		t.Errorf("hash without a version: %v, want a refusal", err)
	}
}

// Whatever the order of lists and members, and whatever zero values are written down, the hash stays.
func TestHashIgnoresOrderAndZeroValues(t *testing.T) {
	t.Parallel()
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(fullClass), &tree); err != nil {
		t.Fatal(err)
	}
	base := classHash(t, fullClass)
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		text, err := json.Marshal(shuffled(tree, rand.New(rand.NewPCG(seed, 0))))
		if err != nil {
			t.Fatal(err)
		}
		c := &awsv1.EC2NodeClass{}
		if err := json.Unmarshal(text, c); err != nil {
			t.Fatal(err)
		}
		if got, err := classhash.Of(c, facts, "ca"); err != nil || got.Sum != base {
			t.Fatalf("hash %s (%v), want %s, for %s", got, err, base, text)
		}
	})
}

// shuffled returns a copy with the elements of every list in another order, but for the kubelet
// block: the order of name servers there is the user's.
func shuffled(v any, r *rand.Rand) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, inner := range v {
			if out[k] = inner; k != "kubelet" {
				out[k] = shuffled(inner, r)
			}
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, inner := range v {
			out = append(out, shuffled(inner, r))
		}
		r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		return out
	default:
		return v
	}
}

func FuzzKubeletBlock(f *testing.F) {
	for _, seed := range []string{`{}`, `{"maxPods":1e3}`, `{"a":[null,{"b":0}]}`, `[`, `null`, `"x"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, block string) {
		c := &awsv1.EC2NodeClass{}
		text, err := json.Marshal(map[string]any{"spec": map[string]any{"kubelet": json.RawMessage(block)}})
		if err != nil || json.Unmarshal(text, c) != nil {
			return
		}
		first, err := classhash.Of(c, facts, "")
		if err != nil {
			return
		}
		if second, _ := classhash.Of(c.DeepCopy(), facts, ""); first != second {
			t.Errorf("two hashes of one object: %s and %s", first, second)
		}
	})
}
