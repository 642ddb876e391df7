package solve_test

import (
	"fmt"

	"github.com/dovetail-sh/dovetail/internal/script"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Three pods that share two nodes: one that exists, and one to be bought.
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
		fmt.Println("buy", node.Types, "from", node.Pool, "for", node.Pods)
	}
	fmt.Printf("%.2f USD an hour\n", plan.Cost)
	// Output:
	// bind default/web-1 to n1
	// buy [large] from default for [default/web-2 default/web-3]
	// 0.19 USD an hour
}
