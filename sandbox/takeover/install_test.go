package takeover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// values10 are those that users of charts 1.0.0 and 1.0.1 had: some are gone since, and are passed over.
const values10 = `
nameOverride: ""
additionalLabels: {}
serviceAccount:
  create: true
  name: karpenter
  annotations: {}
webhook: {enabled: true, port: 8443, metrics: {port: 8001}, serviceNamespace: kube-system}
logConfig: {enabled: true, logLevel: {global: debug}}
controller:
  metrics: {port: 8080}
  healthProbe: {port: 8081}
settings:
  batchMaxDuration: 10s
  assumeRoleARN: ""
  assumeRoleDuration: 15m
  reservedENIs: "0"
  vmMemoryOverheadPercent: 0.075
  featureGates: {drift: true, spotToSpotConsolidation: false}
tolerations:
  - {key: CriticalAddonsOnly, operator: Exists, effect: NoSchedule}
`

// typedInTheSeeds is the command of S-114 with the values of S-115 and S-118; the chart is that of this repository.
const typedInTheSeeds = `helm install karpenter $CHARTS/karpenter --namespace $NAMESPACE --create-namespace \
  --set settings.clusterName=$CLUSTER_NAME \
  --set settings.clusterEndpoint=$CLUSTER_ENDPOINT \
  --set settings.interruptionQueue=$INTERRUPTION_QUEUE \
  --set controller.resources.requests.cpu=100m \
  --set controller.resources.requests.memory=256Mi \
  --set controller.resources.limits.cpu=1 \
  --set controller.resources.limits.memory=1Gi \
  --set 'tolerations[0].key=CriticalAddonsOnly' --set 'tolerations[0].operator=Exists' --set 'tolerations[0].effect=NoSchedule' \
  --wait`

// S-114 to S-119, S-194, S-202: helm install, test, upgrade, rollback and uninstall, as typed in the seeds, in both namespaces
// that the seeds know, into a cluster without CRDs.
func TestS_114_InstallAsInTheSeeds(t *testing.T) {
	if err := os.WriteFile(filepath.Join(shell.home, "values-1.0.yaml"), []byte(values10), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"karpenter", "kube-system"} {
		t.Run(namespace, func(t *testing.T) {
			bareCluster(t)
			here := func(line string) string {
				t.Helper()
				return runLine(t, strings.ReplaceAll(line, "$NAMESPACE", namespace))
			}
			for _, s := range []struct {
				name, run string
				want      []string
			}{
				{"S-114 install", typedInTheSeeds, []string{"STATUS: deployed", "REVISION: 1"}},
				{"S-117 the CRDs", "kubectl get crd | grep karpenter", []string{"nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"}},
				{"S-116 the account", "kubectl get serviceaccount karpenter -n $NAMESPACE", []string{"karpenter"}},
				{"S-119 where it runs", "kubectl get pods -n $NAMESPACE -l app.kubernetes.io/name=karpenter -o wide", []string{"2", "Running", "bootstrap-1", "bootstrap-2"}},
				{"S-118 what it tolerates", "kubectl get deployment karpenter -n $NAMESPACE -o jsonpath={.spec.template.spec.tolerations}", []string{`"effect":"NoSchedule","key":"CriticalAddonsOnly","operator":"Exists"`}},
				{"helm test", "helm test karpenter -n $NAMESPACE", []string{"karpenter-test", "Succeeded"}},
				{"S-202 upgrade with values of 1.0.x", "helm upgrade karpenter $CHARTS/karpenter -n $NAMESPACE --reset-then-reuse-values -f values-1.0.yaml --wait", []string{"REVISION: 2", "These are no values of this chart and have no effect:", "webhook"}},
				{"it leads", "kubectl wait lease/karpenter-leader-election -n $NAMESPACE --for=jsonpath='{.spec.holderIdentity}' --timeout=240s", nil},
				{"the CRDs get a release of their own", `kubectl label crd --all app.kubernetes.io/managed-by=Helm --overwrite && kubectl annotate crd --all --overwrite meta.helm.sh/release-name=karpenter-crd meta.helm.sh/release-namespace=$NAMESPACE &&
					helm upgrade --install karpenter-crd $CHARTS/karpenter-crd -n $NAMESPACE`, []string{"STATUS: deployed"}},
				{"rollback", "helm rollback karpenter 1 -n $NAMESPACE --wait", []string{"Rollback was a success"}},
				{"history", "helm history karpenter -n $NAMESPACE", []string{"Rollback to 1"}},
				{"uninstall", "helm uninstall karpenter -n $NAMESPACE --wait", []string{`release "karpenter" uninstalled`}},
				{"nothing is left", "! kubectl get all,pdb,role,rolebinding -n $NAMESPACE -o name | grep karpenter && ! kubectl get clusterrole,clusterrolebinding -o name | grep karpenter", nil},
				{"the CRDs stay", "helm uninstall karpenter-crd -n $NAMESPACE && kubectl get crd nodepools.karpenter.sh", []string{"kept", "nodepools.karpenter.sh"}},
			} {
				out := here(s.run)
				for _, want := range s.want {
					if !strings.Contains(out, want) {
						t.Errorf("%s: no %q in\n%s", s.name, want, out)
					}
				}
			}
		})
	}
}
