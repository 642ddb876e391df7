package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
)

// chartValues are the values of the chart, as names with dots, and those that are groups of others.
func chartValues(t *testing.T) (values, groups []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(theChart, "templates", "_known.tpl"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if name := strings.TrimSpace(line); !strings.Contains(name, "{{") {
			all = append(all, name)
		}
	}
	for _, name := range all {
		if slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(other, name+".") }) {
			groups = append(groups, name)
		} else {
			values = append(values, name)
		}
	}
	if len(values) < 80 || !slices.Contains(groups, "settings.featureGates") {
		t.Fatalf("%d values, groups %v", len(values), groups)
	}
	return values, groups
}

// effects says for each value another one than the default, and a part of a line that then is rendered and by default is not.
// With a - right before it, it is the other way round.
const effects = `
nameOverride=scaler                                                        app.kubernetes.io/name: scaler
fullnameOverride=scaler                                                    name: scaler-core
additionalLabels.team=infra                                                team: infra
additionalAnnotations.owner=infra                                          owner: infra
imagePullPolicy=Never                                                      imagePullPolicy: Never
imagePullSecrets[0].name=registry                                          - name: registry
service.annotations.a=service                                              a: service
serviceAccount.create=false                                                serviceAccountName: default
serviceAccount.name=auto                                                   serviceAccountName: auto
serviceAccount.annotations.a=account                                       a: account
additionalClusterRoleRules[0].resources[0]=widgets                         - widgets
optionalRights.nominatePods=true                                           resources: [pods/status]
optionalRights.limitRanges=true                                            resources: [limitranges]
optionalRights.foreignLeases=true                                          verbs: [list]
inspect.subjects[0].name=sre                                               name: sre
networkPolicy.enabled=true                                                 kind: NetworkPolicy
networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus        app: prometheus
networkPolicy.egress[0].ports[0].port=6443                                 - port: 6443
flowSchemas.enabled=true                                                   name: workload-high
uninstall.enabled=false                                                    -kind: Job
uninstall.nodes=Release                                                    - --nodes=Release
uninstall.timeoutSeconds=60                                                - --timeout=60s
replicas=0                                                                 replicas: 0
revisionHistoryLimit=0                                                     revisionHistoryLimit: 0
strategy.rollingUpdate.maxUnavailable=0                                    maxUnavailable: 0
podLabels.team=pods                                                        team: pods
podAnnotations.a=pods                                                      a: pods
podDisruptionBudget.name=budget                                            name: budget
podDisruptionBudget.maxUnavailable=0                                       maxUnavailable: 0
podSecurityContext.fsGroup=1                                               fsGroup: 1
priorityClassName=high                                                     priorityClassName: "high"
terminationGracePeriodSeconds=0                                            terminationGracePeriodSeconds: 0
hostNetwork=true                                                           hostNetwork: true
schedulerName=mine                                                         schedulerName: "mine"
dnsPolicy=Default                                                          dnsPolicy: Default
dnsConfig.nameservers[0]=10.0.0.2                                          - 10.0.0.2
initContainers[0].name=first                                               name: first
nodeSelector.disk=ssd                                                      disk: ssd
affinity.nodeAffinity=null                                                 -nodeAffinity:
topologySpreadConstraints[0].topologyKey=rack                              topologyKey: rack
tolerations[0].key=mine                                                    key: mine
extraVolumes[0].name=data                                                  name: data
controller.containerName=main                                              - name: main
controller.image.repository=mirror/dovetail                                image: mirror/dovetail:0.1.0
controller.image.tag=v9                                                    image: ghcr.io/dovetail-sh/dovetail:v9
controller.image.digest=sha256:DIGEST                                      image: ghcr.io/dovetail-sh/dovetail:0.1.0@sha256:DIGEST
controller.env[0].name=ZERO,controller.env[0].value=0                      ZERO 0
controller.envFrom[0].configMapRef.name=more                               name: more
controller.securityContext.appArmorProfile.type=Unconfined                 type: Unconfined
controller.securityContext.seLinuxOptions.level=s0                         level: s0
controller.securityContext.seccompProfile.type=Localhost                   type: Localhost
controller.resources.limits.cpu=3                                          cpu: 3
controller.extraVolumeMounts[0].mountPath=/data                            mountPath: /data
controller.sidecarContainer[0].name=beside                                 name: beside
controller.sidecarContainer[0].name=b,controller.sidecarVolumeMounts[0].mountPath=/beside  mountPath: /beside
controller.metrics.port=9090                                               containerPort: 9090
controller.healthProbe.port=9091                                           containerPort: 9091
logLevel=debug                                                             value: "debug"
logOutputPaths[0]=/var/log/a                                               value: "/var/log/a"
logErrorOutputPaths[0]=/var/log/b                                          value: "/var/log/b"
settings.batchMaxDuration=11s                                              value: "11s"
settings.batchIdleDuration=2s                                              value: "2s"
settings.preferencePolicy=Ignore                                           value: "Ignore"
settings.minValuesPolicy=BestEffort                                        value: "BestEffort"
settings.clusterName=other                                                 value: "other"
settings.clusterEndpoint=https://other.example                             value: "https://other.example"
settings.clusterCABundle=b3RoZXI=                                          value: "b3RoZXI="
settings.isolatedVPC=true                                                  ISOLATED_VPC true
settings.eksControlPlane=true                                              EKS_CONTROL_PLANE true
settings.vmMemoryOverheadPercent=0                                         VM_MEMORY_OVERHEAD_PERCENT 0
settings.interruptionQueue=other                                           value: "other"
settings.enableZonalShift=true                                             ENABLE_ZONAL_SHIFT true
settings.reservedENIs=1                                                    RESERVED_ENIS 1
settings.ignoreDRARequests=false                                           IGNORE_DRA_REQUESTS false
settings.disableClusterStateObservability=true                             DISABLE_CLUSTER_STATE_OBSERVABILITY true
settings.disableDryRun=true                                                DISABLE_DRY_RUN true
settings.amiRefreshInterval=2m                                             AMI_REFRESH_INTERVAL 2m
settings.subnetRefreshInterval=3m                                          SUBNET_REFRESH_INTERVAL 3m
settings.consolidationHorizon=1h                                           CONSOLIDATION_HORIZON 1h
settings.consolidationPodCost=0                                            CONSOLIDATION_POD_COST 0
settings.consolidationMinSaving=0                                          CONSOLIDATION_MIN_SAVING 0
settings.consolidationMinNodeAge=5m                                        CONSOLIDATION_MIN_NODE_AGE 5m
settings.spotPoolShare=0.5                                                 SPOT_POOL_SHARE 0.5
settings.legacyNodeRepair=true                                             LEGACY_NODE_REPAIR true
settings.ledger=true                                                       LEDGER true
settings.strictCompatibility=true                                          STRICT_COMPATIBILITY true
settings.schedulerConfig=a: b                                              SCHEDULER_CONFIG a: b
settings.featureGates.nodeRepair=true                                      NodeRepair=true
settings.featureGates.reservedCapacity=false                               ReservedCapacity=false
settings.featureGates.nodeOverlay=false                                    NodeOverlay=false
settings.featureGates.spotToSpotConsolidation=true                         SpotToSpotConsolidation=true
settings.featureGates.staticCapacity=true                                  StaticCapacity=true
settings.featureGates.capacityBuffer=false                                 CapacityBuffer=false
settings.featureGates.terminateFirstDrift=true                             TerminateFirstDrift=true
settings.featureGates.terminateFirstRepair=true                            TerminateFirstRepair=true
settings.featureGates.podDeletionCostManagement=true                       PodDeletionCostManagement=true
settings.awsFeatureGates.nodeClassCEL=true                                 NodeClassCEL=true
grafanaDashboards.enabled=true                                             kind: ConfigMap
grafanaDashboards.namespace=grafana,grafanaDashboards.enabled=true         namespace: grafana
grafanaDashboards.additionalLabels.folder=Nodes,grafanaDashboards.enabled=true   folder: Nodes
grafanaDashboards.annotations.folder=Cost,grafanaDashboards.enabled=true   folder: Cost
`

// Those for Prometheus need its API, and have a test of their own.
func ofPrometheus(value string) bool {
	return strings.HasPrefix(value, "serviceMonitor.") || strings.HasPrefix(value, "prometheusRule.")
}

// lineSet are the lines of what was rendered, and each environment variable as one.
type lineSet map[string]bool

// has says whether a line has the part; an environment variable must have exactly the value.
func (l lineSet) has(part string) bool {
	if name, _, ok := strings.Cut(part, " "); ok && name == strings.ToUpper(name) && len(name) > 2 {
		return l[part]
	}
	for line := range l {
		if strings.Contains(line, part) {
			return true
		}
	}
	return false
}

// S-115, V15-04, install.md 2: every value there is makes a difference, zeros and booleans too.
func TestS_115_EveryValueIsRendered(t *testing.T) {
	t.Parallel()
	values, _ := chartValues(t)
	base := []string{"template", "karpenter", theChart, "--namespace", "kube-system", "--set", "settings.clusterName=sandbox"}
	digest := strings.Repeat("0a", 32)
	lines := func(t *testing.T, args ...string) lineSet {
		t.Helper()
		out, stderr, err := runHelm(t, append(slices.Clone(base), args...)...)
		if err != nil {
			t.Fatalf("%v: %s", args, stderr)
		}
		seen, name := lineSet{}, ""
		for line := range strings.Lines(out) {
			line = strings.TrimSpace(line)
			if variable, ok := strings.CutPrefix(strings.TrimPrefix(line, "- "), "name: "); ok {
				name = variable
			}
			if value, ok := strings.CutPrefix(line, "value: "); ok { // an environment variable in one line
				seen[name+" "+strings.Trim(value, `"`)] = true
			}
			seen[line] = true
		}
		return seen
	}
	policy := []string{"--set", "networkPolicy.enabled=true"}
	plain, withPolicy := lines(t), lines(t, policy...)
	var tried []string
	for row := range strings.Lines(strings.TrimSpace(strings.ReplaceAll(effects, "DIGEST", digest))) {
		set, part, _ := strings.Cut(strings.TrimSpace(row), "  ")
		part = strings.TrimSpace(part)
		for _, value := range values {
			if strings.HasPrefix(set, value+"=") || strings.HasPrefix(set, value+".") || strings.HasPrefix(set, value+"[") || strings.Contains(set, ","+value+"[") {
				tried = append(tried, value)
			}
		}
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			before, args := plain, []string{"--set", set}
			if strings.HasPrefix(set, "networkPolicy.") && set != "networkPolicy.enabled=true" {
				before, args = withPolicy, append(args, policy...)
			}
			after := lines(t, args...)
			if gone, ok := strings.CutPrefix(part, "-"); ok && !strings.HasPrefix(gone, " ") {
				if after.has(gone) || !before.has(gone) {
					t.Errorf("%q is there: %t; without the value: %t", gone, after.has(gone), before.has(gone))
				}
				return
			}
			if !after.has(part) || before.has(part) {
				t.Errorf("%q is there: %t; without the value: %t", part, after.has(part), before.has(part))
			}
		})
	}
	for _, value := range values {
		if !ofPrometheus(value) && !slices.Contains(tried, value) {
			t.Errorf("nothing is known of what %s does; add a row", value)
		}
	}
}

// A group of a values file in which all lines are comments is null, and Helm then drops all its defaults: the chart has to know them
// too.
func TestS_202_ChartTakesNulls(t *testing.T) {
	t.Parallel()
	values, groups := chartValues(t)
	sets := map[string]string{}
	for _, group := range groups {
		if group != "settings" {
			sets[group] = group + "=null"
		}
	}
	var all []string
	for _, value := range values {
		if value != "settings.clusterName" {
			all = append(all, value+"=null")
		}
	}
	sets["every value"] = strings.Join(all, ",")
	for name, set := range sets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := render(t, "--set", set).controllerDeployment(t)
			if *d.Spec.Replicas != 2 || d.Spec.Template.Spec.Containers[0].Image != "ghcr.io/dovetail-sh/dovetail:0.1.0" || d.Spec.Template.Spec.ServiceAccountName != "karpenter" {
				t.Errorf("%d replicas of %+v", *d.Spec.Replicas, d.Spec.Template.Spec)
			}
		})
	}
}

// install.md 6: what the optional objects say.
func TestChartNetworkPolicy(t *testing.T) {
	t.Parallel()
	r := render(t, "--set", "networkPolicy.enabled=true,flowSchemas.enabled=true,networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.name=monitoring")
	policy := objectAs[networkingv1.NetworkPolicy](t, r, "NetworkPolicy/karpenter").Spec
	if fmt.Sprint(policy.PodSelector.MatchLabels) != fmt.Sprint(r.controllerDeployment(t).Spec.Selector.MatchLabels) || fmt.Sprint(policy.PolicyTypes) != "[Ingress Egress]" {
		t.Errorf("%v of %v", policy.PolicyTypes, policy.PodSelector)
	}
	metrics, probes := policy.Ingress[0], policy.Ingress[1]
	if metrics.Ports[0].Port.StrVal != "http-metrics" || metrics.From[0].NamespaceSelector.MatchLabels["name"] != "monitoring" || probes.Ports[0].Port.StrVal != "http" || len(probes.From) > 0 {
		t.Errorf("ingress %+v", policy.Ingress)
	}
	var reached []string
	for _, rule := range policy.Egress {
		for _, port := range rule.Ports {
			reached = append(reached, fmt.Sprintf("%s/%s", *port.Protocol, port.Port))
		}
	}
	if got := strings.Join(reached, " "); got != "UDP/53 TCP/53 TCP/443 TCP/80" {
		t.Errorf("egress to %s", got)
	}
	for _, set := range []string{"networkPolicy.enabled=false,flowSchemas.enabled=false", "networkPolicy.enabled=,flowSchemas.enabled="} {
		wantWithout("NetworkPolicy/karpenter", "FlowSchema/karpenter")(t, renderChart(t, "template", "karpenter", theChart, "--set", "settings.clusterName=x", "--set-string", set))
	}
}

// Numbers of a values file arrive as floating point.
func TestChartNumbers(t *testing.T) {
	t.Parallel()
	d := renderChart(t, "template", "karpenter", theChart, "--values", valuesFile(t, "settings: {clusterName: 123456789012}\ncontroller: {env: [{name: LARGE, value: 1000000}, {name: PART, value: 0.05}]}")).controllerDeployment(t)
	for name, want := range map[string]string{"CLUSTER_NAME": "123456789012", "LARGE": "1000000", "PART": "0.05"} {
		if got, _ := environmentVariable(d, name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// What make charts packages: the tag of the image is the version of the chart, which is also what the program says of itself.
func TestPackagedChartInstallsItsVersion(t *testing.T) {
	t.Parallel()
	const version = "1.2.3-dev.gabcdef012345.dirty"
	dir := t.TempDir()
	for _, chart := range []string{theChart, crdsChart} {
		if _, stderr, err := runHelm(t, "package", chart, "--version", version, "--app-version", version, "--destination", dir); err != nil {
			t.Fatal(stderr)
		}
	}
	r := renderChart(t, "template", "karpenter", filepath.Join(dir, "karpenter-"+version+".tgz"), "--set", "settings.clusterName=x")
	d := r.controllerDeployment(t)
	equal(t, d.Spec.Template.Spec.Containers[0].Image, "ghcr.io/dovetail-sh/dovetail:"+version)
	equal(t, d.Labels["app.kubernetes.io/version"], version)
	equal(t, d.Labels["helm.sh/chart"], "karpenter-"+version)
	renderChart(t, "template", "karpenter-crd", filepath.Join(dir, "karpenter-crd-"+version+".tgz"))
}
