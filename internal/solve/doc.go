// Package solve decides which node each pod runs on, which nodes to launch, and which nodes can be removed. This comment
// is its manual: what goes in and out, the vocabulary, the phases in order, what always holds and who checks it, an
// example with numbers, and where to start reading.
//
// Not here: clients, clocks, logging, metrics and retries, which callers own; when to plan (internal/provision) and when
// to act on a consolidation (internal/disrupt); whether a plan obeys the rules (internal/check, which shares no code with
// this package). Start reading at Solve and Consolidate.
//
// # What goes in and out
//
// [Solve] takes a [Problem] and returns a [Plan]. A Problem is a cluster.Snapshot (nodes with their pods, NodePools with
// their instance types, DaemonSets), the pods to place, and a [Policy] for the choices that the rules leave open. A Plan
// lists the pods that fit nodes that exist or are being launched (Bind), the nodes to launch (Create), and the pods
// without a place, each with reasons (Unplaced). It also has its cost and a cost that no plan can beat (Bound).
//
// [Consolidate] takes a [Question]: a Snapshot and the names of the nodes that may be removed, the candidates. It returns
// a [Consolidation]: moves in execution order, and for each candidate that is kept the reason. A [Move] removes nodes,
// binds their pods to other nodes, and creates nodes for the rest.
//
// Both are total. They return no error: invalid input becomes a reason.Reason. Both poll a function, stop, and return what
// they have once it says true; the result is then Partial. A plan holds no pointers into the snapshot, so that it can be
// stored, compared and printed.
//
//	Snapshot ─▶ model.Compile ─▶ Model ─▶ exact, pack ─▶ State ─▶ WritePlan ─▶ Plan
//	                               │                       └────▶ explain  ─▶ Plan.Unplaced
//	                               └─▶ bound ─▶ Plan.Bound
//
// # Vocabulary
//
// The problem:
//
//   - Shape: what scheduling depends on in a pod. Equal pods share one (internal/cluster).
//   - Class: the pods to place that share a Shape. Pods are placed as counts of a class, never one object at a time.
//   - Need: one distinct set of node requirements, with what it leaves of each pool and each node.
//   - Profile: everything about a class but its size: need, tolerations, topology rules, host ports. Classes that differ
//     only in size share one.
//   - Variant: a profile of a class at one step of relaxation. A pod with preferences has several: the first has all of
//     them, each later one has one preference fewer.
//   - Group: the pods that a spread constraint, an affinity or an anti-affinity term counts, per domain. Constraints that
//     count the same pods share one.
//   - Domain: a value of a topology key: a zone, a host, or the value of any other label.
//   - Lane: the position of a resource in a vector. Each CSI driver has a lane too: its attachments.
//
// What can be launched:
//
//   - Catalogue: a list of instance types. Pools with equal lists share one.
//   - Column: a way to launch an instance type: zone, capacity type and, if there is one, capacity reservation. A type and a
//     column have a price.
//   - Pool capacity: what each type of a pool leaves to pods after the DaemonSet pods that would run on it.
//   - Reservation: capacity that is paid for already. So many nodes can hold it, and it is counted across pools.
//
// The plan in the making:
//
//   - State: what is free on each node, the bins, and how many pods of each group are in which domain.
//   - Place: a number for a node: existing nodes first, then bins.
//   - Bin: a planned node. It is not one instance type but all types and columns that could still be launched for its
//     pods; each pod narrows them.
//   - Trial: a bin as it would be with some more pods. It is compared, and then taken or dropped.
//   - Batch: pods of a class that are packed as a number. Their zone is assigned, and so is how many a host takes.
//   - Pattern: a way to fill one new node with pods of batches. It is used as often as there are pods for it.
//   - Worth: the price of resources in the cheapest mix of nodes that a linear program finds: of a core, a gigabyte, a
//     pod, or all that a node holds.
//
// The search for removable nodes:
//
//   - Candidate: a node that may be removed.
//   - Move: nodes that are removed together, and where their pods go.
//   - Step: a move that deletes nodes or replaces them by one node, placed exactly.
//   - Swap: a step for up to three nodes, found by what kube-scheduler would do.
//   - Forecast: where kube-scheduler, which spreads pods, will put the pods of a move. A move whose pods would not all
//     find a node is not made.
//
// # The phases of Solve
//
// 1. Compile (package model). Pods become classes, in the order in which they are placed: most CPU first, then most memory,
// then oldest. Requirements become rows of bits, quantities become vectors, topology rules become groups. Pods that run
// already are counted. Each class gets its variants, the steps of relaxation of SC-14.
//
// 2. Place planned pods. Pods that an earlier plan bound to a node stay there if the rules still allow it, so that a node
// that is being launched is filled as planned.
//
// 3. Place the rest in two ways, each on a Fork of the model, in parallel if the Policy allows:
//
//   - exact.State.PlaceAll follows the rules as they are written, class by class: existing nodes, then bins, then a new
//     bin in the first pool by weight that can offer one. Pods that do not fit give up one preference and are tried again.
//   - pack.Place first fills existing nodes, then turns rules into numbers and packs batches by worth; several attempts
//     differ in how they fill, and the cheapest is used. It leaves pods whose rules are not numbers to PlaceAll.
//
// 4. Choose. The state that placed more pods wins, then the cheaper one: price, interruption risk and node fee. A packed
// plan that stopped half-way and violates a spread constraint loses.
//
// 5. Write down and explain. WritePlan lists for each bin the types that hold its pods, cheapest first, at most [MaxTypes],
// and drops a node that this leaves without its minValues. Package spread divides the spot nodes of a workload over spot
// pools (decision 0032). Package explain replays the placement of a class that has pods left, pool by pool, and reports for
// each the step that came closest. Package bound solves the linear program without zones, spread and affinity.
//
// # The phases of Consolidate
//
// 1. Compile the cluster with the pods of all candidates as pods to place.
//
// 2. Search in two ways in parallel. Node by node: the most overpriced candidate first, its pods move to nodes that stay.
// Jointly: a linear program over existing and new nodes says how many of each kind are worth their price; these are kept
// and filled with the pods of all others, and the rest is packed onto new nodes.
//
// 3. Drop the moves that do not save enough ([Policy] MinSaving, per node and per pod), exceed the limits of a pool, or
// are unstable by the forecast. Of the two ways, the one that saves more is kept.
//
// 4. Compare with steps and swaps, as far as the number of candidates allows; decision 0012 has the table. Steps are the
// floor: no cluster ends more expensive than deleting or replacing one node at a time would leave it.
//
// 5. Explain why the other candidates are kept.
//
// # What always holds, and who checks it
//
//   - The same Problem gives the same Plan, byte for byte, whatever the order of its lists and the number of workers.
//     Lists are sorted by content before they are used, no loop over a map decides anything (internal/arch, order_test.go),
//     and parallel results are kept by index. Checked by internal/determinism, and for workers by internal/check
//     (workers_test.go).
//   - Every placement went through the functions of exact that know the rules, or was reduced to quotas that imply them.
//     internal/check verifies plans for random problems and for every script against the rules, with code of its own.
//   - A plan never costs more than the exact way alone: it is one of the two candidates in phase 4.
//   - Bound is never above the cost of a valid plan. It leaves rules out and never adds one.
//   - A Model is read-only after Compile except for memo tables, and a Fork has its own. A State belongs to one goroutine.
//   - What a State counts (groups, ports, claims, limits, reservations) changes only together with Placed or when a node is
//     closed, and every such change can be undone exactly: the forecast and the node-by-node search rely on it.
//   - Limits of pools are charged with the largest type that a bin may still become; reservations are held per bin.
//   - A pod moves at most once in a Consolidation: a node that has taken pods in is not removed, and a new node only takes
//     pods of its own move.
//   - Every move that creates a node lowers the cost of the cluster, and every other one lowers the number of nodes, so
//     that no cluster is reached twice.
//   - A pod without a place has at least one reason, most useful first, and never more than a handful.
//
// # An example
//
// ExampleSolve_byPrice runs this. Three instance types have four cores each: c with 8 GiB for 0.17 USD an hour, m with
// 16 GiB for 0.20 and r with 32 GiB for 0.26. One empty node, n1, is an m. To place: six pods web (1 core, 1 GiB), six
// pods cache (1 core, 6 GiB), and one pod arm that requires arch arm64, which no type has.
//
// Compile makes three classes; cache comes first, since the cores are equal and it requests more memory. All profiles are
// free of topology rules, so there are no groups.
//
// Both ways fill n1 first: two caches fit its 16 GiB, and two webs its other two cores. Four of each are left: 8 cores and
// 28 GiB.
//
// The exact way opens a bin for cache. Only r holds four of them (24 GiB), so the bin narrows to r: 0.26. The webs do not
// fit its cores, so they get a bin that leaves c, m and r open, to be launched as c: 0.17. Total 0.43.
//
// Packing runs the linear program first. Let a core be worth x and a GiB y: no type may be worth more than its price, so
// 4x + 8y ≤ 0.17, 4x + 16y ≤ 0.20 and 4x + 32y ≤ 0.26. For this demand x = 0.035 and y = 0.00375 are best: all three
// types are worth exactly their price, and what counts is that none is left half empty. An m filled with two caches and two
// webs uses all 4 cores and 14 of 16 GiB; that pattern fits twice. Total 0.40.
//
// Both place twelve pods, so the cheaper state wins: two new nodes with the types m and r, m first. The bound is 0.3775: it
// takes all 4 cores and 16 GiB of n1 off the demand, though only 14 GiB were used, and counts 8 x + 26 y. The plan is
// within 6 % of a cost that nothing can beat.
//
// The pod arm is unplaced. Its nearest misses are NoTypeMeetsRequirements for the pool and RequirementConflict for n1, both
// with what it requires: kubernetes.io/arch In [arm64].
//
// # Where to start reading
//
// Read [Solve]: one page that names every phase. Then, from the bottom up, each package with its own comment:
//
//   - bitset, parallel: sets of small numbers; independent work on several goroutines.
//   - model: plan.go for what goes in and out, class.go and profile.go for pods, catalogue.go and pool.go for what can be
//     launched, node.go for what exists, group.go and domain.go for topology. Compile calls them in order.
//   - exact: state.go (existing nodes), bin.go (planned nodes), rules.go and domain.go (topology), reservation.go, devices.go
//     (dynamic resource allocation), place.go (the order of attempts), launch.go (the plan written down).
//   - pack: pack.go, then batch.go (rules as numbers), job.go (worth), packer.go and fill.go (patterns).
//   - spread: spot nodes divided over spot pools, once a plan is written.
//   - bound: the lower bound.
//   - explain: unplaced.go, then pool.go and new_node.go for pools, node.go for existing nodes, fold.go for what is shown.
//   - consolidate: move.go, then mover.go (node by node), joint.go (all candidates), forecast.go, step.go, swap.go, and
//     strategy.go (which of them when); replacement.go says what a move must save, reserved.go what capacity that is paid
//     for is worth, and spread.go spreads new spot nodes.
//
// Imports between them point up this list only (internal/arch), and nothing outside internal/solve imports them.
//
// To see a decision, run `dovetail plan --explain` on a scenario, or write a script: testdata/scripts has hundreds of small
// clusters with their plans, by subject. A bug starts as a script there, or as a seed of internal/check.
//
// To change a rule of scheduling, change exact first, then what pack assumes about it, then the rule's step in explain, and
// verify it in internal/check from the text of the rule. To change what is cheap, change pack or consolidate: as long as
// they place through exact, they cannot break a rule. Figures for speed and cost come from `make bench`; plans that
// differ without a reason in the commit message are regressions.
package solve
