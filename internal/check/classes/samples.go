package classes

// samples are valid classes. Together they set every field, to a value that is not its zero value; two are
// needed since some fields exclude each other. Of a field in a list the last place that has it is changed.
func samples() []string {
	return []string{
		`
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: alias}
spec:
  subnetSelectorTerms: [{tags: {discovery: demo}}, {id: subnet-1}]
  securityGroupSelectorTerms: [{tags: {discovery: demo}, name: web}, {id: sg-1}]
  amiSelectorTerms: [{alias: al2023@latest}]
  capacityReservationSelectorTerms: [{tags: {team: a}, ownerID: "111122223333", instanceMatchCriteria: open}, {id: cr-1}]
  placementGroupSelector: {name: group}
  userData: echo hi
  role: nodes
  tags: {team: a}
  kubelet: {maxPods: 20}
  blockDeviceMappings:
  - deviceName: /dev/xvda
    rootVolume: true
    ebs: {deleteOnTermination: true, encrypted: true, iops: 3000, kmsKeyID: key, snapshotID: snap-1, throughput: 125, volumeInitializationRate: 100, volumeSize: 20Gi, volumeType: gp3}
  instanceStorePolicy: RAID0
  networkInterfaces: [{networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}, {networkCardIndex: 1, deviceIndex: 1, interfaceType: interface}]
  detailedMonitoring: true
  associatePublicIPAddress: true
  ipPrefixCount: 1
  metadataOptions: {httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 2, httpTokens: required}
  connectionTracking: {tcpEstablishedTimeout: 60, udpStreamTimeout: 60, udpTimeout: 30}
  context: budget
  cpuOptions: {nestedVirtualization: enabled}
status:
  subnets: [{id: subnet-1, zone: us-east-1a, zoneID: use1-az1}]
  securityGroups: [{id: sg-1, name: web}]
  amis: [{id: ami-1, name: image, deprecated: true, requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}]
  capacityReservations:
  - {id: cr-1, instanceType: p4d.24xlarge, availabilityZone: us-east-1a, instanceMatchCriteria: open, ownerID: "111122223333", reservationType: default, state: active, interruptible: true, endTime: "2030-01-01T00:00:00Z"}
  instanceProfile: nodes
  conditions: [{type: Ready, status: "True", reason: Ready, message: ready, observedGeneration: 1, lastTransitionTime: "2030-01-01T00:00:00Z"}]
`,
		`
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: terms}
spec:
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
  amiFamily: AL2023
  amiSelectorTerms: [{tags: {team: a}, name: image, owner: self}, {ssmParameter: /images/mine}, {id: ami-1}]
  placementGroupSelector: {id: pg-1}
  instanceProfile: nodes
status:
  subnets: [{id: subnet-1, zone: us-east-1a, zoneID: use1-az1}]
  amis: [{id: ami-1, requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}]
`,
	}
}

// others are values to change a field to where the samples cannot simply be made longer, larger or the
// opposite. Nil leaves the field out.
func others() map[string]any {
	return map[string]any{
		"spec.amiFamily":                                              "Bottlerocket",
		"spec.amiSelectorTerms.alias":                                 "al2023@v20250101", // the family stays
		"spec.capacityReservationSelectorTerms.ownerID":               "444455556666",
		"spec.capacityReservationSelectorTerms.instanceMatchCriteria": "targeted",
		"spec.kubelet":                                                map[string]any{"maxPods": 21},
		"spec.blockDeviceMappings.ebs.volumeSize":                     "30Gi",
		"spec.blockDeviceMappings.ebs.volumeType":                     "io2",
		"spec.instanceStorePolicy":                                    nil,
		"spec.networkInterfaces.interfaceType":                        "efa-only",
		"spec.metadataOptions.httpEndpoint":                           "disabled",
		"spec.metadataOptions.httpProtocolIPv6":                       "enabled",
		"spec.metadataOptions.httpTokens":                             "optional",
		"spec.cpuOptions.nestedVirtualization":                        "disabled",
		"status.amis.requirements.operator":                           "NotIn",
		"status.capacityReservations.instanceMatchCriteria":           "targeted",
		"status.capacityReservations.ownerID":                         "444455556666",
		"status.capacityReservations.reservationType":                 "capacity-block",
		"status.capacityReservations.state":                           "expiring",
		"status.capacityReservations.endTime":                         "2031-01-01T00:00:00Z",
		"status.conditions.status":                                    "False",
		"status.conditions.lastTransitionTime":                        "2031-01-01T00:00:00Z",
	}
}
