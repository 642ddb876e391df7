package clients

import "testing"

// Helm's own chart from its creation to its end. The chart's test pod has no tolerations, so a node
// without a taint is needed for it.
func TestHelm(t *testing.T) {
	t.Parallel()
	const values = " --set 'tolerations[0].key=CriticalAddonsOnly,tolerations[0].operator=Exists' --wait --timeout 60s"
	performSteps(t, inNewNamespace("helm", []step{
		{name: "version", run: "helm version", want: []string{"v3.22"}},
		{name: "create", run: "helm create web", want: []string{"Creating web"}},
		{name: "lint", run: "helm lint web", want: []string{"1 chart(s) linted, 0 chart(s) failed"}},
		{name: "template", run: "helm template web ./web", want: []string{"kind: Deployment", "helm.sh/chart: web-0.1.0"}},
		{name: "install", run: "helm install web ./web" + values, want: []string{"STATUS: deployed", "REVISION: 1"}},
		{name: "it runs", run: "kubectl get deploy,pods", want: []string{"1/1", "Running"}},
		{name: "list", run: "helm list", want: []string{"web-0.1.0", "deployed"}},
		{name: "a node for the test", run: "kubectl taint nodes " + second + " CriticalAddonsOnly-", want: []string{"untainted"}},
		{name: "test", run: "helm test web --timeout 60s", want: []string{"web-test-connection", "Succeeded"}},
		{name: "the taint is back", run: "kubectl taint nodes " + second + " CriticalAddonsOnly=true:NoSchedule", want: []string{"tainted"}},
		{name: "upgrade", run: "helm upgrade web ./web --set replicaCount=2" + values, want: []string{"has been upgraded", "REVISION: 2"}},
		{name: "two run", run: "kubectl get deploy", want: []string{"2/2"}},
		{name: "upgrade that cannot work", run: "helm upgrade web ./web --set replicaCount=2,nodeSelector.no=where --wait --timeout 2s", want: []string{"UPGRADE FAILED"}, fails: true},
		{name: "rollback", run: "helm rollback web 1 --wait --timeout 60s", want: []string{"Rollback was a success"}},
		{name: "history", run: "helm history web", want: []string{"superseded", "failed", "Rollback to 1"}},
		{name: "one runs", run: "kubectl get deploy", want: []string{"1/1"}},
		{name: "uninstall", run: "helm uninstall web --wait --timeout 60s", want: []string{`release "web" uninstalled`}},
		{name: "nothing is left", run: "helm list --all", avoid: []string{"web-0.1.0"}},
	}))
}
