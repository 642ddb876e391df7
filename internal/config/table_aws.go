package config

import "time"

func clusterSettings() []setting {
	return []setting{
		{
			flag: "cluster-name", helm: "settings.clusterName", required: true,
			usage: "name of the cluster, for discovery and tags of ownership; required",
			as:    text(func(c *Config) *string { return &c.AWS.ClusterName }, notBlank, "the name of the cluster"),
		},
		{
			flag: "cluster-endpoint", helm: "settings.clusterEndpoint",
			usage: "URL of the API server for nodes; if empty, it is read from EKS",
			as:    text(func(c *Config) *string { return &c.AWS.ClusterEndpoint }, absoluteURL, "an absolute URL, such as https://api.example.com"),
		},
		{
			flag: "cluster-ca-bundle", helm: "settings.clusterCABundle",
			usage: "certificate authority for nodes, base64; if empty, the controller's own",
			as:    text(func(c *Config) *string { return &c.AWS.ClusterCABundle }, anyText, wantNothing),
		},
		{
			flag: "eks-control-plane", def: "false", helm: "settings.eksControlPlane",
			usage: "read the cluster's settings from EKS",
			as:    boolean(func(c *Config) *bool { return &c.AWS.EKSControlPlane }),
		},
		{
			flag: "isolated-vpc", def: "false", helm: "settings.isolatedVPC",
			usage: "call no service that lacks a VPC endpoint; on-demand prices are then not refreshed",
			as:    boolean(func(c *Config) *bool { return &c.AWS.IsolatedVPC }),
		},
	}
}

func awsSettings() []setting {
	return []setting{
		{
			flag: "vm-memory-overhead-percent", def: "0.075", helm: "settings.vmMemoryOverheadPercent",
			usage: "part of an instance's memory that the hypervisor takes, as a fraction; used until the real value was seen",
			as:    fraction(func(c *Config) *float64 { return &c.AWS.VMMemoryOverheadPercent }),
		},
		{
			flag: "interruption-queue", helm: "settings.interruptionQueue",
			usage: "SQS queue with interruption messages: name, ARN or URL; if empty, none is read",
			as:    queue(),
		},
		{
			flag: "reserved-enis", def: "0", helm: "settings.reservedENIs",
			usage: "network interfaces to leave out when counting how many pods fit; 1 for CNI custom networking",
			as:    integer(func(c *Config) *int { return &c.AWS.ReservedENIs }, zeroOrMore, "a whole number of 0 or more"),
		},
		{
			flag: "disable-dry-run", def: "false", helm: "settings.disableDryRun",
			usage: "do not try out a NodeClass with dry-run calls",
			as:    boolean(func(c *Config) *bool { return &c.AWS.DryRunDisabled }),
		},
		{
			flag: "enable-zonal-shift", def: "false", helm: "settings.enableZonalShift",
			usage: "make no nodes in zones that a zonal shift moved traffic away from",
			as:    boolean(func(c *Config) *bool { return &c.AWS.ZonalShift }),
		},
		{
			flag: "ami-refresh-interval", def: "1m", helm: "settings.amiRefreshInterval",
			usage: "how often images are looked up; 1m or more",
			as:    period(func(c *Config) *time.Duration { return &c.AWS.AMIRefreshInterval }, time.Minute, wantMinute),
		},
		{
			flag: "subnet-refresh-interval", def: "1m", helm: "settings.subnetRefreshInterval",
			usage: "how often subnets are looked up; 1m or more",
			as:    period(func(c *Config) *time.Duration { return &c.AWS.SubnetRefreshInterval }, time.Minute, wantMinute),
		},
		{
			flag: "aws-feature-gates", def: "NodeClassCEL=false", helm: "settings.awsFeatureGates",
			usage: "features of the AWS provider to switch, as in feature-gates",
			as:    gates(awsGates),
		},
	}
}
