package clients

import (
	"context"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// The controller is found where users look for it. Not in parallel: other tests want a cluster without a controller.
func TestController(t *testing.T) {
	for _, namespace := range []string{"kube-system", "karpenter"} {
		t.Run(namespace, func(t *testing.T) {
			// So that nothing is missed, which would be said.
			installation := world.Installation{Namespace: namespace, Rules: world.Granted("optionalRights.limitRanges=true", "optionalRights.foreignLeases=true")}
			uninstall := func() {
				if err := shell.world.Uninstall(context.WithoutCancel(t.Context()), installation); err != nil {
					t.Error(err)
				}
			}
			if err := shell.world.Install(t.Context(), installation); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(uninstall)
			steps := []step{
				{name: "it runs", run: "kubectl rollout status deployment karpenter -n NS --timeout=120s"},
				{name: "S-098 pods", run: "kubectl get pods -n NS", want: []string{"karpenter-", "1/1", "Running"}},
				{name: "S-098 pods, searched", run: "kubectl get pods -n NS | grep karpenter", want: []string{"karpenter-"}},
				{name: "it is where the chart wants it", run: "kubectl describe pod -n NS -l app.kubernetes.io/name=karpenter", want: []string{"system-cluster-critical", "bootstrap-"}},
				{
					name: "it has begun", run: `for i in $(seq 100); do kubectl logs -n NS -l app.kubernetes.io/name=karpenter --tail=-1 | grep -q "Starting workers" && exit; sleep 0.3; done; exit 1`,
				},
				{name: "S-100 logs", run: "kubectl logs -n NS -l app.kubernetes.io/name=karpenter --tail=-1", want: []string{"Starting workers", `"controller"`}},
				{name: "Trust B08: a fresh log begins without errors", run: `! kubectl logs -n NS -l app.kubernetes.io/name=karpenter --tail=-1 | grep -E "ERROR|WARN"`},
				{name: "Trust D02: it holds the lease", run: "kubectl get lease karpenter-leader-election -n NS -o jsonpath={.spec.holderIdentity}", save: "HOLDER"},
				{
					name: "Trust D02: its metrics are reached through the Service", want: []string{"karpenter_build_info{"},
					run: `kubectl port-forward -n NS service/karpenter 18080:8080 > /dev/null & pid=$!; trap 'kill $pid' EXIT
						for i in $(seq 100); do if text=$(curl -sf http://127.0.0.1:18080/metrics); then grep karpenter_build_info <<< "$text"; exit; fi; sleep 0.2; done; exit 1`,
				},
				{name: "S-100 logs of the container", run: "kubectl logs -n NS -l app.kubernetes.io/name=karpenter -c controller --tail=1 | wc -l", want: []string{"2"}},
				{name: "S-100 logs, followed", run: "timeout 3 kubectl logs -f -n NS -l app.kubernetes.io/name=karpenter --tail=-1 || test $? -eq 124", want: []string{"Starting workers"}},
				{
					// It is read until the first line, not for a time.
					name: "S-195 logs of a pod by its name, followed", want: []string{`"level":`},
					run: `pod=$(kubectl get pods -n NS -l app.kubernetes.io/name=karpenter -o jsonpath='{.items[0].metadata.name}')
						[[ $pod =~ ^karpenter-[a-z0-9]+-[a-z0-9]+$ ]] && head -n 1 < <(kubectl logs -f "$pod" -n NS 2> /dev/null)`,
				},
				{name: "S-195 the Deployment", run: "kubectl get deployment karpenter -n NS -o name", want: []string{"deployment.apps/karpenter"}},
				{name: "S-101 logs, searched", run: `kubectl logs -n NS -l app.kubernetes.io/name=karpenter --tail=-1 | grep "instance type"`, want: []string{"discovered instance types"}},
				{name: "no log before this one", run: "kubectl logs -p -n NS -l app.kubernetes.io/name=karpenter", want: []string{"previous terminated container"}, fails: true},
				{name: "S-102 events", run: "kubectl get events -n NS --sort-by=.lastTimestamp", want: []string{"pod/karpenter-", "deployment/karpenter"}},
				{name: "S-102 events, searched", run: "kubectl get events -A | grep -i karpenter", want: []string{"ScalingReplicaSet"}},
				{
					// The administrator has a certificate, and so asks as a service account, through the API server and the kubelet. The
					// name of the holder is that of this machine: the only pod is it.
					name: "EX-35: it responds to queries", want: []string{`"kind": "node"`, `"answer": "`},
					run: `kubectl scale deployment karpenter -n NS --replicas=1 && kubectl create serviceaccount dovetail-inspect -n NS &&
						kubectl create clusterrole dovetail-inspect --verb=get --non-resource-url=/debug/decisions &&
						kubectl create clusterrolebinding dovetail-inspect --clusterrole=dovetail-inspect --serviceaccount=NS:dovetail-inspect
						trap 'kubectl delete clusterrolebinding,clusterrole dovetail-inspect' EXIT
						for i in $(seq 120); do
							text=$("$DOVETAIL" explain "$(kubectl get nodes -o name | head -n 1)" --controller-namespace NS --as-service-account NS/dovetail-inspect -o json)
							if [[ $text != *"based on objects"* ]]; then echo "$text"; exit; fi
							sleep 0.5 # until the other pod has ended, and the last one leads
						done; echo "$text"; exit 1`,
				},
			}
			for i := range steps {
				steps[i].run = strings.ReplaceAll(steps[i].run, "NS", namespace)
			}
			performSteps(t, steps)
			uninstall()
			performSteps(t, []step{
				{name: "its pods end in order", run: "kubectl wait pod -n " + namespace + " -l app.kubernetes.io/name=karpenter --for=delete --timeout=60s"},
				// The last of them may have taken it as it ended; then the next installation would wait until it has run out.
				{name: "its lease is free", run: "kubectl delete lease karpenter-leader-election --ignore-not-found -n " + namespace},
			})
		})
	}
}
