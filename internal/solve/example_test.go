package solve_test

import (
	"fmt"

	"github.com/dovetail-sh/dovetail/internal/script"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Three pods that share two nodes: one that exists, and one to be launched.
func ExampleSolve() {
	world := script.New()
	if _, err := world.Run(`
		type name=small cpu=2 price=0.10
		type name=large cpu=4 price=0.19
		pool name=default
		node name=n1 pool=default type=small
		pod name=web count=3 cpu=1500m
	`); err != nil {
		fmt.Println(err)
		return
	}
	view, pods := world.Snapshot()

	plan := solve.Solve(solve.Problem{View: view, Pods: pods}, func() bool { return false })

	for _, bind := range plan.Bind {
		fmt.Println("bind", bind.Pod, "to", bind.Node)
	}
	for _, node := range plan.Create {
		fmt.Println("launch", node.Types, "from", node.Pool, "for", node.Pods)
	}
	fmt.Printf("%.2f USD an hour\n", plan.Cost)
	// Output:
	// bind default/web-1 to n1
	// launch [large] from default for [default/web-2 default/web-3]
	// 0.19 USD an hour
}

// The example of the package comment: filling nodes by what resources are worth is cheaper than placing the largest pods first.
func ExampleSolve_byPrice() {
	world := script.New()
	if _, err := world.Run(`
		type name=c cpu=4 memory=8Gi price=0.17
		type name=m cpu=4 memory=16Gi price=0.20
		type name=r cpu=4 memory=32Gi price=0.26
		pool name=default
		node name=n1 pool=default type=m
		pod name=web count=6 cpu=1 memory=1Gi
		pod name=cache count=6 cpu=1 memory=6Gi
		pod name=arm cpu=1 memory=1Gi selector=arch:arm64
	`); err != nil {
		fmt.Println(err)
		return
	}
	view, pods := world.Snapshot()
	never := func() bool { return false }

	exact := solve.Solve(solve.Problem{View: view, Pods: pods, Policy: solve.Policy{Greedy: true}}, never)
	fmt.Printf("exact: %.2f USD an hour\n", exact.Cost)
	for _, node := range exact.Create {
		fmt.Println("launch", node.Types, "for", len(node.Pods), "pods")
	}
	plan := solve.Solve(solve.Problem{View: view, Pods: pods}, never)
	fmt.Printf("by price: %.2f USD an hour, at least %.4f\n", plan.Cost, plan.Bound)
	for _, node := range plan.Create {
		fmt.Println("launch", node.Types, "for", len(node.Pods), "pods")
	}
	for _, why := range plan.Unplaced[0].Why {
		fmt.Println(plan.Unplaced[0].Pod, why.Code, why.Subject, why.Want)
	}
	// Output:
	// exact: 0.43 USD an hour
	// launch [r] for 4 pods
	// launch [c m r] for 4 pods
	// by price: 0.40 USD an hour, at least 0.3775
	// launch [m r] for 4 pods
	// launch [m r] for 4 pods
	// default/arm NoTypeMeetsRequirements nodepool/default kubernetes.io/arch In [arm64]
	// default/arm RequirementConflict node/n1 kubernetes.io/arch In [arm64]
}
