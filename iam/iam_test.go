package iam

import (
	"encoding/json"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// partitions are those of AWS that have EKS, each with a region, and names as long as EKS takes them.
func partitions() map[string]Values {
	longest := Values{
		AccountID: "111122223333", ClusterName: strings.Repeat("c", 100), NodeRoleName: strings.Repeat("r", 64), QueueName: strings.Repeat("q", 80),
		OIDCProvider: "oidc.eks.ap-southeast-1.amazonaws.com/id/" + strings.Repeat("A", 32), Namespace: strings.Repeat("n", 63), ServiceAccount: strings.Repeat("s", 253),
	}
	list := map[string]Values{}
	for partition, region := range map[string]string{"aws": "ap-southeast-1", "aws-cn": "cn-northwest-1", "aws-us-gov": "us-gov-west-1"} {
		v := longest
		v.Partition, v.Region = partition, region
		list[partition] = v
	}
	return list
}

type statement struct {
	Sid, Effect      string
	Principal        any
	Action, Resource any
	Condition        map[string]map[string]any
}

func statements(t *testing.T, document string) []statement {
	t.Helper()
	var d struct {
		Version   string
		Statement []statement
	}
	decoder := json.NewDecoder(strings.NewReader(document))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		t.Fatal(err)
	}
	if d.Version != "2012-10-17" || len(d.Statement) == 0 {
		t.Errorf("version %q with %d statements", d.Version, len(d.Statement))
	}
	return d.Statement
}

func texts(t *testing.T, value any) []string {
	t.Helper()
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		list := make([]string, 0, len(v))
		for _, one := range v {
			list = append(list, texts(t, one)...)
		}
		return list
	default:
		t.Fatalf("%v is neither a text nor a list of texts", value)
		return nil
	}
}

// S-129: what AWS takes: at most 6144 characters a policy, not counting white space, with the longest
// names there can be, and ten policies on a role; ARNs of the partition and no other.
func TestS_129_DocumentsAreWhatAWSTakes(t *testing.T) {
	t.Parallel()
	space := regexp.MustCompile(`\s`)
	for partition, values := range partitions() {
		for _, d := range All() {
			t.Run(partition+" "+d.File, func(t *testing.T) {
				t.Parallel()
				filled, err := Fill(d, values)
				if err != nil {
					t.Fatal(err)
				}
				if n := len(space.ReplaceAllString(filled, "")); n > 6144 {
					t.Errorf("%d characters, of which AWS takes 6144", n)
				}
				if strings.Contains(filled, "$") {
					t.Error("a placeholder is left, which IAM takes for a policy variable")
				}
				for _, found := range regexp.MustCompile(`arn:[^:"]*`).FindAllString(filled, -1) {
					if found != "arn:"+partition {
						t.Errorf("%s: want arn:%s", found, partition)
					}
				}
				if strings.HasPrefix(d.File, "event-rules/") {
					return
				}
				seen := map[string]bool{}
				for _, s := range statements(t, filled) {
					if strings.HasPrefix(d.File, "policies/") && (s.Sid == "" || seen[s.Sid] || s.Resource == nil || s.Principal != nil) {
						t.Errorf("statement %q: want a name of its own, resources and no principal", s.Sid)
					}
					seen[s.Sid] = true
					for _, action := range texts(t, s.Action) {
						if strings.Contains(action, "*") && s.Effect == "Allow" {
							t.Errorf("statement %q allows %s: name each action", s.Sid, action)
						}
					}
				}
			})
		}
	}
	if n := len(Controller()); n > 10 {
		t.Errorf("%d policies, of which a role takes 10", n)
	}
}

// Every action has a row in the reference, and every row an action.
func TestEveryActionIsExplained(t *testing.T) {
	t.Parallel()
	granted := map[string]bool{}
	for _, d := range Controller() {
		filled, err := Fill(d, partitions()["aws"])
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range statements(t, filled) {
			for _, action := range texts(t, s.Action) {
				granted[action] = true
			}
		}
	}
	for _, u := range Uses() {
		if !granted[u.Action] || u.For == "" || u.Without == "" {
			t.Errorf("%s: granted %v, for %q, without it %q", u.Action, granted[u.Action], u.For, u.Without)
		}
		delete(granted, u.Action)
	}
	for action := range granted {
		t.Errorf("%s is granted and not explained, or explained twice", action)
	}
}

// Every file is one of the documents: the script and Terraform read the directory, the tests what Go names.
func TestEveryFileIsADocument(t *testing.T) {
	t.Parallel()
	var known []string
	for _, d := range All() {
		known = append(known, d.File)
	}
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".json") && !slices.Contains(known, path) {
			t.Errorf("%s is not a document of the package", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if list := ManagedPolicies(); len(list) != 4 || list[0] != "AmazonEKSWorkerNodePolicy" {
		t.Errorf("managed policies %q", list)
	}
}

func TestFillRefuses(t *testing.T) {
	t.Parallel()
	whole := partitions()["aws"]
	for name, tc := range map[string]struct {
		text   string
		change func(*Values)
		want   string
	}{
		"a missing value":             {text: `{"a":"${region}"}`, change: func(v *Values) { v.Region = "" }, want: "x.json: ${region} has no value"},
		"two missing values":          {text: `{"a":"${region} ${queue_name} ${region}"}`, change: func(v *Values) { v.Region, v.QueueName = "", "" }, want: "x.json: ${queue_name} has no value; ${region} has no value"},
		"an unknown placeholder":      {text: `{"a":"${aws:username}"}`, want: "x.json: the placeholder ${aws:username} is not known; there are ${account_id}, ${cluster_name}"},
		"a wildcard as a value":       {text: `{"a":"${node_role_name}"}`, change: func(v *Values) { v.NodeRoleName = "*" }, want: `x.json: ${node_role_name}: "*" has a character`},
		"a quote in a value":          {text: `{"a":"${cluster_name}"}`, change: func(v *Values) { v.ClusterName = `a"` }, want: `x.json: ${cluster_name}: "a\"" has a character`},
		"a placeholder in a value":    {text: `{"a":"${cluster_name}"}`, change: func(v *Values) { v.ClusterName = "${region}" }, want: "x.json: ${cluster_name}: \"${region}\" has a character"},
		"a line break in a value":     {text: `{"a":"${cluster_name}"}`, change: func(v *Values) { v.ClusterName = "a\n" }, want: `x.json: ${cluster_name}: "a\n" has a character`},
		"a document that is not JSON": {text: `{"a":"${region}"`, want: "x.json: not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := whole
			if tc.change != nil {
				tc.change(&values)
			}
			if filled, err := Fill(Document{File: "x.json", Text: tc.text}, values); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("filled %q, error %v; want %s", filled, err, tc.want)
			}
		})
	}
}
