package userdata_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dovetail-sh/dovetail/internal/aws/ami"
	"github.com/dovetail-sh/dovetail/internal/aws/kubelet"
	"github.com/dovetail-sh/dovetail/internal/aws/userdata"
)

var update = flag.Bool("update", false, "write the golden files")

// families are the names of all that a class can have once it is read.
func families() []string {
	var names []string
	for _, f := range ami.All() {
		if f.ReadAs == "" {
			names = append(names, f.Name)
		}
	}
	return names
}

// plain is what every document has at least.
func plain(family string) userdata.Input {
	return userdata.Input{
		Family: ami.Of(family), Cluster: "demo", Endpoint: "https://ABC.gr7.eu-west-1.eks.amazonaws.com", CABundle: "Y2E=", ServiceCIDR: "10.100.0.0/16",
		DNS:     "10.100.0.10",
		Labels:  map[string]string{"karpenter.sh/capacity-type": "spot", "karpenter.sh/nodepool": "default"},
		Taints:  []corev1.Taint{{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}},
		Kubelet: kubelet.Config{MaxPods: new(int32(29))},
	}
}

func settings(tb testing.TB, family string) kubelet.Config {
	tb.Helper()
	text := `{"maxPods": 50, "podsPerCore": 4, "clusterDNS": ["10.0.1.100"],
		"systemReserved": {"memory": "50Mi", "cpu": "100m"}, "kubeReserved": {"cpu": "200m", "ephemeral-storage": "3Gi"},
		"evictionHard": {"nodefs.available": "10%", "memory.available": "5%"}, "evictionSoft": {"memory.available": "500Mi"},
		"evictionSoftGracePeriod": {"memory.available": "1m"}, "evictionMaxPodGracePeriod": 60,
		"imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80, "cpuCFSQuota": false}`
	if family == ami.AL2023 {
		text = strings.Replace(text, "{", `{"topologyManagerPolicy": "best-effort", "serializeImagePulls": false, `, 1)
	}
	config, problems := kubelet.Parse(&runtime.RawExtension{Raw: []byte(text)})
	if len(problems) > 0 {
		tb.Fatal(problems)
	}
	if family == ami.Bottlerocket {
		config.PodsPerCore = nil
	}
	return config
}

// own is a text that people write, in the form of each family.
func own(family string) string {
	switch family {
	case ami.Bottlerocket:
		return "[settings.kubernetes]\ncloud-provider = 'aws'\n'made-up' = 1\nmax-pods = 7\n[settings.kubernetes.node-labels]\nteam = 'a'\n'karpenter.sh/nodepool' = 'mine'\n" +
			"[settings.kubernetes.node-taints]\nmine = ['x:NoSchedule']\n[settings.ntp]\ntime-servers = ['169.254.169.123']\n" +
			"[settings.bootstrap-commands.mine]\ncommands = [['apiclient', 'set', 'motd=hi']]\nmode = 'once'\nessential = false\n"
	case ami.Windows2019, ami.Windows2022, ami.Windows2025:
		return "<powershell>\nWrite-Host \"it's mine\"\n</powershell>"
	default:
		return "#!/bin/bash\r\necho 'own text' > /etc/motd\r\n"
	}
}

const archive = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="BOUNDARY"

--BOUNDARY
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo one
--BOUNDARY
Content-Type: text/cloud-config; charset="us-ascii"
Content-Disposition: attachment; filename="two.yaml"

#cloud-config
packages: [htop]
--BOUNDARY--
`

const nodeConfig = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config:
      maxPods: 5
    flags: ['--node-labels=own=label']
`

// cases are the goldens of every family; a document that suits none of its forms is left out.
func cases(tb testing.TB, family string) map[string]userdata.Input {
	tb.Helper()
	all := map[string]userdata.Input{}
	with := func(name string, change func(*userdata.Input)) {
		in := plain(family)
		change(&in)
		all[name] = in
	}
	with("plain", func(*userdata.Input) {})
	with("user-text", func(in *userdata.Input) { in.User = own(family) })
	with("kubelet", func(in *userdata.Input) { in.Kubelet = settings(tb, family) })
	with("taints-and-labels", func(in *userdata.Input) {
		in.Labels["team"], in.Labels["a.example.com/b"] = "x", ""
		in.Taints = append(in.Taints,
			corev1.Taint{Key: "team", Value: "x", Effect: corev1.TaintEffectNoSchedule},
			corev1.Taint{Key: "team", Value: "y", Effect: corev1.TaintEffectNoExecute},
			corev1.Taint{Key: "start", Effect: corev1.TaintEffectPreferNoSchedule})
	})
	with("raid0", func(in *userdata.Input) { in.RAID0, in.User = true, own(family) })
	with("raid0-new-image", func(in *userdata.Input) { in.RAID0, in.BottlerocketVersion = true, "1.46.0" })
	with("ipv6", func(in *userdata.Input) { in.DNS, in.ServiceCIDR = "fd30:1c53:5f8a::a", "fd30:1c53:5f8a::/108" })
	with("nothing-known", func(in *userdata.Input) {
		in.DNS, in.Labels, in.Taints = "", nil, nil
	})
	if family != ami.Bottlerocket {
		with("mime", func(in *userdata.Input) { in.User = archive })
		with("nodeconfig", func(in *userdata.Input) { in.User = nodeConfig })
		with("shell", func(in *userdata.Input) { in.User = "#!/bin/sh\n# key: value\n" })
		with("shell-without-shebang", func(in *userdata.Input) { in.User = "echo hello" })
		with("single-mime-part", func(in *userdata.Input) {
			in.User = "Content-Type: text/cloud-config\nSubject: mine\n\n#cloud-config\npackages: [htop]\n"
		})
	}
	return all
}

// What users write is merged with what a node needs to join, in whatever form they write it. S-073: a shell
// script for AL2 is one part, the generated bootstrap another.
func TestRender(t *testing.T) {
	t.Parallel()
	for _, family := range families() {
		for name, in := range cases(t, family) {
			t.Run(family+"/"+name, func(t *testing.T) {
				t.Parallel()
				got, err := userdata.Render(in)
				if err != nil {
					t.Fatal(err)
				}
				if again, _ := userdata.Render(in); again != got {
					t.Error("not deterministic")
				}
				golden(t, filepath.Join("testdata", strings.ToLower(family), name+".txt"), got)
			})
		}
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (run with -update to accept)\n%s", path, diff)
	}
}

func TestRenderRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*userdata.Input)
		want   string
	}{
		"an unknown family":             {func(in *userdata.Input) { in.Family = ami.Of("Unheard") }, "Unheard"},
		"AL2023 without a service CIDR": {func(in *userdata.Input) { in.ServiceCIDR = "" }, "service CIDR"},
		"broken MIME on AL2023":         {func(in *userdata.Input) { in.User = "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nx" }, "boundary"},
		"broken MIME on AL2":            {func(in *userdata.Input) { in.Family, in.User = ami.Of(ami.AL2), "Content-Type: ;;\n\nx" }, "Content-Type"},
		"no TOML on Bottlerocket":       {func(in *userdata.Input) { in.Family, in.User = ami.Of(ami.Bottlerocket), "#!/bin/sh\necho" }, "TOML"},
		"settings that are no table":    {func(in *userdata.Input) { in.Family, in.User = ami.Of(ami.Bottlerocket), "settings = 1" }, "settings"},
		"kubernetes that is no table":   {func(in *userdata.Input) { in.Family, in.User = ami.Of(ami.Bottlerocket), "settings.kubernetes = 1" }, "kubernetes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := plain(ami.AL2023)
			tc.change(&in)
			if _, err := userdata.Render(in); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q in it", err, tc.want)
			}
		})
	}
}

// Images from 1.46.0 on know by themselves what to put on local disks (EC2NodeClass 11).
func TestBottlerocketVersions(t *testing.T) {
	t.Parallel()
	for version, old := range map[string]bool{
		"": true, "1.45.9": true, "v1.45.0": true, "0.99.0": true, "x.y": true, "1": true,
		"1.46.0": false, "v1.46.0": false, "1.100.1": false, "2.0.0": false, "latest": false,
	} {
		in := plain(ami.Bottlerocket)
		in.RAID0, in.BottlerocketVersion = true, version
		text, err := userdata.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(text, "/var/lib/containerd"); got != old {
			t.Errorf("version %q: directories given %v, want %v", version, got, old)
		}
	}
}

// Expressions that the gate turned off leave nothing behind in the document of AL2023.
func TestExpressionsDoNotReachTheNode(t *testing.T) {
	t.Parallel()
	config, _ := kubelet.Parse(&runtime.RawExtension{Raw: []byte(`{"maxPods": "vcpus * 10", "kubeReserved": {"cpu": "vcpus * 10"}}`)})
	config, err := config.For(kubelet.Machine{VCPUs: 2, Pods: 29}, false)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxPods = new(int32(29))
	in := plain(ami.AL2023)
	in.Kubelet = config
	text, err := userdata.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "vcpus") || !strings.Contains(text, "maxPods: 29") {
		t.Error(text)
	}
}

func TestQuotesCannotLeaveTheirWord(t *testing.T) {
	t.Parallel()
	for family, want := range map[string]string{ami.AL2: `'it'\''s'`, ami.Windows2022: `'it''s'`} {
		in := plain(family)
		in.Cluster = "it's"
		if text, err := userdata.Render(in); err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: %v\n%s", family, err, text)
		}
	}
}

// Flags go through a shell, the bootstrap script of the image and a unit file of systemd: a line break or a
// quotation mark would be read as something else by one of them.
func TestTrust_C01_FlagsCannotCarryASecondLine(t *testing.T) {
	t.Parallel()
	for _, family := range []string{ami.AL2, ami.Windows2022, ami.AL2023} {
		for name, change := range map[string]func(*userdata.Input){
			"label":    func(in *userdata.Input) { in.Labels = map[string]string{"team": "a\nExecStartPre=/bin/x"} },
			"quote":    func(in *userdata.Input) { in.Labels = map[string]string{"team": `a" --anonymous-auth=true "`} },
			"taint":    func(in *userdata.Input) { in.Taints[0].Value = "a'\nb" },
			"reserved": func(in *userdata.Input) { in.Kubelet.KubeReserved = map[string]string{"cpu": "1\r\n2"} },
			"eviction": func(in *userdata.Input) { in.Kubelet.EvictionHard = map[string]string{"memory.available": "5%`x`"} },
			"dns":      func(in *userdata.Input) { in.Kubelet.ClusterDNS = []string{"10.0.0.10\n--x"} },
		} {
			if family == ami.AL2023 && name != "label" && name != "quote" {
				continue // the rest is a file of its own form there
			}
			in := plain(family)
			change(&in)
			if text, err := userdata.Render(in); err == nil {
				t.Errorf("%s, %s: written as\n%s", family, name, text)
			}
		}
	}
}
