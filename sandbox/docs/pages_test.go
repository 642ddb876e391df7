package docs

import "testing"

// Every page takes a cluster without NodePools and workloads as given, and leaves one.
const cleanUp = `kubectl delete deployment,statefulset,job,pdb,limitrange --all
kubectl delete nodepools --all --timeout=60s
kubectl delete ec2nodeclasses --all --timeout=60s`

// The class that the pools of the examples name.
const class = `sed "s/my-cluster/$CLUSTER_NAME/g" examples/nodepools/default-class.yaml | kubectl apply -f -`

// The pages, in the order in which they are read.
func list() []page {
	return []page{
		{name: "README.md"},
		// Before all others: what it installs is the controller that they talk to.
		{name: "docs/how-to/install.md", after: cleanUp},
		{
			name: "docs/tutorials/first-look.md", after: cleanUp,
			replace: []string{"/tmp/dovetail/", reader.world.EnvFile[:len(reader.world.EnvFile)-len("aws.env")]},
		},
		{
			name:    "docs/how-to/break-things.md",
			replace: []string{"/tmp/dovetail/", reader.world.EnvFile[:len(reader.world.EnvFile)-len("aws.env")]},
		},
		{
			name: "docs/how-to/convert-manifests.md", after: cleanUp,
			replace: []string{"make build\n", "", "/tmp/strict.yaml", "strict.yaml"},
			before:  "mkdir manifests && cp examples/seeds/s-079.yaml manifests/ && kubectl apply -f sandbox/demo/demo.yaml",
		},
		{name: "docs/how-to/ask-the-controller.md"},
		{
			// After the page above, which makes the account that it uses.
			name: "docs/how-to/why-a-node-stays.md", after: cleanUp + "\nkubectl delete clusterrolebinding,clusterrole dovetail-inspect\nkubectl delete serviceaccount dovetail-inspect -n kube-system",
			// The controller is a process of this machine, whose name is that of the holder.
			replace: []string{" 8080 &", " 18081:8080 &", "localhost:8080", "localhost:18081", "pod/${holder%%_*}", "deployment/karpenter"},
		},
		{
			name:    "docs/how-to/use-the-console.md",
			after:   "kubectl delete clusterrolebinding,clusterrole dovetail-viewer\nkubectl delete serviceaccount dovetail-viewer -n kube-system",
			replace: []string{" 8080 &", " 18082:8080 &", "localhost:8080", "localhost:18082", "pod/${holder%%_*}", "deployment/karpenter"},
		},
		{name: "docs/how-to/troubleshoot.md", before: class, after: cleanUp},
		{name: "docs/how-to/monitor.md", before: "kubectl create namespace monitoring", after: "kubectl delete namespace monitoring"},
		{name: "docs/how-to/upgrade.md"},
		{name: "docs/how-to/migrate-from-karpenter.md"},
		{name: "docs/how-to/tune-consolidation.md", before: class, after: cleanUp},
		{name: "docs/how-to/use-spot.md", before: class, after: cleanUp},
		{name: "docs/how-to/set-requests.md", before: class + "\nkubectl apply -f examples/nodepools/general.yaml", after: cleanUp},
		{name: "docs/how-to/stateful-workloads.md", before: class + "\nkubectl apply -f examples/nodepools/general.yaml", after: cleanUp + "\nkubectl delete pvc --all"},
		{name: "docs/how-to/migrate-from-cluster-autoscaler.md", after: cleanUp},
		{name: "docs/how-to/install-eksctl.md"},
		{name: "docs/how-to/uninstall.md"}, // last: it takes the CRDs away
	}
}

// Every shell block of the documentation does what the page says.
func TestPages(t *testing.T) {
	if reader.missing != "" {
		t.Skip("the installation needs aws: " + reader.missing)
	}
	for _, p := range withRunbooks(t, list()) {
		t.Run(p.name, p.typeIn)
	}
}
