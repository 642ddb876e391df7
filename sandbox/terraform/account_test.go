package terraform

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// accountContents is what the emulated account has, as SERVICE.PART, without what comes and goes by itself: instances that are
// terminated, sessions, and what repeated calls are known by.
func accountContents(t *testing.T) map[string]any {
	t.Helper()
	text, err := setting.world.AWS.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var snapshot struct {
		Model map[string]map[string]any
	}
	if err := json.Unmarshal(text, &snapshot); err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	for service, parts := range snapshot.Model {
		for part, content := range parts {
			out[service+"."+part] = content
		}
	}
	for _, part := range []string{"ec2.tokens", "iam.sessions", "sts.sessions"} {
		delete(out, part)
	}
	instances, _ := out["ec2.instances"].(map[string]any)
	maps.DeleteFunc(instances, func(_ string, i any) bool {
		return memberOf(i, "state") == "terminated" || memberOf(i, "state") == "shutting-down"
	})
	subnets, _ := out["ec2.subnets"].(map[string]any)
	for _, s := range subnets {
		if subnet, ok := s.(map[string]any); ok {
			delete(subnet, "cursor") // the next free address
			delete(subnet, "free")   // those of instances that are shutting down are not
		}
	}
	// Where the members are of interest, by what users know them by.
	associations, _ := out["eks.associations"].(map[string]any)
	byAccount := map[string]any{}
	for _, a := range associations {
		namespace, _ := memberOf(a, "namespace").(string)
		name, _ := memberOf(a, "serviceAccount").(string)
		byAccount[namespace+"/"+name] = true
	}
	entries := map[string]any{}
	list, _ := memberOf(out["eks.cluster"], "accessEntries").([]any)
	for _, e := range list {
		principal, _ := memberOf(e, "principal").(string)
		entries[principal] = true
	}
	out["eks.associations"], out["eks.entries"] = byAccount, entries
	if cluster, ok := out["eks.cluster"].(map[string]any); ok {
		delete(cluster, "accessEntries") // none and null are the same
	}
	return out
}

func memberOf(of any, name string) any {
	m, _ := of.(map[string]any)
	return m[name]
}

func names(of any) []string {
	m, _ := of.(map[string]any)
	return slices.Sorted(maps.Keys(m))
}

// checkCreated checks which members parts of the account have.
func checkCreated(t *testing.T, want map[string][]string) {
	t.Helper()
	got := map[string][]string{}
	all := accountContents(t)
	for part := range want {
		got[part] = names(all[part])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what there is in the account (-want +got):\n%s", diff)
	}
}

// sameAccount compares the account with how it was.
func sameAccount(t *testing.T, before map[string]any) {
	t.Helper()
	if diff := cmp.Diff(before, accountContents(t)); diff != "" {
		t.Errorf("the account is not as it was (-before +after):\n%s", diff)
	}
}
