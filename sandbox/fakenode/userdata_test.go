package fakenode

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func readSample(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "userdata", name+".txt"))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func TestParseUserData(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"karpenter.sh/capacity-type": "spot", "karpenter.sh/nodepool": "default"}
	taints := []corev1.Taint{
		{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute},
		{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule},
	}
	for name, want := range map[string]Config{
		"al2": {
			Family: AL2, Cluster: "demo", Labels: labels, Taints: taints, MaxPods: 29,
			KubeReserved:   map[string]string{"cpu": "100m", "memory": "500Mi"},
			SystemReserved: map[string]string{"memory": "50Mi"},
			EvictionHard:   map[string]string{"memory.available": "5%", "nodefs.available": "2Gi"},
		},
		"al2023": {
			Family: AL2023, Cluster: "demo", Taints: taints, MaxPods: 29,
			Labels: map[string]string{
				"own": "label", "karpenter.sh/capacity-type": "spot", "karpenter.sh/nodepool": "default",
			},
			KubeReserved: map[string]string{"cpu": "100m", "memory": "1Gi"},
		},
		"bottlerocket": {
			Family: Bottlerocket, Cluster: "demo", Labels: labels, Taints: taints, MaxPods: 29, RAID0: true,
			KubeReserved: map[string]string{"cpu": "100m"}, EvictionHard: map[string]string{"memory.available": "5%"},
		},
		"windows": {Family: Windows, Cluster: "demo", Labels: labels, Taints: taints, MaxPods: 110},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseUserData(readSample(t, name))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// Forms that people write by hand.
func TestParseOwnUserData(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		data string
		want Config
	}{
		"a plain script": {
			"#!/bin/bash\r\nset -e; sudo /etc/eks/bootstrap.sh demo --kubelet-extra-args \"--max-pods 8 --v=2\" && echo done",
			Config{Family: AL2, Cluster: "demo", MaxPods: 8},
		},
		"options before the name": {
			"#!/bin/sh\n/etc/eks/bootstrap.sh --use-max-pods false demo",
			Config{Family: AL2, Cluster: "demo"},
		},
		"an equals sign is not understood": {
			"#!/bin/sh\n/etc/eks/bootstrap.sh demo --kubelet-extra-args='--max-pods=8'",
			Config{Family: AL2, Cluster: "demo"},
		},
		"the last call counts": {
			"#!/bin/sh\n/etc/eks/bootstrap.sh one\n/etc/eks/bootstrap.sh two",
			Config{Family: AL2, Cluster: "two"},
		},
		"a NodeConfig alone": {
			"apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {cluster: {name: demo, apiServerEndpoint: https://x, certificateAuthority: eA==, cidr: 10.100.0.0/16}}",
			Config{Family: AL2023, Cluster: "demo"},
		},
		"TOML with dotted keys": {
			"settings.kubernetes.cluster-name = \"demo\"\nsettings.kubernetes.api-server = \"https://x\"\nsettings.kubernetes.cluster-certificate = \"eA==\"\nsettings.kubernetes.max-pods = \"7\"\n",
			Config{Family: Bottlerocket, Cluster: "demo", MaxPods: 7},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseUserData([]byte(tc.data))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

// What nodeadm and Bottlerocket refuse to boot from does not join here either.
func TestTrust_D04_UserDataThatNoNodeCouldBootFrom(t *testing.T) {
	t.Parallel()
	config := func(cluster string) string {
		return "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {cluster: {" + cluster + "}}"
	}
	settings := func(lines ...string) string {
		return "[settings.kubernetes]\n" + strings.Join(lines, "\n") + "\n"
	}
	const name, endpoint, certificate = `cluster-name = "demo"`, `api-server = "https://x"`, `cluster-certificate = "eA=="`
	for about, tc := range map[string]struct{ data, want string }{
		"only the name":             {config("name: demo"), "cidr"},
		"no endpoint":               {config("name: demo, certificateAuthority: eA==, cidr: 10.100.0.0/16"), "apiServerEndpoint"},
		"an endpoint without https": {config("name: demo, apiServerEndpoint: 10.0.0.1, certificateAuthority: eA==, cidr: 10.100.0.0/16"), "apiServerEndpoint"},
		"no certificate":            {config("name: demo, apiServerEndpoint: https://x, cidr: 10.100.0.0/16"), "certificateAuthority"},
		"a certificate as text":     {config("name: demo, apiServerEndpoint: https://x, certificateAuthority: '-----BEGIN', cidr: 10.100.0.0/16"), "certificateAuthority"},
		"no name":                   {config("apiServerEndpoint: https://x, certificateAuthority: eA==, cidr: 10.100.0.0/16"), "names no cluster"},
		"settings with a name only": {settings(name), "api-server"},
		"settings not trusted":      {settings(name, endpoint), "cluster-certificate"},
		"settings without a name":   {settings(endpoint, certificate), "names no cluster"},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			if _, err := ParseUserData([]byte(tc.data)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one about %s", err, tc.want)
			}
		})
	}
}

// With these a node never joins, and the reason is clear.
func TestBadUserData(t *testing.T) {
	t.Parallel()
	script := func(flags string) string {
		return "#!/bin/sh\n/etc/eks/bootstrap.sh demo --kubelet-extra-args '" + flags + "'"
	}
	for name, tc := range map[string]struct{ data, want string }{
		"nothing":                {" \n", "no user data"},
		"garbage":                {"\x00\x01\x02", "no MIME document"},
		"a script without call":  {"#!/bin/sh\necho hello", "calls /etc/eks/bootstrap.sh"},
		"an open quote":          {"#!/bin/sh\necho 'hello", "quote is not closed"},
		"no cluster":             {"#!/bin/sh\n/etc/eks/bootstrap.sh --use-max-pods false", "names no cluster"},
		"MIME without boundary":  {"MIME-Version: 1.0\nContent-Type: text/plain\n\nhello", "not multipart"},
		"MIME cut short":         {"Content-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/x-shellscript\n", "calls /etc/eks/bootstrap.sh"},
		"another kind":           {"Content-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: application/node.eks.aws\n\nkind: Pod\n--x--", "NodeConfig"},
		"a NodeConfig no YAML":   {"Content-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: application/node.eks.aws\n\n{{\n--x--", "NodeConfig"},
		"TOML of something else": {"[settings.ntp]\nx = 1", "no settings.kubernetes"},
		"TOML with an error":     {"[settings.kubernetes]\nx = = 1", "line 2"},
		"PowerShell without end": {"<powershell> hello", "has no end"},
		"PowerShell of others":   {"<powershell> hello </powershell>", "-EKSClusterName"},
		"a reserved label":       {script("--node-labels=node-role.kubernetes.io/worker=true"), "may not set"},
		"a bad label":            {script("--node-labels=a b"), "--node-labels"},
		"a bad value":            {script(`--node-labels="a=b c"`), "value of node label a"},
		"a bad taint":            {script("--register-with-taints=a=b:Never"), "no effect"},
		"a taint twice":          {script("--register-with-taints=a=b:NoSchedule,a=c:NoSchedule"), "twice"},
		"pods that are no count": {script("--max-pods=many"), "--max-pods"},
		"pods below zero":        {script("--max-pods=-1"), "negative"},
		"a bad reservation":      {script("--kube-reserved=cpu=lots"), "no amount"},
		"an amount without end":  {script("--kube-reserved=cpu=1e-99999999"), "no amount"},
		"a bad share":            {script(`--eviction-hard="memory.available<120%"`), "no percentage"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseUserData([]byte(tc.data))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q in it", err, tc.want)
			}
		})
	}
}

// Whatever the bytes, parsing ends, and what it accepts is what an API server accepts as a Node.
func FuzzParseUserData(f *testing.F) {
	for _, name := range []string{"al2", "al2023", "bottlerocket", "windows"} {
		f.Add(readSample(f, name))
	}
	f.Add([]byte("a = [[[[{b = '''c''', d.e = 1}]]]]"))
	f.Add([]byte("#!/bin/sh\ncat <<EOF <<-'X'\n\"\nEOF\n\tX\n/etc/eks/bootstrap.sh a\\\n b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseUserData(data)
		if err != nil {
			if !reflect.DeepEqual(c, Config{}) {
				t.Errorf("an error and a config: %v, %+v", err, c)
			}
			return
		}
		if c.Cluster == "" || c.Family == "" {
			t.Errorf("no cluster or family: %+v", c)
		}
		if err := c.check(); err != nil {
			t.Error(err)
		}
		machine := m5LargeCapacity()
		capacity := Capacity(machine, c, 0.02)
		for name, q := range Allocatable(machine, capacity, c) {
			if have := capacity[name]; q.Sign() < 0 || q.Cmp(have) > 0 {
				t.Errorf("allocatable %s is %s of %s", name, q.String(), have.String())
			}
		}
	})
}

func FuzzTOML(f *testing.F) {
	f.Add(string(readSample(f, "bottlerocket")))
	f.Add("[[a.b]]\nc = -1_0\n[a.b.d]\ne = 1979-05-27T07:32:00Z\nf = \"\"\"\\\n  x\\U0001F600\"\"\"\"")
	f.Fuzz(func(t *testing.T, text string) {
		if root, err := parseTOML(text); err == nil && root == nil {
			t.Error("neither a document nor an error")
		}
	})
}
