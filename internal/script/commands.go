package script

import "slices"

// Commands lists the words of the language.
func Commands() []Command {
	return slices.Concat(descriptionCommands(), queryCommands())
}

// descriptionCommands returns the commands that say what a cluster is.
func descriptionCommands() []Command {
	const podArguments = "name=web [count=3] [ns=default] [cpu=1 memory=1Gi nvidia.com/gpu=1] [labels=app:web] [selector=zone:a] " +
		`[requires="zone in a,b; arch in arm64 or zone in c"] [prefers="10/zone in a"]… [tolerates=dedicated=x:NoSchedule,gpu] ` +
		"[spread=zone/1[/ScheduleAnyway][/min:2][/match:app=x][/keys:version][/affinity:Ignore][/taints:Honor]]… " +
		"[affinity=zone/app=db[/weight:10][/ns:a,b|*][/nslabels:team=x]]… [anti=hostname/app=web[/…]]… " +
		`[ports=8080/TCP@10.0.0.1] [volumes=driver/claim-{n}|missing/claim] [zones="a or b"] [stays] [terminating] [virtual] [evictcost=2]`
	return []Command{
		{
			Name: "types", Do: readTypes,
			Usage:   "types [NAME…]: instance types of the built-in list, all of it without names",
			Example: "types c5.large c5.xlarge",
		},
		{
			Name: "type", Do: readType,
			Usage: "type name=m [count=3] cpu=4 [memory=16Gi] [pods=110] [nvidia.com/gpu=1] price=0.17[@zone,…] [spot=0.06] [zones=a,b,c] [arch=amd64] [label=key:value]… " +
				"[volumes=driver:3] [reserved=cr-1:2@a,…] [unavailable=a/spot,cr-1] [overhead=cpu:80m] [overlaid] [capacity-overlaid] [unsuited=WHY]",
			Example: "type name=c5.xlarge cpu=4 memory=8Gi pods=58 price=0.17 spot=0.06 zones=a,b reserved=cr-1:2@a unavailable=b/spot",
		},
		{
			Name: "pool", Do: readPool,
			Usage: `pool name=default [weight=10] [limits=cpu:8] [nodes=5] [requires="zone in a,b; team exists"] [minvalues=type:3] [labels=team:x] ` +
				"[taints=dedicated=x:NoSchedule] [startup=cni:NoSchedule] [types=m,l] [closed]: nodes= and limits= count the nodes of the pool",
			Example: `pool name=default weight=10 limits=cpu:8 requires="zone in a,b" taints=dedicated=x:NoSchedule`,
		},
		{
			Name: "node", Do: readNode,
			Usage: "node name=n1 pool=default type=m [zone=a] [captype=on-demand] [reservation=cr-1] [cpu=4 …] [labels=key:value] [taints=…] [volumelimits=driver:2|driver:none] [price=0.1] " +
				"[uninitialized|claimed|unlaunched requires=\"zone in a,b\"] [deleting] [settling] [free]; without pool= it is unmanaged and needs cpu= instead of type=",
			Example: "type name=m cpu=4 price=0.17\npool name=default\nnode name=n1 pool=default type=m zone=a\nnode name=old cpu=2 memory=4Gi labels=zone:b",
		},
		{
			Name: "pod", Do: readPod, Usage: "pod " + podArguments + "; count= numbers them web-1, web-2, …",
			Example: `pod name=web count=3 cpu=1 spread=zone/1 requires="arch in amd64" anti=hostname/app=web/weight:5`,
		},
		{
			Name: "bound", Do: readBound, Usage: "bound node=n1 [daemon] and the arguments of pod: pods that run on a node",
			Example: "node name=n1 cpu=4\nbound name=web count=2 cpu=1 node=n1",
		},
		{
			Name: "daemon", Do: readDaemon, Usage: "daemon and the arguments of pod: a DaemonSet",
			Example: `daemon name=logs cpu=100m requires="arch in amd64"`,
		},
		{
			Name: "namespace", Do: readNamespace, Usage: "namespace name=shop [labels=team:x]",
			Example: "namespace name=shop labels=team:x",
		},
		{
			Name: "policy", Do: readPolicy,
			Usage:   "policy [ignorepreferences] [besteffort] [fallback] [noreserved] [greedy] [fee=0.03] [workers=2] [spread=zone/1]…: replaces the policy; spread= is for pods without one",
			Example: "policy besteffort fee=0.03",
		},
		{
			Name: "without", Do: readWithout, Usage: "without NODE…: the nodes are gone and their pods are pending",
			Example: "node name=n1 cpu=4\nbound name=web cpu=1 node=n1\nwithout n1",
		},
		{
			Name: "reset", Do: readReset, Usage: "reset [keep=types,pools]: drop everything else", Example: "reset keep=types",
		},
	}
}

// queryCommands returns the commands that print.
func queryCommands() []Command {
	return []Command{
		{
			Name: "solve", Do: runSolve,
			Usage: "solve [count] [show=zone,captype,types,cost,pods,requests,offer,relaxed,KEY…] [why=all|codes]: place the pending pods and those of deleting nodes. " +
				"count groups pods by the line they come from and nodes that look alike; show picks the columns of new nodes, or none; why=codes leaves subject and values out",
			Example: "type name=m cpu=4 price=0.17\npool name=default\npod name=web count=2 cpu=1\nsolve count show=types,pods",
		},
		{
			Name: "explain", Do: runExplain, Usage: "explain [pod=web]: the sentences that say why pods are unschedulable",
			Example: "pod name=web cpu=1\nexplain pod=web",
		},
		{
			Name: "consolidate", Do: runConsolidate,
			Usage:   "consolidate [candidates=n1,n2] [count] [show=…] [why=…]: which nodes could go; all managed nodes are candidates unless named",
			Example: "type name=m cpu=4 price=0.17\npool name=default\nnode name=n1 pool=default type=m\nconsolidate",
		},
	}
}
