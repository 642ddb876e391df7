package ami

// table is every family (EC2NodeClass 8 and 9).
var table = []Family{
	{
		Name: AL2, Title: "AL2",
		Alias: "al2", Images: al2Images, LastMinor: 32, Instead: "al2023@latest or bottlerocket@latest", Successor: AL2023,
		UserData: ShellScript, BootstrapScript: "/etc/eks/bootstrap.sh", PodsPerCore: true,
		Disks: []Disk{{"/dev/xvda", 20}},
	},
	{
		Name: AL2023, Title: "AL2023",
		Alias: "al2023", Images: al2023Images,
		UserData: NodeConfig, NeedsServiceCIDR: true, AnyKubeletField: true, PodsPerCore: true,
		Disks: []Disk{{"/dev/xvda", 20}}, NotOn: []string{"a1"},
	},
	{
		Name: Bottlerocket, Title: "Bottlerocket",
		Alias: "bottlerocket", Images: bottlerocketImages,
		UserData: TOML,
		Disks:    []Disk{{"/dev/xvda", 4}, {"/dev/xvdb", 20}}, ReservesForMaxPods: true,
	},
	{
		Name: Windows2019, Title: "Windows 2019",
		Alias: "windows2019", Images: windowsImages("2019"),
		UserData: PowerShell, PodsPerCore: true,
		Disks: []Disk{{"/dev/sda1", 50}}, WindowsBuild: "10.0.17763", FixedPods: windowsPods, ReservesForMaxPods: true,
	},
	{
		Name: Windows2022, Title: "Windows 2022",
		Alias: "windows2022", Images: windowsImages("2022"),
		UserData: PowerShell, PodsPerCore: true,
		Disks: []Disk{{"/dev/sda1", 50}}, WindowsBuild: "10.0.20348", FixedPods: windowsPods, ReservesForMaxPods: true,
	},
	{
		Name: Windows2025, Title: "Windows 2025",
		Alias: "windows2025", Images: windowsImages("2025"), FirstMinor: 35, Instead: "windows2022@latest",
		UserData: PowerShell, PodsPerCore: true,
		Disks: []Disk{{"/dev/sda1", 50}}, WindowsBuild: "10.0.26100", FixedPods: windowsPods, ReservesForMaxPods: true,
	},
	{
		Name: Custom, Title: "Custom",
		UserData: Verbatim, AnyKubeletField: true, PodsPerCore: true,
	},
	{
		Name: Ubuntu, Title: "Ubuntu", ReadAs: AL2, Disks: []Disk{{"/dev/sda1", 20}},
	},
}

// windowsPods is the density of Windows, which does not depend on interfaces.
const windowsPods = 110
